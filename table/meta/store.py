"""The store of one table or branch: its files, and the way in which new snapshots and schema versions are made."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.storage.environment import Environment
from penstock.table.meta.entries import IndexEntry, ManifestEntry, ManifestFile
from penstock.table.meta.entry_cache import EntryCache
from penstock.table.meta.paths import TablePaths, name_in_warehouse
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.options.commits import COMMIT_USER_PREFIX
from penstock.table.schema.changes import Check, SchemaChange, evolve
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_schema import TableSchema


class TableMissing(ConfigError):
    """A path at which there is no table, or no branch with the requested name."""


class VersionServer(Protocol):
    """A server that rolls tables back and changes their branches itself, so that clients must not do it by files."""

    def rollback_to(self, store: TableStore, target: int | str) -> None:
        """Make a snapshot, given by id or tag, the newest one again."""
        ...

    def create_branch(self, store: TableStore, name: str, tag: str | None) -> None: ...

    def delete_branch(self, store: TableStore, name: str) -> None: ...

    def fast_forward(self, store: TableStore, name: str) -> None:
        """Replace the main branch with another branch."""
        ...


class TableCommits(Protocol):
    """The way in which a new snapshot or schema version becomes part of a table.

    A catalog gives it to the stores of its tables: one may hold a lock, another may ask a server. It is pickled with
    the store, for tasks.
    """

    @property
    def versions(self) -> VersionServer | None:
        """Return the server that owns the versions of the table; None if they are files that clients change."""
        ...

    def snapshots(self, storage: Storage, root: str, branch: str | None, name: str | None) -> SnapshotFiles:
        """Return the snapshots of a table, by its path and its name in the catalog, or of one of its branches."""
        ...

    def commit_snapshot(self, store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        """Make the snapshot, which adds and deletes the files of `entries`, the newest one of the table.

        Return False, with nothing changed, when another writer's snapshot has this id. CommitConflict means that the
        snapshot is not in the table and will never be. After an OSError it may be there, or appear later.
        """
        ...

    def evolve_schema(self, store: TableStore, changes: Sequence[SchemaChange], check: Check) -> TableSchema:
        """Create the next schema version by applying the changes to the newest one, and return it; see `evolve`."""
        ...

    def exclusive(self, store: TableStore) -> AbstractContextManager[None]:
        """Keep other commits to the table out while rollbacks and changes of branches rewrite its metadata files.

        Commits of snapshots and schemas must not be made inside: a lock need not be reentrant.
        """
        ...

    def follow_tags(self, store: TableStore, removed: Sequence[str] = ()) -> None:
        """Show the tags of the table where the catalog shows tags, after some were created or `removed`.

        A failure is logged, because the tags have changed already.
        """
        ...

    def follow_history(self, store: TableStore, removed: Sequence[str]) -> None:
        """Show the partitions and tags of the table where the catalog shows them, after a rollback or fast-forward.

        It has `removed` these tags. A failure is logged, because the table has changed already.
        """
        ...

    def owed_partitions(self, store: TableStore) -> list[str]:
        """Return the folders of partitions in which the catalog differs from the table.

        The cause is a process that died between a commit and its request to the catalog, or a failed request.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileCommits:
    """Commits by files alone: a file is created only if it does not exist, so one of two writers is refused."""

    @property
    def versions(self) -> VersionServer | None:
        return None

    def snapshots(self, storage: Storage, root: str, branch: str | None, name: str | None) -> SnapshotFiles:
        return SnapshotFiles(storage, root, branch)

    def commit_snapshot(self, store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        """Create the snapshot's file; see `SnapshotFiles.create`."""
        return store.snapshots.create(snapshot)

    def evolve_schema(self, store: TableStore, changes: Sequence[SchemaChange], check: Check) -> TableSchema:
        """Create the file of the next schema version."""
        # Some options may change only while the table has no snapshot.
        has_snapshots = store.snapshots.latest_id() is not None
        return evolve(store.schemas, changes, has_snapshots, store.ambient.now_millis(), check)

    def exclusive(self, store: TableStore) -> AbstractContextManager[None]:
        """Lock nothing: here, two writers are separated by create-if-absent alone."""
        return nullcontext()

    def follow_tags(self, store: TableStore, removed: Sequence[str] = ()) -> None:
        """Do nothing: tags are files, and readers list them."""

    def follow_history(self, store: TableStore, removed: Sequence[str]) -> None:
        """Do nothing: readers find partitions in the snapshot, and list tags."""

    def owed_partitions(self, store: TableStore) -> list[str]:
        """Return nothing: partitions are folders, and readers find them in the snapshot."""
        return []


@dataclass(frozen=True, slots=True)
class TableStore:
    """The storage, paths, schema files and snapshot files of one table, or of one of its branches.

    `commits` makes its new snapshots and schema versions. `catalog_name` is `database.table`, if a catalog opened it.
    """

    storage: Storage
    paths: TablePaths
    schemas: SchemaFiles
    snapshots: SnapshotFiles
    ambient: Environment = field(default_factory=Environment)
    cache: EntryCache[ManifestEntry] = field(default_factory=EntryCache)
    # The manifests in lists, and the index files in index manifests. Only writers and commits read these caches.
    lists: EntryCache[ManifestFile] = field(default_factory=lambda: EntryCache(20_000))
    indexes: EntryCache[IndexEntry] = field(default_factory=lambda: EntryCache(50_000))
    # Whether all reads of lists use their cache, for those to whom it does not matter that a list is gone.
    keeps_lists: bool = False
    commits: TableCommits = field(default_factory=FileCommits)
    catalog_name: str | None = None

    @classmethod
    def open(
        cls,
        storage: Storage,
        root: str,
        branch: str | None = None,
        ambient: Environment | None = None,
        commits: TableCommits | None = None,
        catalog_name: str | None = None,
    ) -> TableStore:
        """Open an existing table or branch. Raise TableMissing when there is no schema."""
        schemas = SchemaFiles(storage, root, branch)
        schema = schemas.latest()
        if schema is None:
            message = f"table has no branch {branch!r}" if branch else "there is no table"
            raise TableMissing(message, path=root, hint="t$branches lists those of the table" if branch else None)
        # The schema is read first, because its options name the folders of data and index files.
        paths = TablePaths.of(root, schema.options, branch)
        by = commits or FileCommits()
        snapshots = by.snapshots(storage, root, branch, catalog_name)
        return cls(storage, paths, schemas, snapshots, ambient or Environment(), commits=by, catalog_name=catalog_name)

    def new_commit_user(self) -> str:
        """Return a unique commit user. It starts with `commit.user-prefix` if that option is set."""
        prefix = self.schema().typed[COMMIT_USER_PREFIX] or ""
        return f"{prefix}_{self.ambient.new_uuid()}" if prefix else self.ambient.new_uuid()

    def on_branch(self, branch: str | None) -> TableStore:
        """Open another branch of the table."""
        return TableStore.open(self.storage, self.paths.root, branch, self.ambient, self.commits, self.catalog_name)

    @property
    def name(self) -> str:
        """Return the table's name for messages: `database.table` if it is known, otherwise the path."""
        table = self.catalog_name or name_in_warehouse(self.paths.root) or self.paths.root
        return f"{table}$branch_{self.paths.branch}" if self.paths.branch else table

    def schema(self) -> TableSchema:
        """Return the newest schema version that exists now."""
        schema = self.schemas.latest()
        if schema is None:
            raise self._dropped()
        return schema

    def schema_last_read(self) -> TableSchema:
        """Return the newest schema version that this process has read; see `SchemaFiles.last_read`."""
        schema = self.schemas.last_read()
        if schema is None:
            raise self._dropped()
        return schema

    def _dropped(self) -> TableMissing:
        return TableMissing(
            "the table has been dropped", path=self.paths.root, hint="create it again, or end the jobs that use it"
        )

    def evolve(self, changes: Sequence[SchemaChange], check: Check) -> TableSchema:
        """Apply changes to the newest schema version and return the version they make.

        That is the newest one if they change nothing. `check` may refuse it.
        """
        return self.commits.evolve_schema(self, changes, check)


_PREFIX = "branch-"


def branch_names(store: TableStore) -> list[str]:
    """Return the names of the table's branches, sorted."""
    names = (entry.name for entry in store.storage.list(store.paths.branches_folder) if entry.is_dir)
    return sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))
