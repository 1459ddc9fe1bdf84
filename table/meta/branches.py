"""The branches of a table, found by their folders."""

from __future__ import annotations

from penstock.table.meta.store import TableStore

_PREFIX = "branch-"


def branch_names(store: TableStore) -> list[str]:
    """Return the names of the table's branches, sorted."""
    names = (entry.name for entry in store.storage.list(store.paths.branches_folder) if entry.is_dir)
    return sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
