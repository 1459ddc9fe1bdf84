"""The last step of CREATE OR REPLACE TABLE: a complete table takes the name of another one, which is deleted."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.storage.environment import Environment
from penstock.storage.open import is_object_store
from penstock.table.catalog.catalog import Catalog


def name_beside(name: str, role: str, environment: Environment | None = None) -> str:
    """Return a name, which no table has, for a table beside the table `name` in the same database."""
    return f"{name}_{role}_{(environment or Environment()).new_uuid()[:8]}"


def take_name(catalog: Catalog, new: str, name: str) -> None:
    """Give the table `new` the name of the table `name`, which is deleted with its history.

    Readers find the old table, the new one, or for the moment between two renames none; never a part of one. Where
    renaming copies files, the old table is deleted first, and the name is missing until the new one is copied.
    """
    if is_object_store(catalog.warehouse):
        catalog.drop_table(name)
        try:
            catalog.rename_table(new, name)
        except (OSError, PenstockError) as failure:
            failure.add_note(f"the new table is complete, and is {new}: ALTER TABLE {new} RENAME TO {name}")
            raise
        return
    old = name_beside(name, "old")
    catalog.rename_table(name, old)
    try:
        catalog.rename_table(new, name)
    except (OSError, PenstockError):
        catalog.rename_table(old, name)
        catalog.drop_table(new)
        raise
    catalog.drop_table(old)
