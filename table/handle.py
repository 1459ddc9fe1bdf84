"""The public `Table` class: each method delegates to the module that implements the operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.commit.committer import Committer
from penstock.table.maintenance.table_maintenance import TableMaintenance
from penstock.table.maintenance.upkeep import Upkeep, after_commit, after_compaction
from penstock.table.meta.snapshot import Base, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.analyze import analyze
from penstock.table.operations.compact import compact_table, sort_table
from penstock.table.operations.delete import delete_rows
from penstock.table.operations.executor import Executor
from penstock.table.operations.overwrite import OverwriteWriter, drop_partitions
from penstock.table.operations.rescale import rescale
from penstock.table.operations.selection import Selection
from penstock.table.operations.write import TableWriter
from penstock.table.option_needs import report_table
from penstock.table.options.checks import check_writable
from penstock.table.read.changes import read_changes
from penstock.table.read.follow import SnapshotChanges, follow
from penstock.table.read.scan import Scan
from penstock.table.read.time_travel import ReadPoint
from penstock.table.system.tables import system_table
from penstock.table.write.memory_budget import WriteBudget


class Table(TableMaintenance):
    """A Paimon table, opened at one version of its schema.

    `refresh()` returns the table at its newest schema. Keeps no file open.
    """

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
            point=ReadPoint(snapshot, tag, timestamp, mode),
            options=options,
            limit=limit,
            schema=store.schema_last_read(),
        )

    def head(self, rows: int = 10) -> pa.Table:
        """Return up to `rows` current rows, in no particular order."""
        return self.scan().head(rows)

    def count(self, where: pc.Expression | str | None = None) -> int:
        """Return the number of current rows, or of the rows that match `where`."""
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

        It does not end unless `until` names the last snapshot. With `consumer_id`, the position is stored when the next
        snapshot is requested, or by `processed()` of the yielded changes. Call it before leaving the loop; otherwise
        the next reader gets the last snapshot again.
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
        base: Base = None,
    ) -> TableWriter:
        """Return a writer of rows; nothing is visible before its `commit`.

        `commit_user` with rising identifiers makes commits idempotent; without a user each commit is independent of the
        others. A `budget` shared by the writers of several tables bounds the memory they buffer together.
        `base` is the snapshot from whose rows the new ones are computed, or "empty" if the table had none: the commit
        of another job to the same buckets since then is a CommitConflict.
        """
        store, options = self._on_branch(options)
        schema = store.schema_last_read()
        check_writable({**schema.options, **options})
        report_table(self.name, schema)
        return TableWriter.open(store, commit_user, options, after_commit(store), budget, base)

    def overwrite(
        self,
        partition: Mapping[str, object] | None = None,
        commit_user: str | None = None,
        options: Mapping[str, str] | None = None,
        base: Base = None,
    ) -> OverwriteWriter:
        """Return a writer whose commit replaces rows; see `OverwriteWriter`.

        It replaces the rows of `partition`, or of the partitions that rows are written to, also those that another job
        committed meanwhile. `base` is the snapshot from whose rows the new ones are computed, or "empty" if the table
        had none: the commit of another job to these partitions since then is a CommitConflict.
        """
        store, options = self._on_branch(options)
        schema = store.schema_last_read()
        check_writable({**schema.options, **options})
        report_table(self.name, schema)
        return OverwriteWriter.open_on(store, partition, commit_user, options, after_commit(store), base)

    def compact(
        self,
        full: bool = True,
        partitions: Sequence[Mapping[str, object]] | None = None,
        *,
        only: Selection | None = None,
        options: Mapping[str, str] | None = None,
        executor: Executor | None = None,
    ) -> list[Snapshot]:
        """Compact all data files, or with `full=False` only those the compaction policy picks.

        `only` selects more finely than by partitions. `executor` runs the buckets elsewhere than one after the other in
        this process: `ProcessPool(8)`. Then runs the maintenance that a writer runs after a commit, also
        for tables whose writers leave it to compaction (`write-only`).
        """
        store, options = self._on_branch(options)
        made = compact_table(store, full=full, partitions=partitions, only=only, options=options, executor=executor)
        return _looked_after(store, made)

    def sort(
        self,
        columns: Sequence[str],
        strategy: str = "order",
        *,
        only: Selection | None = None,
        options: Mapping[str, str] | None = None,
        executor: Executor | None = None,
    ) -> list[Snapshot]:
        """Rewrite the rows of an append table in sorted order: `order`, `zorder` or `hilbert`; see `sort_table`."""
        store, options = self._on_branch(options)
        made = sort_table(store, strategy, columns, only=only, options=options, executor=executor)
        return _looked_after(store, made)

    def truncate(self) -> None:
        """Delete all rows of the table, in one OVERWRITE snapshot."""
        with self.overwrite(partition={}) as writer:
            writer.commit()

    def drop_partitions(self, partitions: Sequence[Mapping[str, object]]) -> list[Snapshot]:
        """Delete all rows of the partitions, each given by the values of all or some partition columns."""
        return drop_partitions(self._store, partitions)

    def delete(self, where: pc.Expression | str, executor: Executor | None = None) -> list[Snapshot]:
        """Delete the rows that match `where`, an Arrow expression or SQL text.

        No snapshot is committed when no row matches.
        """
        return delete_rows(self._store, where, executor=executor)

    def rescale(
        self,
        buckets: int | None = None,
        partition: Mapping[str, object] | None = None,
        executor: Executor | None = None,
    ) -> list[Snapshot]:
        """Rewrite a partition, or the whole table, with another number of buckets; None uses the option `bucket`."""
        return rescale(self._store, buckets, partition, executor=executor)

    def committer(self, commit_user: str) -> Committer:
        """Return a committer for messages that writers in other processes prepared."""
        return Committer(self._store, commit_user)

    def analyze(self, columns: Sequence[str] | None = None, executor: Executor | None = None) -> Snapshot | None:
        """Read the table and store statistics of `columns` (None: all).

        They are rows, bytes, distinct values, minimum and maximum, nulls, lengths. Up to 65,536 distinct values are
        counted, more are estimated.
        """
        return analyze(self._store, columns, executor)

    @property
    def statistics(self) -> pa.Table:
        """Return the result of the newest ANALYZE, in the columns of Paimon's system table."""
        return self.system("statistics")


def _looked_after(store: TableStore, snapshots: list[Snapshot]) -> list[Snapshot]:
    if snapshots:
        after_compaction(store, Upkeep(partitions_checked=store.ambient.now_millis()))
    return snapshots
