"""Table definitions that an older release stored in offsets: they cannot be compared with the catalog."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.ingest.postgres.offsets import PgProgress
    from penstock.ingest.postgres.server.catalog import PgTableFacts, TableName

log = logging.getLogger(__name__)
_NOTE = (
    "an older release planned the last batch, and its offsets describe definitions in another way: if columns, types, "
    "partitions or the publication of a table were altered since that batch, start once with --reset TABLE; penstock "
    "verify compares the rows"
)


def note_uncompared(progress: PgProgress, existing: Mapping[TableName, PgTableFacts]) -> None:
    """Log how many tables an older release described. This is so for one plan only: the next offsets are complete."""
    known = [(before, existing[name]) for name, before in progress.versions.items() if name in existing]
    count = sum(before.oid == now.oid and not before.marks and bool(now.marks) for before, now in known)
    if count:
        log.warning("event=definitions_not_compared tables=%d note=%s", count, _NOTE)
