"""Copies of tables: of the schema and current rows, or file by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow.compute as pc

from penstock.errors import ConfigError, StoreError
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.catalog.base import split_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.maintenance.file_deletion import with_folders
from penstock.table.maintenance.reachable import ReferencedFiles
from penstock.table.meta.live import live_entries
from penstock.table.meta.paths import external
from penstock.table.meta.snapshot import Snapshot, snapshot_json
from penstock.table.meta.store import TableStore
from penstock.table.operations.executor import Executor, OwnProcess, Threads
from penstock.table.operations.overwrite import OverwriteWriter
from penstock.table.operations.row_copies import RowCopies, copied, one_unit, units_between
from penstock.table.schema.table_schema import TableSchema

_PLACES = {"path"}  # options that apply only to the old table


def clone_table(
    source: Table,
    catalog: Catalog,
    name: str,
    *,
    where: pc.Expression | str | None = None,
    options: Mapping[str, str] | None = None,
    into_existing: bool = False,
    rows: bool = True,
    executor: Executor | None = None,
) -> Table:
    """Create `name` in `catalog` with the definition and the current rows of `source`.

    The definition is its columns, keys and options. The rows are committed as one snapshot (with postponed buckets, a
    second snapshot assigns the rows to buckets). An existing table is refused, or with `into_existing` overwritten if
    its columns are the same. History, tags and branches are not copied. To call it again after a crash, pass
    `into_existing`. `executor` runs a unit per bucket if both tables have the same buckets, or per split if the new
    table has none; otherwise one unit copies all rows. A unit holds a write buffer in memory.
    """
    if not catalog.table_exists(name):
        target = _created(source, catalog, name, options or {})
    elif into_existing:
        target = _existing(source, catalog, name)
    else:
        raise _exists(catalog, name)
    if rows:
        _copy(source, target, where, executor or OwnProcess())
    return target


def _created(source: Table, catalog: Catalog, name: str, options: Mapping[str, str]) -> Table:
    definition = source.definition
    catalog.create_database(split_name(name)[0], ignore_if_exists=True)
    kept = {key: value for key, value in definition.options.items() if key not in _PLACES}
    return catalog.create_table(
        name,
        definition.fields,
        definition.primary_keys,
        definition.partition_keys,
        {**kept, **options},
        definition.comment,
    )


def _existing(source: Table, catalog: Catalog, name: str) -> Table:
    target = catalog.table(name)
    if target.schema != source.schema:
        raise ConfigError(
            f"table {name!r} has other columns than {source.name}",
            warehouse=catalog.warehouse,
            hint="alter its columns, or clone into a new table",
        )
    return target


def _copy(source: Table, target: Table, where: pc.Expression | str | None, executor: Executor) -> None:
    # With an empty partition the whole table is replaced, also where `dynamic-partition-overwrite` is set.
    scan = source.scan(where=where).at_one_snapshot()
    store = target.store
    opened = partial(OverwriteWriter.open_on, store, {}, store.new_commit_user())
    splits = scan.plan().splits
    snapshot = scan.snapshot
    _check_history(source.store, snapshot)
    alone = snapshot is None or any(split.branch is not None for split in splits)
    units = one_unit(splits) if alone or snapshot is None else units_between(source.store, store, snapshot, splits)
    messages = copied(RowCopies(scan, opened), units, executor, store)
    with target.overwrite(partition={}) as writer:
        writer.commit_messages(messages)
    if Layout.of(target.definition).mode is BucketMode.POSTPONE:
        target.compact(full=False, executor=executor)  # rows visible in the source must be visible in the copy


@dataclass(frozen=True, slots=True)
class FileUnit:
    """A file of a table, by its path below the table's folder."""

    path: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class FileCopy:
    """Copies files of one table to another, unless they are there already."""

    source: TableStore
    target: TableStore

    def __call__(self, unit: FileUnit) -> bool:
        """Copy a file; return whether it had to be copied. An interrupted copy leaves no part of a file."""
        source, target = self.source.paths.root + unit.path, self.target.paths.root + unit.path
        if self.target.storage.exists(target) and self.target.storage.size(target) == self.source.storage.size(source):
            return False
        self.target.storage.write(target, self.source.storage.read(source))
        return True


