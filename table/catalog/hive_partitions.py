"""Partitions in a Hive metastore: of tables with `metastore.partitioned-table`, and tags shown as partitions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.base import split_name
from penstock.table.errors import ManifestMissing
from penstock.table.meta.entries import FileKind, ManifestEntry
from penstock.table.meta.live import delta_entries, live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore, branch_names
from penstock.table.meta.tag_files import TagFiles
from penstock.table.metastore.hive_client import HiveMetastore
from penstock.table.metastore.hive_objects import new_partition, partition_columns, shows_tags
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.partition_text import escaped

log = logging.getLogger(__name__)

_KNOWN_MILLIS = 1_800_000  # as in Java
_MOST_OF_OTHERS = 100  # snapshots of other writers that are read; after more, all partitions are compared


@dataclass(frozen=True, slots=True)
class _Known:
    """The partitions that a metastore has, by their folders.

    `asked` is when it was asked, `snapshot` the newest snapshot that was followed since.
    """

    asked: int = 0
    snapshot: int = 0
    folders: frozenset[str] = frozenset()


# The key contains the version of the schema and its time, so that a table that is dropped and created again is compared
# again.
_known: dict[tuple[HiveMetastore, str, int, int], _Known] = {}
_lock = threading.Lock()


def shows_partitions(schema: TableSchema) -> bool:
    """Return whether the partitions of a table are in the metastore."""
    return bool(partition_columns(schema)) and not shows_tags(schema)


@dataclass(frozen=True, slots=True)
class HivePartitions:
    """The partitions of tables in a metastore.

    The first commit of a process compares all partitions, and so does one commit every half hour. Other commits add and
    drop only the partitions that they touch, with one request for all new ones. Partitions that other writers have
    emptied since the last commit count as new, because those writers dropped them.
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
            before = _known.pop(key, _Known())  # put back below, if nothing fails
        try:
            asked, known = before.asked, None
            if now - asked < _KNOWN_MILLIS:
                known = _left_by_others(store, Layout.of(schema), before, snapshot)
            if known is not None:
                known = self._touched(store, snapshot, Layout.of(schema), entries, known)
            else:
                asked, known = now, self.compare(store)
        except (ConfigError, OSError) as error:
            log.warning("event=partitions_not_in_metastore table=%s reason=%s", store.name, error)
            return
        with _lock:
            _known[key] = _Known(asked, snapshot.id, frozenset(known))

    def _touched(
        self, store: TableStore, snapshot: Snapshot, layout: Layout, entries: Sequence[ManifestEntry], known: set[str]
    ) -> set[str]:
        added = {entry.partition for entry in entries if entry.kind is FileKind.ADD}
        # A partition that lost files may have others left; only those without any are dropped.
        removed = {entry.partition for entry in entries if entry.kind is FileKind.DELETE} - added
        left = {entry.partition for entry in live_entries(store, snapshot, partitions=removed)} if removed else set()
        gone = {layout.partition_dir(partition) for partition in removed - left}
        # Another writer may have added a partition that this one does not know of.
        return self._change(store, _values(layout, added | left), known, gone)

    def follow_history(self, store: TableStore) -> None:
        """Compare all partitions after a rollback or fast-forward. If this fails, the next commit compares them."""
        if store.paths.branch is not None or not shows_partitions(store.schema()):
            return
        with _lock:
            for key in [key for key in _known if key[:2] == (self.metastore, store.paths.root)]:
                del _known[key]
        try:
            self.compare(store)
        except (ConfigError, OSError) as error:
            log.warning("event=partitions_not_in_metastore table=%s reason=%s", store.name, error)

    def compare(self, store: TableStore) -> set[str]:
        """Add and drop all partitions that differ from the table. Return the partitions that exist afterwards."""
        # The names first: another writer adds a partition after its commit, so a newer state has its rows.
        known = self.metastore.partition_names(*split_name(store.name))
        live = _live(store)
        return self._change(store, live, known, known - live.keys())

    def _change(
        self, store: TableStore, live: Mapping[str, Sequence[str]], known: set[str], gone: set[str]
    ) -> set[str]:
        self._add(store, {folder: values for folder, values in live.items() if folder not in known})
        if gone and branch_names(store):
            gone = set()  # a branch may still have rows there
        self._drop(store, gone)
        return (known | live.keys()) - (gone - self._returned(store, gone))

    def _returned(self, store: TableStore, dropped: set[str]) -> set[str]:
        """Add those dropped partitions again that have rows by now, and return them.

        Another writer has committed the rows in the meantime. It knows the partitions and does not add them.
        """
        live = _live(store) if dropped else {}
        back = {folder: values for folder, values in live.items() if folder in dropped}
        self._add(store, back)
        return set(back)

    def _add(self, store: TableStore, new: Mapping[str, Sequence[str]]) -> None:
        if not new:
            return
        database, table = split_name(store.name)
        # A partition is described like its table, except for its folder and its values.
        described = self.metastore.table(database, table)
        parts = [new_partition(described, folder, [*new[folder]]) for folder in sorted(new)]
        self.metastore.add_partitions(database, table, parts)

    def _drop(self, store: TableStore, folders: Iterable[str]) -> None:
        for folder in sorted(folders):
            self.metastore.drop_partition(*split_name(store.name), folder)

    def follow_tags(self, store: TableStore, removed: Sequence[str]) -> None:
        """Add all tags that the metastore does not have, and drop the removed ones. A failure is only logged."""
        if store.paths.branch is not None or not shows_tags(store.schema()):
            return
        try:
            self.compare_tags(store, removed)
        except (ConfigError, OSError) as error:
            log.warning("event=tags_not_in_metastore table=%s reason=%s", store.name, error)

    def compare_tags(self, store: TableStore, removed: Sequence[str] | None = None) -> None:
        """Add all tags that the metastore does not have, and drop the removed ones; by default, all that do not exist.

        A writer of Java may have added a tag of the current period that does not exist yet.
        """
        (column,) = partition_columns(store.schema())
        live = _tags(store, column)
        known = self.metastore.partition_names(*split_name(store.name))
        over = known if removed is None else {_folder(column, name) for name in removed} & known
        self._add(store, {folder: values for folder, values in live.items() if folder not in known})
        self._drop(store, over - live.keys())

    def replace(self, store: TableStore) -> None:
        """Add all partitions again, after the folder of the table has moved."""
        if not partition_columns(store.schema()):
            return
        self._drop(store, self.metastore.partition_names(*split_name(store.name)))
        self.fill(store)

    def fill(self, store: TableStore) -> None:
        """Make the partitions of the metastore equal to the partitions of the table, or to its tags."""
        schema = store.schema()
        if shows_tags(schema):
            self.compare_tags(store)
        elif store.snapshots.latest_id() is not None and shows_partitions(schema):
            self.compare(store)

    def owed(self, store: TableStore) -> list[str]:
        """Return the partitions that `fill` would add or drop."""
        schema = store.schema()
        columns = partition_columns(schema)
        if not columns or store.paths.branch is not None:
            return []
        known = self.metastore.partition_names(*split_name(store.name))
        live = set(_tags(store, columns[0]) if shows_tags(schema) else _live(store))
        over = set() if branch_names(store) and not shows_tags(schema) else known - live
        return sorted((live - known) | over)


