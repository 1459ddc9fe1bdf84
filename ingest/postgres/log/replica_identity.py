"""Checks that the old rows in the log have the columns that the target table needs; the replica identity decides."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from penstock.formats.change import ImageRule
from penstock.ingest.database.unordered_deletes import note_unordered
from penstock.ingest.postgres.errors import IdentityTooWeak
from penstock.ingest.postgres.log import messages as log_messages
from penstock.ingest.postgres.log.messages import KEY
from penstock.ingest.postgres.relation import FULL

if TYPE_CHECKING:
    from penstock.byte_buffers import Bytes
    from penstock.ingest.postgres.relation import Relation


_AGAIN = "then start with --reset TABLE, which reads the table again and passes these changes"


def check_identity(relation: Relation, tag: Bytes, marker: Bytes, rule: ImageRule) -> None:
    """Raise IdentityTooWeak if updates or deletes lack values that the target table needs."""
    if relation.identity == FULL or not (tag != log_messages.INSERT).any():
        return
    fix = _fix(relation)
    # With REPLICA IDENTITY USING INDEX, old images have the columns of that index, and the primary key may be null
    # in them.
    identity = {column.name for column in relation.columns if column.in_identity}
    missing = [name for name in relation.key if name not in identity]
    if missing and (marker == KEY).any():
        raise IdentityTooWeak(
            "deletes and changed keys in the log lack columns of the primary key",
            table=relation.qualified,
            columns=", ".join(missing),
            hint=f"{fix} DEFAULT;  or FULL; {_AGAIN}",
        )
    watched = [column.name for column in relation.columns if rule.watches(column.name) and not column.in_identity]
    if (watched or rule.before_images == "all") and (tag == log_messages.UPDATE).any():
        raise IdentityTooWeak(
            "updates in the log lack the old row, which the target table needs",
            table=relation.qualified,
            columns=", ".join(watched) or "all",
            hint=f"{fix} FULL;  {_AGAIN}",
        )


def note_unordered_deletes(
    relation: Relation, tag: Bytes, marker: Bytes, rule: ImageRule, oddities: Counter[str]
) -> None:
    """Count deletes whose old row lacks columns of the target table's sequence.field."""
    if relation.identity == FULL:
        return
    missing = [column.name for column in relation.columns if rule.orders_by(column.name) and not column.in_identity]
    deletes = int(np.count_nonzero((tag == log_messages.DELETE) | (marker == KEY)))
    note_unordered(deletes, relation.qualified, missing, oddities, f"{_fix(relation)} FULL")


def _fix(relation: Relation) -> str:
    return f'ALTER TABLE "{relation.schema}"."{relation.table}" REPLICA IDENTITY'
