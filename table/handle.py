"""The public `Table` class: each method delegates to the module that implements the operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.commit.committer import Committer
from penstock.table.maintenance.branches import create_branch, delete_branch
from penstock.table.maintenance.consumers import expire_consumers
from penstock.table.maintenance.done_partitions import mark_partitions_done
from penstock.table.maintenance.fast_forward import fast_forward
from penstock.table.maintenance.file_deletion import delete_all
from penstock.table.maintenance.orphans import Orphan, find_orphans
from penstock.table.maintenance.partition_expiry import expire_partitions
from penstock.table.maintenance.rollback import Undone, rollback_to, undone_by_rollback
from penstock.table.maintenance.snapshot_expiry import Expired, expire_changelogs, expire_snapshots
from penstock.table.maintenance.tag_changes import rename_tag, replace_tag, tag_from_timestamp, tag_from_watermark
from penstock.table.maintenance.tags import create_tag, delete_tag, expire_tags
from penstock.table.maintenance.upkeep import Upkeep, after_commit, keep_up
from penstock.table.meta.branches import branch_names
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.errors import SnapshotMissing
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from penstock.table.operations.analyze import analyze
from penstock.table.operations.compact import compact_table, sort_table
from penstock.table.operations.delete import delete_rows
from penstock.table.operations.overwrite import OverwriteWriter, drop_partitions
from penstock.table.operations.repair import (
    Healed,
    compact_manifests,
    remove_unexisting_files,
    remove_unexisting_manifests,
)
from penstock.table.operations.rescale import rescale
from penstock.table.operations.selection import Selection
from penstock.table.operations.write import TableWriter
from penstock.table.options.checks import check_given, check_writable, report
from penstock.table.read.changes import read_changes
from penstock.table.read.follow import SnapshotChanges, follow
from penstock.table.read.scan import Scan
from penstock.table.schema.numbered_files import MAIN_BRANCH
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import written
from penstock.table.system.tables import system_table
from penstock.table.values.arguments import epoch_millis, option_texts
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.html import facts_html, rows_html
from penstock.table.write.memory_budget import WriteBudget


class Table:
    """A Paimon table, opened at one version of its schema.

    `refresh()` returns the table at its newest schema. Keeps no file open.
    """

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._schema = store.schema()

    def __repr__(self) -> str:
        keys = f" primary_keys={list(self.primary_keys)}" if self.primary_keys else ""
        return f"Table({self.name!r}{keys} {', '.join(self.schema.names)})"

    def _repr_html_(self) -> str:
        latest = self.latest_snapshot
        facts = {
            "path": self.path,
            "comment": self.comment,
            "primary keys": self.primary_keys,
            "partition keys": self.partition_keys,
            "buckets": self.bucket_mode,
            "schema": self.schema_id,
            "snapshot": None if latest is None else repr(latest),
            "options": [f"{name}={value}" for name, value in sorted(self.options.items())],
        }
        columns = [(one.name, written(one.type), one.description) for one in self._schema.fields]
        return facts_html(self.name, facts) + rows_html(("column", "type", "comment"), columns)

    # description

    @property
    def name(self) -> str:
        """Return the table's name: `database.table` if the path has that form, otherwise the path."""
        return self._store.name

    @property
    def path(self) -> str:
        """Return the path of the table's folder."""
        return self._store.paths.root

    @property
    def store(self) -> TableStore:
        """Return the table's store, the internal access to its files."""
        return self._store

    @property
    def definition(self) -> TableSchema:
        """Return the schema in Paimon's form: types by name, field ids, options."""
        return self._schema

    @property
    def schema(self) -> pa.Schema:
        """Return the schema in Arrow types."""
        return arrow_schema(self._schema.fields)

    @property
    def schemas(self) -> list[TableSchema]:
        """Return all versions of the schema, oldest first."""
        return [self._store.schemas.get(schema_id) for schema_id in self._store.schemas.ids()]

    @property
    def schema_id(self) -> int:
        """Return the id of the schema version this table was opened at."""
        return self._schema.id

    @property
    def options(self) -> dict[str, str]:
        """Return the table options stored in the schema."""
        return dict(self._schema.options)

    @property
    def primary_keys(self) -> list[str]:
        """Return the names of the primary key columns; empty for an append table."""
        return list(self._schema.primary_keys)

    @property
    def partition_keys(self) -> list[str]:
        """Return the names of the partition columns."""
        return list(self._schema.partition_keys)

    @property
    def comment(self) -> str | None:
        """Return the table's comment."""
        return self._schema.comment

    @property
    def bucket_mode(self) -> str:
        """Return how rows are assigned to buckets."""
        return str(Layout.of(self._schema).mode)

    @property
    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots that have not expired, oldest first."""
        found = (self._store.snapshots.find(snapshot_id) for snapshot_id in self._store.snapshots.ids())
        return [snapshot for snapshot in found if snapshot is not None]

    @property
    def latest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, None for a table without one."""
        return self._store.snapshots.latest()

    @property
    def tags(self) -> dict[str, int]:
        """Return the tag names and the id of the snapshot each one keeps."""
        files = TagFiles(self._store.storage, self._store.paths.root, self._store.paths.branch)
        return {name: files.get(name).snapshot.id for name in files.names()}

    @property
    def branches(self) -> list[str]:
        """Return the names of the branches other than main."""
        return branch_names(self._store)

    @property
    def consumers(self) -> dict[str, int]:
        """Return the consumer names and the id of the snapshot each one reads next."""
        files = ConsumerFiles(self._store.storage, self._store.paths.root, self._store.paths.branch)
        return {consumer.id: consumer.next_snapshot for consumer in files.all()}

    def _check_options(self, options: Mapping[str, str] | None) -> None:
        """Raise ConfigError when an option of one read or write is unknown, invalid or not supported.

        Options that have no effect are logged.
        """
        given = option_texts(options)
        check_given(given)
        report(self.name, given)

    def refresh(self) -> Table:
        """Return the table opened at its newest schema."""
        return Table(self._store)

    def branch(self, name: str) -> Table:
        """Return the table opened on a branch."""
        return Table(self._store.on_branch(name))

    def _on_branch(
        self, options: Mapping[str, str] | None, branch: str | None = None
    ) -> tuple[TableStore, dict[str, str]]:
        """Return the table's store on the named branch, and the options without `branch`.

        The branch is named by the argument or by the option `branch`; without either it is this table's own.
        """
        self._check_options(options)
        others = dict(options or {})
        named = others.pop("branch", None)
        if branch is not None and named is not None and named != branch:
            raise ConfigError(f"both branch {branch!r} and branch {named!r} are named", table=self.name)
        name = branch if named is None else named
        if name is None:
            return self._store, others
        return self._store.on_branch(None if name == MAIN_BRANCH else name), others

    # reading

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | str | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
        branch: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Describe a batch read.

        Nothing is read before rows are asked for; see `Scan` for the forms in which it returns them.

        `where` is an Arrow expression or SQL text; files whose statistics rule out a matching row are not read.
        """
        store, options = self._on_branch(options, branch)
        return Scan.of(
            store,
            columns=columns,
            where=where,
            snapshot=snapshot,
            tag=tag,
            timestamp=timestamp,
            mode=mode,
            options=options,
            limit=limit,
        )

    def head(self, rows: int = 10) -> pa.Table:
        """Return up to `rows` current rows, in no particular order."""
        return self.scan().head(rows)

    def count(self, where: pc.Expression | str | None = None) -> int:
        """Return the number of current rows, or of those that match `where`."""
        return self.scan(where=where).count()

    def changes(self, start_snapshot: int, end_snapshot: int, mode: str = "auto") -> pa.Table:
        """Return the changes of the snapshots in (start, end], as rows with a leading rowkind column."""
        return read_changes(self._store, start_snapshot, end_snapshot, mode)

    def follow(
        self,
        from_snapshot: int | None = None,
        consumer_id: str | None = None,
        *,
        until: int | None = None,
        poll_seconds: float = 1.0,
    ) -> Iterator[SnapshotChanges]:
        """Yield the changes of each snapshot as it is committed (a streaming read).

        It does not end unless `until` names the last snapshot.
        """
        return follow(self._store, from_snapshot, consumer_id, until=until, poll_seconds=poll_seconds)

    def system(self, name: str) -> pa.Table:
        """Return a system table such as `snapshots` or `files`."""
        return system_table(self._store, name)

    # writing

    def writer(
        self,
        commit_user: str | None = None,
        options: Mapping[str, str] | None = None,
        budget: WriteBudget | None = None,
    ) -> TableWriter:
        """Return a writer of rows; nothing is visible before its `commit`.

        `commit_user` with rising identifiers makes commits idempotent; without a user each commit is independent of the
        others. A `budget` shared by the writers of several tables bounds the memory they buffer together.
        """
        store, options = self._on_branch(options)
        check_writable({**store.schema().options, **options})
        report(self.name, self.options)
        return TableWriter.open(store, commit_user, options, after_commit(store), budget)

    def overwrite(
        self,
        partition: Mapping[str, object] | None = None,
        commit_user: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> OverwriteWriter:
        """Return a writer whose commit replaces rows; see `OverwriteWriter`.

        It replaces the rows of `partition`, or of the partitions that rows are written to.
        """
        store, options = self._on_branch(options)
        check_writable({**store.schema().options, **options})
        report(self.name, self.options)
        return OverwriteWriter.open_on(store, partition, commit_user, options, after_commit(store))

    def compact(
        self,
        full: bool = True,
        partitions: Sequence[Mapping[str, object]] | None = None,
        *,
        only: Selection | None = None,
        options: Mapping[str, str] | None = None,
    ) -> list[Snapshot]:
        """Compact all data files, or with `full=False` only those the compaction policy picks.

        `only` selects more finely than by partitions. Then runs the maintenance that a writer runs after a commit, also
        for tables whose writers leave it to compaction (`write-only`).
        """
        store, options = self._on_branch(options)
        made = compact_table(store, full=full, partitions=partitions, only=only, options=options)
        return _looked_after(store, made)

    def sort(
        self,
        columns: Sequence[str],
        strategy: str = "order",
        *,
        only: Selection | None = None,
        options: Mapping[str, str] | None = None,
    ) -> list[Snapshot]:
        """Rewrite the rows of an append table in sorted order: `order`, `zorder` or `hilbert`; see `sort_table`."""
        store, options = self._on_branch(options)
        return _looked_after(store, sort_table(store, strategy, columns, only=only, options=options))

    def truncate(self) -> None:
        """Delete all rows of the table, in one OVERWRITE snapshot."""
        with self.overwrite(partition={}) as writer:
            writer.commit()

    def drop_partitions(self, partitions: Sequence[Mapping[str, object]]) -> list[Snapshot]:
        """Delete all rows of the partitions, each given by the values of all or some partition columns."""
        return drop_partitions(self._store, partitions)

    def delete(self, where: pc.Expression | str) -> list[Snapshot]:
        """Delete the rows that match `where`, an Arrow expression or SQL text.

        No snapshot is committed when none match.
        """
        return delete_rows(self._store, where)

    def rescale(self, buckets: int | None = None, partition: Mapping[str, object] | None = None) -> list[Snapshot]:
        """Rewrite a partition, or the whole table, with another number of buckets; None uses the option `bucket`."""
        return rescale(self._store, buckets, partition)

    def committer(self, commit_user: str) -> Committer:
        """Return a committer for messages that writers in other processes prepared."""
        return Committer(self._store, commit_user)

    # maintenance

    def maintain(self, last: Upkeep | None = None, *, seconds: float = 60.0) -> Upkeep:
        """Run one bounded round of the table's expirations, and create the tags that are due; see `keep_up`."""
        return keep_up(self._store, last, seconds=seconds)

    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: int | str | datetime | None = None,
        max_deletes: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Expired:
        """Expire snapshots, in one bounded round.

        Arguments that are None fall back to the table's options, or to `options`.
        """
        store, options = self._on_branch(options)
        return expire_snapshots(
            store,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than=_millis(older_than, "older_than"),
            max_deletes=max_deletes,
            options=options,
        )

    def rollback_to(self, target: int | str | datetime) -> Snapshot:
        """Roll the table back to a snapshot (its id), a tag (its name) or the last snapshot at a time.

        Later snapshots and tags are removed, and consumers that had read them are set back; `undone_by_rollback` lists
        them.
        """
        return rollback_to(self._store, self._point(target))

    def undone_by_rollback(self, target: int | str | datetime) -> Undone:
        """Return the snapshots and tags that `rollback_to` would remove, and the consumers it would set back."""
        return undone_by_rollback(self._store, self._point(target))

    def _point(self, target: int | str | datetime) -> int | str:
        if not isinstance(target, datetime):
            return target
        found = self._store.snapshots.by_time(int(target.timestamp() * 1000))
        if found is None:
            raise SnapshotMissing(f"there is no snapshot as old as {target.isoformat()}", table=self.name)
        return found.id

    def create_tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        timestamp: int | str | datetime | None = None,
        watermark: int | None = None,
        retain_millis: int | None = None,
    ) -> None:
        """Keep a snapshot under a name: the latest, the given one, or the first at or after a time or a watermark."""
        if watermark is not None:
            tag_from_watermark(self._store, name, watermark, retain_millis)
        elif (millis := _millis(timestamp, "timestamp")) is not None:
            tag_from_timestamp(self._store, name, millis, retain_millis)
        else:
            create_tag(self._store, name, snapshot, retain_millis)

    def replace_tag(self, name: str, snapshot: int | None = None, *, retain_millis: int | None = None) -> None:
        """Move an existing tag to another snapshot, the latest when None."""
        replace_tag(self._store, name, snapshot, retain_millis)

    def rename_tag(self, name: str, new_name: str) -> None:
        """Rename a tag."""
        rename_tag(self._store, name, new_name)

    def delete_tag(self, name: str) -> None:
        """Delete a tag, and the files that only it used."""
        delete_tag(self._store, name)

    def expire_tags(self, *, older_than: int | str | datetime | None = None) -> list[str]:
        """Delete the tags whose retention time is over, and those created before `older_than`; return their names."""
        return expire_tags(self._store, older_than=_millis(older_than, "older_than"))

    def create_branch(self, name: str, tag: str | None = None) -> Table:
        """Create a branch from a tag, or an empty one, and return it opened."""
        create_branch(self._store, name, tag)
        return self.branch(name)

    def delete_branch(self, name: str) -> None:
        """Delete a branch with its snapshots, tags and schemas."""
        delete_branch(self._store, name)

    def fast_forward(self, branch: str) -> Undone:
        """Replace the main branch with `branch`; return what main lost by it."""
        return fast_forward(self._store, branch)

    def reset_consumer(self, consumer_id: str, next_snapshot: int | None = None) -> None:
        """Set the snapshot a consumer reads next.

        With None the consumer is deleted, and protects no snapshot from expiring.
        """
        files = ConsumerFiles(self._store.storage, self._store.paths.root, self._store.paths.branch)
        if next_snapshot is None:
            files.delete(consumer_id)
        elif next_snapshot < 1:
            raise ConfigError(f"no reader can go on at snapshot {next_snapshot}: they count from 1", table=self.name)
        else:
            files.put(consumer_id, next_snapshot)

    def expire_consumers(self, older_than: int | str | datetime | None = None) -> list[str]:
        """Delete the consumers that have not moved since `older_than`; return their ids.

        None uses `consumer.expiration-time`.
        """
        return expire_consumers(self._store, _millis(older_than, "older_than"))

    def expire_partitions(self, options: Mapping[str, str] | None = None) -> list[dict[str, object]]:
        """Drop the partitions older than `partition.expiration-time`; return their values."""
        store, options = self._on_branch(options)
        return expire_partitions(store, options)

    def mark_partitions_done(self, partitions: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
        """Run `partition.mark-done-action` for the partitions.

        Each is given by the values of all or some partition columns.
        """
        return mark_partitions_done(self._store, partitions)

    def expire_changelogs(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: int | str | datetime | None = None,
        max_deletes: int | None = None,
        delete_all: bool = False,
    ) -> Expired:
        """Expire, in one bounded round, changelogs that outlived their snapshots.

        With `delete_all`, all of them are deleted.
        """
        return expire_changelogs(
            self._store,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than=_millis(older_than, "older_than"),
            max_deletes=max_deletes,
            delete_all=delete_all,
        )

    def compact_manifests(self, *, dry_run: bool = False, options: Mapping[str, str] | None = None) -> Healed:
        """Merge the table's manifests into fewer and larger ones, in a COMPACT snapshot that changes no row."""
        store, options = self._on_branch(options)
        return compact_manifests(store, dry_run=dry_run, options=options)

    def remove_unexisting_files(
        self, partitions: Sequence[Mapping[str, object]] | None = None, *, dry_run: bool = False
    ) -> Healed:
        """Remove data files that no longer exist from the table's metadata; their rows are lost."""
        return remove_unexisting_files(self._store, partitions, dry_run=dry_run)

    def remove_unexisting_manifests(self, *, dry_run: bool = False) -> Healed:
        """Commit a snapshot that consists of the manifests that still exist, after some were lost."""
        return remove_unexisting_manifests(self._store, dry_run=dry_run)

    def remove_orphan_files(
        self, *, dry_run: bool = False, older_than: int | str | datetime | None = None
    ) -> list[Orphan]:
        """Delete the files that no snapshot refers to; return them.

        Only files last written before `older_than` (default: a day ago). With `dry_run` nothing is deleted.
        """
        found = find_orphans(self._store, _millis(older_than, "older_than"))
        if found and not dry_run:
            delete_all(self._store, [orphan.path for orphan in found])
        return found

    def analyze(self, columns: Sequence[str] | None = None) -> Snapshot | None:
        """Read the table and store statistics of `columns` (None: all).

        They are rows, bytes, distinct values, minimum and maximum, nulls, lengths. Up to 65,536 distinct values are
        counted, more are estimated.
        """
        return analyze(self._store, columns)

    @property
    def statistics(self) -> pa.Table:
        """Return the result of the newest ANALYZE, in the columns of Paimon's system table."""
        return self.system("statistics")


def _looked_after(store: TableStore, made: list[Snapshot]) -> list[Snapshot]:
    if made:
        keep_up(store, Upkeep(partitions_checked=store.ambient.now_millis()), write_only=False)
    return made


def _millis(moment: int | str | datetime | None, what: str) -> int | None:
    return None if moment is None else epoch_millis(moment, what)