def _left_by_others(store: TableStore, layout: Layout, before: _Known, snapshot: Snapshot) -> set[str] | None:
    """Return the known partitions that no other writer has emptied since; None if that is not known."""
    if not 0 <= snapshot.id - before.snapshot - 1 <= _MOST_OF_OTHERS:
        return None  # also after a rollback
    emptied: set[bytes] = set()
    for number in range(before.snapshot + 1, snapshot.id):
        other = store.snapshots.find(number)
        if other is None:
            return None
        if other.commit_kind is not CommitKind.APPEND:
            try:
                entries = delta_entries(store, other)
            except ManifestMissing:  # the snapshot has expired meanwhile
                return None
            emptied |= {entry.partition for entry in entries if entry.kind is FileKind.DELETE}
            emptied -= {entry.partition for entry in entries if entry.kind is FileKind.ADD}
    return set(before.folders) - {layout.partition_dir(partition) for partition in emptied}


def _tags(store: TableStore, column: str) -> dict[str, list[str]]:
    """Return the values of partitions that stand for tags by their folders."""
    return {_folder(column, name): [name] for name in TagFiles(store.storage, store.paths.root).names()}


def _folder(column: str, tag: str) -> str:
    return f"{escaped(column)}={escaped(tag)}"


def _live(store: TableStore) -> dict[str, list[str]]:
    """Return the values of the partitions that have rows in the newest snapshot by their folders."""
    snapshot = store.snapshots.latest()
    entries = live_entries(store, snapshot) if snapshot is not None else ()
    return _values(Layout.of(store.schema()), {entry.partition for entry in entries})


def _values(layout: Layout, partitions: Iterable[bytes]) -> dict[str, list[str]]:
    """Return the values of partitions by their folders."""
    return {layout.partition_dir(partition): [*layout.partition_texts(partition).values()] for partition in partitions}
