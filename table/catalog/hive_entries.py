"""The entries of tables in a Hive metastore: found by name, opened as stores, and moved to another location."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.table.catalog.base import not_paimon, split_name
from penstock.table.catalog.hive_commits import HiveCommits
from penstock.table.catalog.hive_folders import HiveFolders
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.metastore.hive_client import HiveMetastore, NameMissing
from penstock.table.metastore.hive_objects import is_paimon


@dataclass(frozen=True, slots=True)
class HiveEntries:
    """The tables of a metastore. `commits` update the entries of the tables that are opened."""

    metastore: HiveMetastore
    folders: HiveFolders
    environment: Environment
    commits: HiveCommits

    def find(self, name: str) -> Any:
        """Return the entry with this name, of any kind; None without one."""
        try:
            return self.metastore.table(*split_name(name))
        except NameMissing:
            return None

    def table(self, name: str) -> Any:
        """Return the entry of a Paimon table; TableMissing, or ConfigError if the name is that of something else."""
        found = self.find(name)
        if found is None:
            raise TableMissing("there is no table", table=name, metastore=str(self.metastore))
        if not is_paimon(found):
            kind = (found.parameters or {}).get("table_type", found.tableType)
            raise not_paimon(name, kind, metastore=str(self.metastore))
        return found

    def location(self, name: str) -> str:
        return self.metastore.location(self.table(name))

    def store(self, name: str, location: str, branch: str | None = None) -> TableStore:
        """Open the table at a location, with commits that update its entry."""
        storage, root = self.folders.open(location)
        return TableStore.open(storage, root, branch, self.environment, self.commits, name)

    def relocate(self, name: str, location: str) -> None:
        """Enter another location, without moving files."""
        described = self.metastore.table(*split_name(name))
        described.sd.location = location
        self.metastore.alter(*split_name(name), described)


def check_case(name: str, kind: str) -> None:
    if name != name.lower():
        raise ConfigError(
            f"{name!r} cannot be the name of a {kind} in a Hive metastore: its names are lower case",
            hint=f"use {name.lower()!r}; a pipeline into a Hive metastore converts names",
        )
