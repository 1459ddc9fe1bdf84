"""Partitions in a Hive metastore, of tables with `metastore.partitioned-table`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.base import split_name
from penstock.table.catalog.hive_client import HiveMetastore
from penstock.table.catalog.hive_objects import new_partition
from penstock.table.meta.entries import FileKind, ManifestEntry
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore, branch_names
from penstock.table.options.definition import METASTORE_PARTITIONED_TABLE
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)

_KNOWN_MILLIS = 1_800_000  # as in Java
# The partitions that a metastore has, by their folders, and when it was asked. The key contains the version of the
# schema and its time, so that a table that is dropped and created again is compared again.
_known: dict[tuple[HiveMetastore, str, int, int], tuple[int, set[str]]] = {}
_lock = threading.Lock()


def shows_partitions(schema: TableSchema) -> bool:
    """Return whether the partitions of a table are in the metastore."""
    return bool(schema.partition_keys) and schema.typed[METASTORE_PARTITIONED_TABLE]


@dataclass(frozen=True, slots=True)
class HivePartitions:
    """The partitions that a metastore has of tables.

    The first commit of a process, and one every half hour, compares all partitions; the others add and drop those that
    they touch, by one request for all new ones.
    """

    metastore: HiveMetastore

    def follow(self, store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> None:
        """Add the partitions of a commit to the metastore, and drop those that it emptied.

        The commit is done, so a failure is only logged; the next commit compares all partitions.
        """
        schema = store.schemas.get(snapshot.schema_id)
        if store.paths.branch is not None or not shows_partitions(schema):
            return
        key = self.metastore, store.paths.root, schema.id, schema.time_millis
        now = store.ambient.now_millis()
        with _lock:
            asked, known = _known.pop(key, (0, set()))  # put back below, if nothing fails
        try:
            if now - asked < _KNOWN_MILLIS:
                known = self._touched(store, snapshot, Layout.of(schema), entries, known)
            else:
                asked, known = now, self.compare(store, snapshot)
        except (ConfigError, OSError) as error:
            log.warning("event=partitions_not_in_metastore table=%s reason=%s", store.name, error)
            return
        with _lock:
            _known[key] = asked, known

    def _touched(
        self, store: TableStore, snapshot: Snapshot, layout: Layout, entries: Sequence[ManifestEntry], known: set[str]
    ) -> set[str]:
        added = {entry.partition for entry in entries if entry.kind is FileKind.ADD}
        # A partition that lost files may have others left; only those without any are dropped.
        removed = {entry.partition for entry in entries if entry.kind is FileKind.DELETE} - added
        left = {entry.partition for entry in live_entries(store, snapshot, partitions=removed)} if removed else set()
        gone = {layout.partition_dir(partition) for partition in removed - left}
        return self._tell(store, layout, added | left, known, gone & known)

    def compare(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        """Add and drop all partitions that differ from those of the snapshot, and return those that are there then."""
        database, table = split_name(store.name)
        layout, known = Layout.of(store.schema()), self.metastore.partition_names(database, table)
        live = {entry.partition for entry in live_entries(store, snapshot)}
        gone = known - {layout.partition_dir(partition) for partition in live}
        return self._tell(store, layout, live, known, gone)

    def _tell(
        self, store: TableStore, layout: Layout, live: Iterable[bytes], known: set[str], gone: set[str]
    ) -> set[str]:
        database, table = split_name(store.name)
        new = {layout.partition_dir(partition): partition for partition in live}
        new = {folder: partition for folder, partition in new.items() if folder not in known}
        if new:
            # A partition is described like its table, except for its folder and its values.
            described = self.metastore.table(database, table)
            values = {folder: [*layout.partition_texts(partition).values()] for folder, partition in new.items()}
            self.metastore.add_partitions(
                database, table, [new_partition(described, folder, values[folder]) for folder in sorted(new)]
            )
        if gone and branch_names(store):
            gone = set()  # a branch may still have rows there
        for folder in sorted(gone):
            self.metastore.drop_partition(database, table, folder)
        return (known | new.keys()) - gone

    def replace(self, store: TableStore) -> None:
        """Add all partitions again, after the folder of the table has moved."""
        snapshot = store.snapshots.latest()
        if snapshot is None or not shows_partitions(store.schema()):
            return
        database, table = split_name(store.name)
        for folder in sorted(self.metastore.partition_names(database, table)):
            self.metastore.drop_partition(database, table, folder)
        self.compare(store, snapshot)
