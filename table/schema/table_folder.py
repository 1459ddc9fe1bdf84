"""The folder of a table or a branch: its first schema file creates the table, and its schemas are deleted last."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.table.schema.numbered_files import numbered
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_schema import TableSchema

_LAST = ("snapshot", "schema")


def create_first_schema(storage: Storage, folder: str, schema: TableSchema) -> bool:
    """Create the first schema file of a table; return False if another process has created it.

    Raise ConfigError when the folder has snapshots without a schema: the new table would begin with their rows.
    """
    files = SchemaFiles(storage, folder)
    left = old_snapshots(storage, folder)
    if not left:
        return files.create(schema)
    if files.ids():  # another process has created the table and committed to it
        return False
    raise ConfigError(
        "the folder has snapshots of an older table whose schema is gone: the deletion of that table was interrupted",
        path=folder,
        snapshots=f"{left[0]} to {left[-1]}",
        hint="delete the folder, then create the table again",
    )


def old_snapshots(storage: Storage, folder: str) -> list[int]:
    """Return the ids of the snapshots in the folder of a table or branch that does not exist yet."""
    return sorted(numbered(storage, f"{folder}/snapshot", "snapshot-"))


def delete_table_folder(storage: Storage, folder: str) -> None:
    """Delete the folder of a table or a branch. Does nothing if it does not exist.

    The schemas are deleted last, so that after a crash the table still exists and can be dropped again. Without a
    schema it would be gone, and the next table of this name would begin with what is left of its snapshots and tags.
    The snapshots are deleted just before: until then a reader reports missing files, and does not see an empty table.
    """
    names = [entry.name for entry in storage.list(folder) if entry.is_dir]
    for name in (*(name for name in names if name not in _LAST), *(name for name in _LAST if name in names)):
        storage.delete_tree(f"{folder}/{name}")
    storage.delete_tree(folder)
