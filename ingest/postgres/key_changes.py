"""Changes of primary keys between two plans: the target keeps the key that it was created with."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.ingest.postgres.server.table_version import new_in_key

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.server.table_version import TableVersion

log = logging.getLogger(__name__)
_NOTE = (
    "the target table keeps its key, so rows with equal values in it are merged; create the table again to change its "
    "key"
)


def note_changed_key(connection: PgConnection, before: TableVersion, now: PgTableFacts) -> None:
    """Log that the key has other columns than in a version. With fewer of the same, no rows can be merged."""
    if new_in_key(connection, before, now):
        key = ",".join(now.key)
        log.warning(
            "event=key_changed table=%s before=%s now=%s note=%s", now.qualified, ",".join(before.key), key, _NOTE
        )
