"""Commits to tables of a Hive metastore: under a lock of the metastore, and with columns that it shows to others."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from penstock.errors import CommitConflict, ConfigError, StoreError
from penstock.storage.environment import Environment
from penstock.table.catalog.base import split_name
from penstock.table.catalog.hive_client import HiveMetastore
from penstock.table.catalog.hive_objects import update
from penstock.table.catalog.hive_partitions import HivePartitions, shows_partitions
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import FileCommits, TableStore
from penstock.table.options.definition import METASTORE_PARTITIONED_TABLE
from penstock.table.schema.changes import Check, SchemaChange
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)

_FIRST_SLEEP_MILLIS = 50
_TAGS = "metastore.tag-to-partition"


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
        deadline, sleep = environment.now_millis() + self.acquire_millis, _FIRST_SLEEP_MILLIS
        try:
            lock, obtained = self.metastore.request_lock(*split_name(table))
            while not obtained:
                if environment.now_millis() >= deadline:
                    # The request is withdrawn; the metastore would otherwise grant the lock later, when nobody waits
                    # for it any more.
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
        """Create the snapshot's file. Then the metastore receives new partitions, if it has those of the table."""
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

        def check_all(schema: TableSchema) -> None:
            check(schema)
            check_describable(schema)
            if shows_partitions(schema) != shows_partitions(previous):
                raise ConfigError(
                    f"{METASTORE_PARTITIONED_TABLE.key} cannot be changed: the metastore keeps the partition columns",
                    table=store.name,
                    option=METASTORE_PARTITIONED_TABLE.key,
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

    def _describe(self, store: TableStore, previous: TableSchema, evolved: TableSchema) -> None:
        database, table = split_name(store.name)
        try:
            described = self.metastore.table(database, table)
            if update(described, evolved, previous):
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
                hint="type changes need hive.metastore.disallow.incompatible.col.type.changes = false there",
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
        raise ConfigError(
            f"{_TAGS} is not supported: tags are not added to the metastore",
            option=_TAGS,
            hint="remove the option, and read tags with scan.tag-name",
        )


def shows_tags(schema: TableSchema) -> bool:
    """Return whether a table is to have its tags as partitions in the metastore."""
    return bool(schema.options.get(_TAGS))
