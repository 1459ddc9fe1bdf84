"""The last step of CREATE OR REPLACE TABLE: a complete table takes the name of another one, which is deleted."""

from __future__ import annotations

from penstock.errors import CommitConflict, PenstockError
from penstock.storage.environment import Environment
from penstock.storage.open import is_object_store
from penstock.table.catalog.catalog import Catalog


def name_beside(name: str, role: str, environment: Environment | None = None) -> str:
    """Return a name, which no table has, for a table beside the table `name` in the same database."""
    return f"{name}_{role}_{(environment or Environment()).new_uuid()[:8]}"


def state_of(catalog: Catalog, name: str) -> str:
    """Return a text that changes with each commit to the table, and with each change of its schema."""
    table = catalog.table(name)
    latest = table.latest_snapshot
    # Manifest lists have unique names, so that a rollback and another commit do not give an earlier state again.
    newest = "no snapshot" if latest is None else f"snapshot {latest.id} ({latest.delta_manifest_list})"
    return f"schema {table.store.schema().id}, {newest}"


def take_name(catalog: Catalog, new: str, name: str, since: str) -> None:
    """Give the table `new` the name of the table `name`, which is deleted with its history.

    CommitConflict if the old table has another state than `since`, because rows of other jobs would be lost: the old
    table stays, and the new one is deleted. Readers find the old table or the new one, or no table for the moment
    between two renames, but never a part of a table. Where renaming copies files, the old table is deleted first, and
    the name is missing until the new one is copied.
    """
    if is_object_store(catalog.warehouse):
        try:
            _require_unchanged(catalog, name, name, since)
        except CommitConflict:
            catalog.drop_table(new)
            raise
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
        # Checked under its other name, by which no other job opens it.
        _require_unchanged(catalog, name, old, since)
        catalog.rename_table(new, name)
    except (OSError, PenstockError):
        catalog.rename_table(old, name)
        catalog.drop_table(new)
        raise
    catalog.drop_table(old)


def _require_unchanged(catalog: Catalog, name: str, place: str, since: str) -> None:
    found = state_of(catalog, place)
    if found != since:
        raise CommitConflict(
            "another job has changed the table while it was replaced: its rows would be lost",
            table=name,
            before=since,
            now=found,
            hint="the table is as that job left it: stop other writers, and run the statement again",
        )
