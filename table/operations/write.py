"""The table writer: rows are routed to their buckets, buffered within one memory budget, and committed together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.row_kinds import RowKinds
from penstock.storage.base import store_error
from penstock.table.buckets.bucket_state import BucketState, TableState
from penstock.table.buckets.input_rows import RowRules, refuse_folders
from penstock.table.buckets.layout import Layout, Writer
from penstock.table.commit.committer import CommittedSnapshots, Committer
from penstock.table.commit.completion import CompletionResult
from penstock.table.commit.shared_buckets import SharedBuckets
from penstock.table.compaction.full_compaction import FullCompaction
from penstock.table.compaction.waiting_buckets import left_waiting
from penstock.table.dynamic_buckets.bucket_routes import BucketRoutes
from penstock.table.meta.entries import Bucket, CommitMessage
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Base, Snapshot, base_snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.expiry_options import refuse_other_expiry
from penstock.table.operations.prepared_commits import PreparedCommits, newest_of_same_table
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arguments import option_texts, optional_text, optional_whole_number
from penstock.table.write.bucket_writer import BucketWriter
from penstock.table.write.memory_budget import WriteBudget

log = logging.getLogger(__name__)

AfterCommit = Callable[[Snapshot, bool], None]


@dataclass(frozen=True, slots=True)
class SnapshotFields:
    """The fields of a snapshot that the caller of a commit decides."""

    identifier: int
    watermark: int | None
    properties: Mapping[str, str] | None


class TableWriter:
    """A writer of one table.

    Its buckets share `write-buffer-size`, or a budget with the writers of other tables; when the budget is used up, the
    largest buffers are written to disk first. Nothing is visible before `commit`; leaving the `with` block without a
    commit deletes what was written, with a warning, and closes the writer until it is entered again.
    """

    def __init__(
        self,
        store: TableStore,
        schema: TableSchema,
        user: str,
        after_commit: AfterCommit | None = None,
        budget: WriteBudget | None = None,
        base: Base = None,
    ) -> None:
        self.store = store
        self._after_commit = after_commit
        self.layout = Layout.of(schema)
        self._opened_at = store.schemas.get(schema.id)
        self.user = user
        self._options = schema.typed
        self._rules = RowRules.of(schema)
        self._budget = budget or WriteBudget.of(self._options)
        # One snapshot for all buckets of the writer: the commit is checked against what happened since.
        self._state = TableState(store, store.snapshots.latest() if base is None else base_snapshot(base))
        self._buckets: dict[Bucket, BucketWriter] = {}
        self._uncertain = False  # whether a commit failed that may have taken effect
        self._uncommitted_rows = 0
        self._closed = False
        self._owed: set[Bucket] = set()  # buckets whose compaction was lost: the next commit repeats it
        self._routes = BucketRoutes.opened(store, self.layout, self._known_state())
        self._full_compaction = FullCompaction.of(store, self.layout)
        self._shared = SharedBuckets(store, self.layout, base)

    @classmethod
    def open(
        cls,
        store: TableStore,
        user: str | None,
        options: Mapping[str, str] | None = None,
        after_commit: AfterCommit | None = None,
        budget: WriteBudget | None = None,
        base: Base = None,
    ) -> TableWriter:
        """Open a writer for the newest schema of the table.

        `after_commit` is called after each commit that made a snapshot, with whether it had no identifier. `base` is
        the snapshot that the rows were computed from, if they were: the commit then finds later commits.
        """
        schema = cls.schema_with(store, options)
        user = optional_text(user, "commit_user") or store.new_commit_user()
        return cls(store, schema, user, after_commit, budget, base)

    @staticmethod
    def schema_with(store: TableStore, options: Mapping[str, str] | None) -> TableSchema:
        """Return the table's newest schema with options that apply to this writer only."""
        schema, own = store.schema(), option_texts(options)
        refuse_other_expiry(store, schema, own)
        return replace(schema, options={**schema.options, **own})

    def __enter__(self) -> TableWriter:
        self._closed = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._warn_of_lost_rows()
        self._closed = True
        self.abort()

    def _warn_of_lost_rows(self) -> None:
        if self._uncommitted_rows:
            log.warning("event=rows_not_committed table=%s rows=%d", self.store.name, self._uncommitted_rows)

    def write(self, data: pa.Table | pa.RecordBatch, kinds: object = None) -> None:
        """Write rows; `kinds` contains one row kind per row (default: all +I).

        A row that is refused refuses all rows of the call.
        """
        if self._closed:
            raise ConfigError(
                "the writer was closed at the end of its with block",
                table=self.store.name,
                hint="open another one:  with table.writer() as writer: ...",
            )
        fitted = self._rules.fit(data, kinds)
        for batch, _ in fitted:
            refuse_folders(self.store, self.layout, batch)
        for batch, numbers in fitted:
            if batch.num_rows:
                self.write_fitted(batch, numbers)
                self._uncommitted_rows += batch.num_rows

    def write_fitted(self, batch: pa.RecordBatch, kinds: RowKinds) -> None:
        """Write rows that already have the table's columns and types."""
        for place, rows, row_kinds in self._routes.divided(batch, kinds):
            self._bucket(place).write(rows, row_kinds)

    def _bucket(self, place: Bucket) -> BucketWriter:
        writer = self._buckets.get(place)
        if writer is None:
            writer = self._buckets[place] = self.open_bucket(place, self._bucket_state(*place))
        return writer

    def open_bucket(self, place: Bucket, state: BucketState) -> BucketWriter:
        """Return a writer for the bucket in the given state."""
        return BucketWriter.opened(self.store, self.layout, *place, state, self._budget, Writer(self.user))

    def _bucket_state(self, partition: bytes, bucket: int) -> BucketState:
        return self._state.bucket(partition, bucket)

    def prepare(self, identifier: int | None = None) -> list[CommitMessage]:
        """Write everything to files, and return the messages a committer needs to commit them.

        A commit without identifier waits for compaction. With identifiers and `lookup-wait` = false, each commit
        leaves the compaction of its rows to the next one.
        """
        self._uncommitted_rows = 0
        due = self._due_in_full(identifier)
        # Buckets without new rows are opened too, if a full compaction is due there or an earlier one was lost.
        for place in sorted(due | self._owed | self._left_waiting()):
            self._bucket(place)
        self._owed = set()
        waits = self._waits(identifier)
        messages = [writer.prepare(full=place in due, waits=waits) for place, writer in self._buckets.items()]
        if not waits:
            self._owed = {
                place for place, writer in self._buckets.items() if writer.lags and writer.compacts and place not in due
            }
        return self._routes.with_index(messages)

    def _left_waiting(self) -> set[Bucket]:
        """Return the buckets whose compaction was lost earlier: this commit compacts them."""
        return left_waiting(self.store, self.layout, self._state.snapshot)

    def _due_in_full(self, identifier: int | None) -> set[Bucket]:
        """Return the buckets that this commit compacts into a single run."""
        return self._full_compaction.buckets(self._state, identifier, set(self._buckets))

    def _waits(self, identifier: int | None) -> bool:
        """Return whether this commit compacts its own rows, even when `lookup-wait` is false."""
        return identifier is None

    def forget(self) -> None:
        """Forget the prepared messages: the caller who commits them is responsible for their files."""
        self._buckets.clear()

    def commit(
        self,
        identifier: int | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> list[Snapshot]:
        """Make the written rows visible, and return the snapshots that were committed.

        With an identifier this user has committed before, the written rows are dropped. At most the compaction of that
        earlier commit is completed, if its rows are visible only after it and its process died before. Without an
        identifier every commit takes effect.
        """
        identifier = optional_whole_number(identifier, "identifier")
        if identifier is not None and identifier < 0:
            raise ConfigError(f"{identifier} is not a commit identifier", hint="identifiers are numbers from 0 upwards")
        return self.commit_messages(self.prepare(identifier), identifier, watermark=watermark, properties=properties)

    def commit_messages(
        self,
        messages: Sequence[CommitMessage],
        identifier: int | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> list[Snapshot]:
        """Commit messages that were prepared here or by writers in other processes; otherwise like `commit`.

        After an OSError it is not known whether the messages were committed. Call it again with the same messages: it
        finds out, keeps the files that are in the table, and does the rest.
        """
        fields = SnapshotFields(BATCH_IDENTIFIER if identifier is None else identifier, watermark, properties)
        messages = self._shared.current(messages)
        try:
            # Read once for all steps. Whether it still is the newest one is decided by the creation of the next.
            newest = newest_of_same_table(self.store, self._opened_at, self._state.snapshot)
            commits = PreparedCommits(self.store, self.user, self.layout, self.open_bucket, self.abort, self._uncertain)
            done = commits.run(
                messages,
                fields.identifier,
                newest,
                lambda committer, after: self._committed(committer, messages, fields, after),
            )
            return self._complete(done, identifier)
        except OSError as failure:
            # The files may be in a snapshot: they stay until another attempt has found out.
            self._uncertain = True
            raise store_error(failure, "the store failed during a commit", table=self.store.name) from failure

    def _complete(self, done: CompletionResult, identifier: int | None) -> list[Snapshot]:
        """Prepare the writer for the next commit, and return the snapshots of this one."""
        self._uncertain = False
        self._owed |= done.owed
        # The rows in the buckets now were never prepared. Prepared files belong to the messages and are not deleted
        # here.
        self._warn_of_lost_rows()
        self.abort()
        self._rebase(done.snapshots[-1] if done.snapshots else None)
        if self._after_commit is not None and done.snapshots:
            self._after_commit(done.snapshots[-1], identifier is None)
        return list(done.snapshots)

    def _committed(
        self,
        committer: Committer,
        messages: Sequence[CommitMessage],
        fields: SnapshotFields,
        newest: Snapshot | None,
    ) -> CommittedSnapshots:
        return self._shared.commit(
            messages,
            newest,
            lambda current, after: committer.commit(
                current, fields.identifier, watermark=fields.watermark, properties=fields.properties, newest=after
            ),
        )

    def _rebase(self, newest: Snapshot | None) -> None:
        """Base later writes on the table as of this commit."""
        self._buckets.clear()
        self._state = TableState(self.store, newest or self.store.snapshots.latest())
        self._routes = BucketRoutes.opened(self.store, self.layout, self._known_state())

    def _known_state(self) -> TableState:
        """Return the table state that incoming rows are matched against."""
        return self._state

    def abort(self) -> None:
        """Delete the files that were not committed."""
        for writer in self._buckets.values():
            writer.abort()
        self._buckets.clear()
        self._uncommitted_rows = 0
