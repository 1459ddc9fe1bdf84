"""A table as its users hold it: every verb is one call into the room that does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.commit.committer import Committer
from penstock.table.commit.compacting import compact_table
from penstock.table.commit.overwriting import OverwriteWriter, drop_partitions
from penstock.table.commit.table_writer import TableWriter
from penstock.table.layout import Layout
from penstock.table.meta.branches import branch_names
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from penstock.table.read.changes import read_changes
from penstock.table.read.follow import SnapshotChanges, follow
from penstock.table.read.scan import Scan
from penstock.table.schema.table_schema import TableSchema
from penstock.table.system.tables import system_table
from penstock.table.values.arrow_types import arrow_schema


class Table:
    """Opened at one version of its schema; `refresh()` looks for a newer one. Holds no file open."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._schema = store.schema()

    def __repr__(self) -> str:
        keys = f" primary_keys={list(self.primary_keys)}" if self.primary_keys else ""
        return f"Table({self.name!r}{keys} {', '.join(self.schema.names)})"

    # what it is

    @property
    def name(self) -> str:
        return self._store.name

    @property
    def path(self) -> str:
        return self._store.paths.root

    @property
    def store(self) -> TableStore:
        return self._store

    @property
    def definition(self) -> TableSchema:
        """The schema as Paimon has it: types by name, field ids, options."""
        return self._schema

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self._schema.fields)

    @property
    def schemas(self) -> list[TableSchema]:
        return [self._store.schemas.get(schema_id) for schema_id in self._store.schemas.ids()]

    @property
    def schema_id(self) -> int:
        return self._schema.id

    @property
    def options(self) -> dict[str, str]:
        return dict(self._schema.options)

    @property
    def primary_keys(self) -> list[str]:
        return list(self._schema.primary_keys)

    @property
    def partition_keys(self) -> list[str]:
        return list(self._schema.partition_keys)

    @property
    def comment(self) -> str | None:
        return self._schema.comment

    @property
    def bucket_mode(self) -> str:
        return str(Layout.of(self._schema).mode)

    @property
    def snapshots(self) -> list[Snapshot]:
        found = (self._store.snapshots.find(snapshot_id) for snapshot_id in self._store.snapshots.ids())
        return [snapshot for snapshot in found if snapshot is not None]

    @property
    def latest_snapshot(self) -> Snapshot | None:
        return self._store.snapshots.latest()

    @property
    def tags(self) -> dict[str, int]:
        """Names and the snapshots they stand on."""
        files = TagFiles(self._store.storage, self._store.paths.root, self._store.paths.branch)
        return {name: files.get(name).snapshot.id for name in files.names()}

    @property
    def branches(self) -> list[str]:
        return branch_names(self._store)

    @property
    def consumers(self) -> dict[str, int]:
        """Consumers and the next snapshot each will read."""
        files = ConsumerFiles(self._store.storage, self._store.paths.root, self._store.paths.branch)
        return {consumer.id: consumer.next_snapshot for consumer in files.all()}

    def refresh(self) -> Table:
        return Table(self._store)

    def branch(self, name: str) -> Table:
        return Table(self._store.on_branch(name))

    # reading

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | datetime | None = None,
        branch: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Scan:
        """Nothing is read before the scan is asked for rows; see Scan for what it can give."""
        store = self._store.on_branch(branch) if branch else self._store
        return Scan.of(
            store,
            columns=columns,
            where=where,
            snapshot=snapshot,
            tag=tag,
            timestamp=timestamp,
            mode=mode,
            options=options,
        )

    def changes(self, start_snapshot: int, end_snapshot: int, mode: str = "auto") -> pa.Table:
        """What changed in (start, end], rows with a leading rowkind column."""
        return read_changes(self._store, start_snapshot, end_snapshot, mode)

    def follow(
        self,
        from_snapshot: int | None = None,
        consumer_id: str | None = None,
        *,
        until: int | None = None,
        poll_seconds: float = 1.0,
    ) -> Iterator[SnapshotChanges]:
        """The streaming read: the changes of each snapshot as it comes, for ever unless `until` names the last."""
        return follow(self._store, from_snapshot, consumer_id, until=until, poll_seconds=poll_seconds)

    def system(self, name: str) -> pa.Table:
        return system_table(self._store, name)

    # writing

    def writer(self, commit_user: str | None = None, options: Mapping[str, str] | None = None) -> TableWriter:
        """`commit_user` with rising identifiers makes commits idempotent; without one each commit stands alone."""
        return TableWriter.open(self._store, commit_user, options)

    def overwrite(
        self,
        partition: Mapping[str, object] | None = None,
        commit_user: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> OverwriteWriter:
        return OverwriteWriter.open_on(self._store, partition, commit_user, options)

    def compact(self, full: bool = True, partitions: Sequence[Mapping[str, object]] | None = None) -> list[Snapshot]:
        return compact_table(self._store, full=full, partitions=partitions)

    def truncate(self) -> None:
        with self.overwrite(partition={}) as writer:
            writer.commit()

    def drop_partitions(self, partitions: Sequence[Mapping[str, object]]) -> list[Snapshot]:
        """Take away all rows of the partitions, each named by all or some of its columns."""
        return drop_partitions(self._store, partitions)

    def committer(self, commit_user: str) -> Committer:
        return Committer(self._store, commit_user)
