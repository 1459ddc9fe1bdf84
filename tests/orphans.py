"""Finding and deleting orphan files in one call, as `Table.remove_orphan_files` does."""

from __future__ import annotations

from penstock.table.maintenance.file_deletion import SweepResult
from penstock.table.maintenance.orphans import delete_orphans, find_orphans
from penstock.table.meta.store import TableStore
from penstock.table.operations.executor import Executor


def remove_orphans(store: TableStore, older_than: int | None = None, executor: Executor | None = None) -> SweepResult:
    """Delete the orphans; see `find_orphans`."""
    return delete_orphans(store, find_orphans(store, older_than, executor), executor)
