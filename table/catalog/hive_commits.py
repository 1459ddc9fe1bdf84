"""Commits to tables of a Hive metastore: under a lock of the metastore, and with columns that it shows to others."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from penstock.errors import CommitConflict, ConfigError, StoreError
from penstock.storage.environment import Environment
from penstock.table.catalog.base import RepairedTable, split_name
from penstock.table.catalog.hive_partitions import HivePartitions
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import FileCommits, TableStore
from penstock.table.metastore.hive_client import HiveMetastore
from penstock.table.metastore.hive_objects import new_table, partition_columns, shows_tags, update
from penstock.table.options.definition import METASTORE_PARTITIONED_TABLE, METASTORE_TAG_TO_PARTITION
from penstock.table.schema.changes import Check, SchemaChange
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)

_FIRST_SLEEP_MILLIS = 50


@dataclass(frozen=True, slots=True)
class HiveLocks:
    """The exclusive locks of tables in a metastore, which Java's writers request too."""

    metastore: HiveMetastore
    acquire_millis: int
    max_sleep_millis: int

    @contextmanager
    def held(self, table: str, environment: Environment) -> Iterator[None]:
        """Hold the lock of a table; CommitConflict when it is not obtained in time.

        The metastore removes the lock of a process that died after its own timeout (`hive.txn.timeout`).
        """
        lock = self._acquire(table, environment)
        try:
            yield
        finally:
            self._release(table, lock)

    def _acquire(self, table: str, environment: Environment) -> int:
        deadline, sleep = environment.elapsed_millis() + self.acquire_millis, _FIRST_SLEEP_MILLIS
        try:
            lock, obtained = self.metastore.request_lock(*split_name(table))
            while not obtained:
                if environment.elapsed_millis() >= deadline:
                    # The request is withdrawn; otherwise the metastore would grant the lock later, when no process
                    # waits for it any more.
                    self._release(table, lock)
                    raise CommitConflict(
                        f"the table is locked by another writer: waited for {self.acquire_millis} ms",
                        table=table,
                        metastore=str(self.metastore),
                        hint="try again later",
                    )
                environment.sleep(sleep * (0.5 + environment.jitter()) / 1000)
                sleep = min(sleep * 2, self.max_sleep_millis)
                obtained = self.metastore.check_lock(lock)
        except (ConfigError, StoreError) as error:
            raise CommitConflict(
                f"the lock of the table cannot be requested: {error.message}",
                table=table,
                metastore=str(self.metastore),
                hint="a metastore without tables for locks refuses them: create these tables, or set "
                "lock.enabled = false for all writers if the store creates files only if they do not exist",
            ) from error
        return lock

    def _release(self, table: str, lock: int) -> None:
        """Release the lock. A failure is logged only: the commit is done, and the lock expires."""
        try:
            self.metastore.unlock(lock)
        except (ConfigError, StoreError) as error:
            log.warning("event=lock_not_released table=%s reason=%s", table, error.message)