def copy_table(source: Table, catalog: Catalog, name: str, executor: Executor | None = None) -> Table:
    """Create `name` in `catalog` from copies of the files of the newest snapshot of `source`.

    The schemas, metadata and data files are copied. The snapshot keeps its id, and is written last: after a crash half
    way there is a table without rows. Call it again to copy the files that are missing; a table with snapshots is
    refused. History, tags, branches and consumers are not copied. `executor` copies files (default: some at a time),
    and keeps one in memory for each that it copies at a time.
    """
    if catalog.backend.owns_versions:
        raise ConfigError(
            "a table cannot be copied file by file into this catalog: its server has the snapshots of tables",
            table=name,
            warehouse=catalog.warehouse,
            hint="copy its rows: penstock clone",
        )
    store = source.store
    snapshot, versions = store.snapshots.latest(), store.schemas.ids()
    _check_history(store, snapshot)
    paths = [] if snapshot is None else _paths_of(store, snapshot)
    first = store.schemas.get(versions[0])
    if catalog.table_exists(name):
        _check_interrupted(catalog, name, first)
    else:
        catalog.create_database(split_name(name)[0], ignore_if_exists=True)
        if not catalog.backend.create_table(name, first):
            raise _exists(catalog, name)
    copied = catalog.store(name)
    for number in versions:
        copied.storage.write(copied.schemas.path(number), store.storage.read(store.schemas.path(number)))
    units = [FileUnit(path.removeprefix(store.paths.root)) for path in paths]
    for _ in (executor or Threads()).run(FileCopy(store, copied), units):
        pass
    if snapshot is not None:
        # Last, so that the table has no rows before all of its files are there.
        copied.storage.write(copied.paths.snapshot(snapshot.id), snapshot_json(snapshot))
        copied.snapshots.folder.write_earliest(snapshot.id)
        copied.snapshots.folder.write_latest(snapshot.id)
    # A metastore has the columns of the first version, and no partitions.
    copied = catalog.store(name)
    copied.evolve([], lambda *_: None)
    copied.commits.follow_history(copied, [])
    return catalog.table(name)


def _check_history(store: TableStore, snapshot: Snapshot | None) -> None:
    """Raise StoreError if the table has no snapshot because a fast-forward replaces all of them."""
    if snapshot is None and store.snapshots.folder.has_earliest_hint:
        raise StoreError(
            "the table has no snapshot, but it had some: a fast-forward is replacing them, or was interrupted",
            table=store.name,
            hint="copy the table after the fast-forward; if that was interrupted, fast-forward once more",
        )


def _check_interrupted(catalog: Catalog, name: str, first: TableSchema) -> None:
    """Raise ConfigError unless an interrupted copy left the table: it has the same first schema, and no snapshot."""
    store = catalog.store(name)
    versions = store.schemas.ids()
    if store.snapshots.latest() is not None or not versions or store.schemas.get(versions[0]) != first:
        raise _exists(catalog, name)


def _exists(catalog: Catalog, name: str) -> ConfigError:
    return ConfigError(f"table {name!r} exists already", warehouse=catalog.warehouse, hint="choose another name")


def _paths_of(store: TableStore, snapshot: Snapshot) -> list[str]:
    """Return every file needed for the rows of the snapshot, and for its changelog unless that has expired."""
    referenced, layout = ReferencedFiles(), Layout.of(store.schema())
    referenced.add_state(store, snapshot)
    left = ReferencedFiles()
    changelog = left.add_changelog(store, snapshot)
    # A snapshot that was restored from a tag may have no changelog any more.
    if all(store.storage.exists(store.paths.manifest(name)) for name in left.lists):
        referenced.add(left)
    paths = [store.paths.manifest(file) for file in (*referenced.manifests, *referenced.lists)]
    paths += [store.paths.statistics(file) for file in referenced.statistics]
    for index in referenced.indexes.values():
        folder = layout.partition_dir(index.partition)
        paths.append(external(index.external_path) or store.paths.index_file(index.name, folder, index.bucket))
    for entry, folder in with_folders(store, [*live_entries(store, snapshot), *changelog]):
        paths.append(external(entry.file.external_path) or f"{folder}/{entry.file.name}")
        paths += [f"{folder}/{extra}" for extra in entry.file.extra_files]
    # The copied metadata would name the same places, so that both tables would delete each other's files.
    outside = [path for path in paths if not path.startswith(f"{store.paths.root}/")]
    if outside:
        raise ConfigError(
            "a table with files outside of its folder cannot be copied file by file",
            file=outside[0],
            hint="copy its rows: INSERT INTO ... SELECT",
        )
    return paths
