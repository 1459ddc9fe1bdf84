"""Snapshots that a pipeline was to read next, and that its source table no longer has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PositionLost
from penstock.pipelines.table_source.progress import TableProgress
from penstock.pipelines.table_source.upstream import Upstream
from penstock.table.errors import SnapshotMissing, SnapshotReplaced
from penstock.table.read.follow import is_another

_AGAIN = (
    "penstock run FILE --resnapshot  empties the target tables and reads the rows that the source tables have now;"
    "  --reset TABLE  does so for one target table"
)


@contextmanager
def lost_positions(table: str) -> Iterator[None]:
    """Raise PositionLost for a snapshot that has expired before it was read, or that a rollback has removed."""
    try:
        yield
    except SnapshotReplaced as error:
        raise PositionLost(error.message, source_table=table, hint=_AGAIN) from error
    except SnapshotMissing as error:
        raise PositionLost(
            "the table no longer has the snapshot that is to be read next",
            source_table=table,
            reason=error.message,
            hint=f"{_AGAIN}. A  consumer-id  keeps the snapshots that a pipeline has not read",
        ) from error


def check_history(table: Upstream, number: int, begin: TableProgress) -> None:
    """Raise PositionLost if a snapshot that was read has been replaced by another."""
    if is_another(table.store, number, begin.mark, begin.created):
        raise PositionLost(
            f"snapshot {number} was replaced after it was read: the table was rolled back, or created again",
            source_table=table.name,
            hint=_AGAIN,
        )