@dataclass(frozen=True, slots=True)
class HiveCommits(FileCommits):
    """Commits by files. The metastore receives the columns and options of each new schema version."""

    metastore: HiveMetastore
    locks: HiveLocks | None = None

    def commit_snapshot(self, store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        """Create the snapshot's file. Then add new partitions to the metastore, if it has the table's partitions."""
        with self.exclusive(store):
            committed = FileCommits.commit_snapshot(self, store, snapshot, entries)
        if committed:
            # After the lock: the snapshot is committed, and a slow metastore must not keep other writers out.
            self.partitions.follow(store, snapshot, entries)
        return committed

    @property
    def partitions(self) -> HivePartitions:
        """Return the partitions in the metastore."""
        return HivePartitions(self.metastore)

    def evolve_schema(self, store: TableStore, changes: Sequence[SchemaChange], check: Check) -> TableSchema:
        """Create the file of the next schema version, and describe it in the metastore, which knows no branches.

        If the metastore did not answer, the version exists: the next change of the schema corrects the metastore.
        """

        def check_all(schema: TableSchema, before: TableSchema) -> None:
            check(schema, before)
            check_describable(schema)
            if partition_columns(schema) != partition_columns(previous):
                changed = next(
                    option.key
                    for option in (METASTORE_PARTITIONED_TABLE, METASTORE_TAG_TO_PARTITION)
                    if schema.typed[option] != previous.typed[option]
                )
                raise ConfigError(
                    f"{changed} cannot be changed: the metastore keeps the partition columns",
                    table=store.name,
                    option=changed,
                    hint="create a table with the option, and copy the rows: penstock clone",
                )

        with self.exclusive(store):
            previous = store.schema()
            evolved = FileCommits.evolve_schema(self, store, changes, check_all)
            if store.paths.branch is None:
                self._describe(store, previous, evolved)
            return evolved

    def exclusive(self, store: TableStore) -> AbstractContextManager[None]:
        """Hold the lock of the table, if commits are locked."""
        return self.locks.held(store.name, store.ambient) if self.locks else nullcontext()

    def follow_tags(self, store: TableStore, removed: Sequence[str] = ()) -> None:
        """Add the tags of the table to the metastore as partitions, if it shows them, and drop the removed ones."""
        self.partitions.follow_tags(store, removed)

    def follow_history(self, store: TableStore, removed: Sequence[str]) -> None:
        """Make the partitions, or tags, in the metastore those of the table after a rollback or fast-forward."""
        self.partitions.follow_tags(store, removed)
        self.partitions.follow_history(store)

    def owed_partitions(self, store: TableStore) -> list[str]:
        """Return the partitions, or tags, that differ between the metastore and the table."""
        return self.partitions.owed(store)

    def register(self, store: TableStore, location: str, *, exists: bool) -> RepairedTable:
        """Enter a table in the metastore, or correct the entry that exists, with its partitions."""
        check_describable(store.schema())
        if exists:
            with self.exclusive(store):  # a change of the schema in between would be described by its old version
                outcome = "updated" if self._correct(store, store.schema()) else "unchanged"
        else:
            self.metastore.create(new_table(*split_name(store.name), location, store.schema()))
            outcome = "added"
        self.partitions.fill(store)
        return RepairedTable(store.name, outcome)

    def _correct(self, store: TableStore, schema: TableSchema) -> bool:
        database, table = split_name(store.name)
        entry = self.metastore.table(database, table)
        shown = tuple(column.name for column in entry.partitionKeys or ())
        if shown != partition_columns(schema):
            raise ConfigError(
                f"the metastore has the partition columns ({', '.join(shown)}) and the table has "
                f"({', '.join(partition_columns(schema))}); a metastore cannot change them",
                table=store.name,
                hint="make the table external in Hive, drop it there, which keeps its files, and repair it again",
            )
        # All options that the table ever had.
        former = {key for number in store.schemas.ids() for key in store.schemas.get(number).options}
        if not update(entry, schema, former):
            return False
        self.metastore.alter(database, table, entry)
        return True

    def _describe(self, store: TableStore, previous: TableSchema, evolved: TableSchema) -> None:
        database, table = split_name(store.name)
        try:
            described = self.metastore.table(database, table)
            if update(described, evolved, previous.options):
                self.metastore.alter(database, table, described)
        # Only a refusal is certain. After a lost reply the metastore may have the new columns, so the version
        # stays.
        except ConfigError as refusal:
            if evolved.id != previous.id:
                store.storage.delete(store.schemas.path(evolved.id))
            raise ConfigError(
                f"the schema change is not possible in the metastore: {refusal.message}",
                table=store.name,
                metastore=str(self.metastore),
                # The metastore compares the types of columns by their positions.
                hint="a metastore with default settings allows only columns at the end and changes to wider types: a "
                "column in the middle, moved or dropped looks like a change of type. Add it without FIRST or AFTER, or "
                "set hive.metastore.disallow.incompatible.col.type.changes = false in the metastore",
            ) from refusal


def check_describable(schema: TableSchema) -> None:
    """Raise ConfigError for a schema that cannot be described in a metastore."""
    for name in schema.names:
        if name != name.lower():
            raise ConfigError(
                f"column {name!r} cannot be in a Hive metastore: its names are lower case",
                hint=f"use {name.lower()!r}; a pipeline into a Hive metastore converts names",
            )
    if shows_tags(schema):
        _check_tag_column(schema)


def _check_tag_column(schema: TableSchema) -> None:
    key = METASTORE_TAG_TO_PARTITION.key
    (column,) = partition_columns(schema)
    if schema.partition_keys:
        raise ConfigError(
            f"{key} is not possible for a table with partitions", option=key, hint="remove the option from the table"
        )
    if column != column.lower() or column in schema.names:
        why = "is a column of the table" if column in schema.names else "is not in lower case"
        raise ConfigError(f"{key} = {column} {why}", option=key, hint="choose another name, for example: tag")
