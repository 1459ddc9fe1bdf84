"""Marks by which a pipeline recognizes, at its next start, the tables that it has filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.schema.validation import UnusableName

Condition: TypeAlias = Literal["same", "missing", "empty", "another", "behind"]

REASONS: dict[Condition, str] = {
    "missing": "the table does not exist",
    "empty": "the table was created again, and is empty",
    "another": "the table is not the one that the pipeline filled",
    "behind": "the table was rolled back to before the pipeline's last commit",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """The identity of a table, by which it is recognized at the next start.

    It consists of the time of the table's first schema and the pipeline's last snapshot in it.
    """

    created: int
    snapshot: int | None = None
    user: str = ""
    batch: int = -1

    def is_of(self, snapshot: Snapshot) -> bool:
        return (snapshot.commit_user, snapshot.commit_identifier) == (self.user, self.batch)

    def was_set_back(self, made: Snapshot) -> bool:
        """Return whether the table was rolled back or created again before the pipeline made this snapshot.

        If so, an earlier snapshot had the same id. The snapshot of the mark itself is no sign of it: a batch was
        repeated.
        """
        return self.snapshot is not None and made.id <= self.snapshot and not self.is_of(made)

    def lost_all_after(self, newest: Snapshot) -> bool:
        """Return whether the table lacks the batch of the mark, given the pipeline's newest snapshot there."""
        return self.user == newest.commit_user and newest.commit_identifier < self.batch


def condition_of(warehouse: CatalogSettings, table: str, mark: Mark | None) -> Condition:
    """Return how a table of the warehouse compares to its mark. Without a mark, an empty table counts as the same."""
    store = _store(warehouse, table)
    if store is None:
        return "missing"
    if mark is None:
        return "same" if _has_no_snapshot(store) else "another"
    # The first schema is written when the table is created and never again, so another time means another table.
    if store.schemas.created_millis() != mark.created:
        return "empty" if _has_no_snapshot(store) else "another"
    if mark.snapshot is None:
        return "same"
    # After a rollback, ids are used again, so the snapshot with this id must also be the pipeline's.
    there, earliest = store.snapshots.find(mark.snapshot), store.snapshots.earliest_id()
    if there is not None:
        return "same" if mark.is_of(there) else "behind"
    # "same": the snapshot has expired
    return "same" if earliest is not None and earliest > mark.snapshot else "behind"


def is_empty(warehouse: CatalogSettings, table: str) -> bool:
    """Return whether the table has no snapshot, or does not exist."""
    store = _store(warehouse, table)
    return store is None or _has_no_snapshot(store)


def new_mark(warehouse: CatalogSettings, table: str) -> Mark | None:
    """Return a mark of the table as it is now; None if it does not exist."""
    store = _store(warehouse, table)
    return None if store is None else Mark(store.schemas.created_millis())


def _has_no_snapshot(store: TableStore) -> bool:
    return store.snapshots.latest_id() is None


def _store(warehouse: CatalogSettings, table: str) -> TableStore | None:
    """Open the table without caches, since a cached store may belong to a table that was dropped since."""
    try:
        return warehouse.opened(table)
    except (TableMissing, UnusableName):
        return None
