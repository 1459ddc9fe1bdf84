"""Hive catalogs on a store like those on which Java relies on the lock: it overwrites files."""

from __future__ import annotations

from dataclasses import replace

from penstock.storage.base import Storage
from penstock.storage.environment import Environment
from penstock.table.catalog.hive_catalog import HiveCatalog
from penstock.table.catalog.hive_commits import HiveLocks
from penstock.table.catalog.hive_folders import HiveFolders, path_of
from penstock.table.metastore.hive_client import HiveMetastore
from tests.locked_catalog import OverwritingStorage


class OverwritingFolders(HiveFolders):
    """The folders of a metastore's tables on a store without conditional writes."""

    __slots__ = ()

    def open(self, location: str) -> tuple[Storage, str]:
        return OverwritingStorage(sync=False), path_of(location)


def overwriting_catalog(warehouse: str, metastore: HiveMetastore) -> HiveCatalog:
    """Return a catalog that opens its tables on a store that overwrites files."""
    backend = HiveCatalog(warehouse, {}, Environment(), metastore, HiveLocks(metastore, 60_000, 100))
    backend._entries = replace(backend._entries, folders=OverwritingFolders(metastore, {}))
    return backend
