"""The locks of tables in a JDBC catalog, which Java's writers use too: one row per locked table."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from penstock.errors import CommitConflict, ConfigError, StoreError
from penstock.storage.environment import Environment
from penstock.table.catalog.jdbc_database import DatabaseConnection, DuplicateRow, JdbcDatabase
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import FileCommits, TableStore
from penstock.table.schema.changes import Check, SchemaChange
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)

TABLE = "paimon_distributed_locks"
_FIRST_SLEEP_MILLIS = 20


@dataclass(frozen=True, slots=True)
class JdbcLocks:
    """The locks of a catalog's tables. `key` is the catalog's name in the database."""

    database: JdbcDatabase
    key: str
    acquire_millis: int
    max_sleep_millis: int
    max_key_length: int

    def create_table(self, session: DatabaseConnection) -> None:
        """Create the table of locks, unless it exists."""
        # The columns that Java creates: the first writer that needs the table creates it for both.
        columns = f"lock_id VARCHAR({self.max_key_length}) NOT NULL,"
        columns += "acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,"
        columns += "expire_time_seconds BIGINT DEFAULT 0 NOT NULL,PRIMARY KEY (lock_id)"
        session.create_table(TABLE, columns)

    @contextmanager
    def held(self, table: str, ambient: Environment) -> Iterator[None]:
        """Hold the lock of a table; CommitConflict when it is not obtained in time.

        As in Java, a lock may be removed by anybody when it is older than the time for which its owner would have
        waited for it. A process that dies leaves its lock until then.
        """
        lock = f"{self.key}.{table}"
        if len(lock) > self.max_key_length:
            raise ConfigError(
                "the name of the table's lock is too long",
                lock=lock,
                hint=f"lock-key-max-length is {self.max_key_length}: use a shorter catalog-key or name",
            )
        acquired_at = self._acquire(lock, ambient)
        try:
            yield
        finally:
            self._release(lock, acquired_at)

    def _acquire(self, lock: str, ambient: Environment) -> object:
        deadline, sleep = ambient.elapsed_millis() + self.acquire_millis, _FIRST_SLEEP_MILLIS
        while True:
            try:
                with self.database.session() as session:
                    return self._insert(session, lock)
            except DuplicateRow:
                pass
            except StoreError as error:
                # Without the lock nothing was committed, so this is a refusal and not a commit whose outcome is
                # unknown.
                message = f"the lock of the table cannot be requested: {error.message}"
                raise CommitConflict(message, lock=lock, hint=error.hint, **error.facts) from error
            if ambient.elapsed_millis() >= deadline:
                raise CommitConflict(
                    f"the table is locked by another writer: waited for {self.acquire_millis} ms",
                    lock=lock,
                    database=str(self.database),
                    hint="try again later; a lock that a dead writer left in paimon_distributed_locks expires after "
                    "expire_time_seconds",
                )
            ambient.sleep(sleep * (0.5 + ambient.jitter()) / 1000)
            sleep = min(sleep * 2, self.max_sleep_millis)

    def _insert(self, session: DatabaseConnection, lock: str) -> object:
        """Insert the row that is the lock, and return its time, by which it differs from later locks of the table."""
        expired = f"{self.database.seconds_since} > expire_time_seconds"
        if session.execute(f"DELETE FROM {TABLE} WHERE {expired} AND lock_id = ?", lock):
            log.warning("event=expired_lock_removed lock=%s", lock)
        seconds = self.acquire_millis // 1000
        session.execute(f"INSERT INTO {TABLE} (lock_id,expire_time_seconds) VALUES (?,?)", lock, seconds)
        rows = session.rows(f"SELECT acquired_at FROM {TABLE} WHERE lock_id = ?", lock)
        return rows[0][0] if rows else None

    def _release(self, lock: str, acquired_at: object) -> None:
        """Delete the row. A failure is logged only: the commit is done, and the lock expires."""
        try:
            with self.database.session() as session:
                # With its time, since the lock may have expired meanwhile, and then the row belongs to another writer.
                session.execute(f"DELETE FROM {TABLE} WHERE lock_id = ? AND acquired_at = ?", lock, acquired_at)
        except StoreError as error:
            log.warning("event=lock_not_released lock=%s reason=%s", lock, error.message)


@dataclass(frozen=True, slots=True)
class LockedCommits(FileCommits):
    """Commits by files, each under the lock of its table."""

    locks: JdbcLocks

    def commit_snapshot(self, store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        """Create the snapshot's file."""
        with self.locks.held(store.name, store.ambient):
            return FileCommits.commit_snapshot(self, store, snapshot, entries)

    def evolve_schema(self, store: TableStore, changes: Sequence[SchemaChange], check: Check) -> TableSchema:
        """Create the file of the next schema version."""
        with self.locks.held(store.name, store.ambient):
            return FileCommits.evolve_schema(self, store, changes, check)

    def exclusive(self, store: TableStore) -> AbstractContextManager[None]:
        """Hold the lock of the table."""
        return self.locks.held(store.name, store.ambient)
