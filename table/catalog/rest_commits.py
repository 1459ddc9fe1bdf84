"""Commits by the server of a REST catalog, which also rolls tables back and changes their branches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from penstock.errors import CommitConflict, ConfigError, StoreError
from penstock.json_answers import member
from penstock.storage.base import Storage
from penstock.storage.environment import Environment
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.base import split_name
from penstock.table.catalog.rest_client import RestServer
from penstock.table.catalog.rest_replies import RestMissing, RestRefused, RestUnsupported
from penstock.table.catalog.rest_schemas import change_nodes
from penstock.table.meta.entries import FileKind, ManifestEntry
from penstock.table.meta.snapshot import Snapshot, snapshot_node, snapshot_of
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.meta.store import TableStore
from penstock.table.schema.changes import Check, SchemaChange, apply_changes
from penstock.table.schema.json_file import JsonFile
from penstock.table.schema.table_schema import TableSchema

_BRANCH = "$branch_"


def table_path(name: str, branch: str | None = None) -> tuple[str, ...]:
    """Return the path of a table in requests."""
    database, table = split_name(name)
    return "databases", database, "tables", f"{table}{_BRANCH}{branch}" if branch else table


class RestSnapshots(SnapshotFiles):
    """The snapshots of a table or branch: the newest as the server has it, the others from their files.

    The server may write the file of a snapshot later than it answers.
    """

    def __init__(self, storage: Storage, table_path: str, branch: str | None, server: RestServer, name: str) -> None:
        super().__init__(storage, table_path, branch)
        self._server, self._name, self._branch = server, name, branch

    def latest(self) -> Snapshot | None:
        try:
            reply = self._server.get(*table_path(self._name, self._branch), "snapshot")
        except RestUnsupported:
            # A server that does not offer the newest snapshot leaves it to the files.
            return super().latest()
        except RestMissing as error:
            if error.facts.get("type") == "SNAPSHOT":
                return None
            raise
        with self._server.replying(*table_path(self._name, self._branch), "snapshot"):
            snapshot = member(member(reply, "snapshot", dict), "snapshot", dict)
        return snapshot_of(JsonFile(f"snapshot of {self._name}", snapshot))

    def latest_id(self) -> int | None:
        latest = self.latest()
        return None if latest is None else latest.id

    def find(self, snapshot_id: int) -> Snapshot | None:
        # The file first: older snapshots are only there, and the newest one costs a request.
        found = super().find(snapshot_id)
        if found is None:
            latest = self.latest()
            found = latest if latest is not None and latest.id == snapshot_id else None
        return found


@dataclass(frozen=True, slots=True)
class RestVersions:
    """Rollback and branches by requests to the server."""

    server: RestServer

    def rollback_to(self, store: TableStore, target: int | str) -> None:
        by_tag = isinstance(target, str)
        instant = {"type": "tag", "tagName": target} if by_tag else {"type": "snapshot", "snapshotId": target}
        self.server.post(*table_path(_name(store), store.paths.branch), "rollback", body={"instant": instant})

    def create_branch(self, store: TableStore, name: str, tag: str | None) -> None:
        self.server.post(*self._branches(store), body={"branch": name, "fromTag": tag})

    def delete_branch(self, store: TableStore, name: str) -> None:
        self.server.delete(*self._branches(store), name)

    def fast_forward(self, store: TableStore, name: str) -> None:
        self.server.post(*self._branches(store), name, "forward", body={})

    def _branches(self, store: TableStore) -> tuple[str, ...]:
        return *table_path(_name(store)), "branches"


@dataclass(frozen=True, slots=True)
class RestCommits:
    """Commits by requests to the server. `table_id` is its id of the table, which a table of the same name has not."""

    server: RestServer
    table_id: str

    @property
    def versions(self) -> RestVersions:
        return RestVersions(self.server)

    def snapshots(self, storage: Storage, root: str, branch: str | None, name: str | None) -> RestSnapshots:
        if name is None:
            raise _opened_by_path(root)
        return RestSnapshots(storage, root, branch, self.server, name)

    def follow_tags(self, store: TableStore, removed: Sequence[str] = ()) -> None:
        """Do nothing: tags are files, and the server lists them."""

    def follow_history(self, store: TableStore, removed: Sequence[str]) -> None:
        """Do nothing: the server has replaced the snapshots itself."""

    def owed_partitions(self, store: TableStore) -> list[str]:
        """Return nothing: the server receives the partitions with the snapshot."""
        return []

    def exclusive(self, store: TableStore) -> AbstractContextManager[None]:
        """Lock nothing: the server orders the requests of all clients."""
        return nullcontext()

    def commit_snapshot(self, store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        """Send the snapshot to the server. A request without a clear reply is not sent again, so that it counts once.

        The next attempt of the commit looks whether the snapshot is there.
        """
        layout = Layout.of(store.schemas.get(snapshot.schema_id))
        body: dict[str, Any] = {
            # The server refuses the commit if the table was dropped and created again under the same name.
            "tableId": self.table_id,
            "snapshot": snapshot_node(snapshot),
            "statistics": statistics(entries, layout, store.ambient),
        }
        try:
            path = table_path(_name(store), store.paths.branch)
            reply = self.server.post(*path, "commit", body=body, repeat=False)
        except RestRefused as refusal:
            missing = isinstance(refusal, RestMissing)
            raise CommitConflict(
                f"the REST catalog refused the commit: {refusal.message}",
                table=store.name,
                snapshot=snapshot.id,
                uri=str(self.server),
                hint="the table was dropped, or created again: open the table again" if missing else refusal.hint,
            ) from refusal
        with self.server.replying(*path, "commit"):
            return member(reply, "success", bool)

    def evolve_schema(self, store: TableStore, changes: Sequence[SchemaChange], check: Check) -> TableSchema:
        """Let the server create the next schema version, after the changes have been checked here.

        If another writer changes the schema concurrently, the changes are checked and sent again. After a lost reply,
        the schema decides whether they took effect.
        """
        while True:
            newest, has_snapshots = store.schema(), store.snapshots.latest_id() is not None
            wanted = apply_changes(newest, changes, has_snapshots, store.ambient.now_millis())
            if wanted is newest:
                return newest
            check(wanted, newest)
            body = {"changes": change_nodes(newest, changes, has_snapshots)}
            try:
                self.server.post(*table_path(_name(store), store.paths.branch), body=body)
            # After a refusal too: another writer may have made the same change, or one that these changes do not
            # fit.
            except (RestRefused, StoreError):
                found = store.schema()
                if _same(found, wanted):
                    return found
                # Nothing has changed since, so another try would end in the same way.
                if found.id == newest.id:
                    raise
                continue
            return store.schema()


def _same(schema: TableSchema, wanted: TableSchema) -> bool:
    return all(
        getattr(schema, part) == getattr(wanted, part)
        for part in ("id", "fields", "partition_keys", "primary_keys", "options", "comment")
    )


def _name(store: TableStore) -> str:
    if store.catalog_name is None:
        raise _opened_by_path(store.paths.root)
    return store.catalog_name


def _opened_by_path(root: str) -> ConfigError:
    return ConfigError(
        "a table of a REST catalog is opened by its name",
        path=root,
        hint="Catalog(...).table('database.table')  opens it; the server makes the commits of its tables",
    )


def statistics(entries: Iterable[ManifestEntry], layout: Layout, environment: Environment) -> list[dict[str, Any]]:
    """Return the rows, bytes and files that the entries add to each partition, as Java sends them."""
    sums: dict[bytes, list[int]] = {}
    for entry in entries:
        sign = 1 if entry.kind is FileKind.ADD else -1
        wall = entry.file.creation_millis or 0
        counts = sums.setdefault(entry.partition, [0, 0, 0, 0])
        counts[0] += sign * entry.file.row_count
        counts[1] += sign * entry.file.size
        counts[2] += sign
        # Files record local time as if it were UTC; the server expects epoch milliseconds.
        counts[3] = max(counts[3], wall - environment.zone_offset_millis(wall))
    names = ("recordCount", "fileSizeInBytes", "fileCount", "lastFileCreationTime")
    return [
        {"spec": layout.partition_texts(partition), **dict(zip(names, counts, strict=True))}
        for partition, counts in sums.items()
    ]
