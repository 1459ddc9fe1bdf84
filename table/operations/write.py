"""Writing to a table: rows routed to their buckets, held within one budget, committed as one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType

import pyarrow as pa

from penstock.errors import CommitConflict, ConfigError
from penstock.storage.failures import store_error
from penstock.table.buckets.bucket_state import BucketState, TableState
from penstock.table.buckets.input_rows import Kinds, RowRules, refuse_folders
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.buckets.postponed import Writer
from penstock.table.buckets.route import Slice, partitions_of, route, slices
from penstock.table.commit.committer import Committed, Committer
from penstock.table.commit.completion import Completed, Completion
from penstock.table.commit.prepared_files import compacted_buckets, discard, fate_of, only_compaction
from penstock.table.compaction.full_compaction import FullCompaction
from penstock.table.dynamic_buckets.assigner import Assigner
from penstock.table.dynamic_buckets.cross_partition import KeyPlacer
from penstock.table.meta.entries import Bucket, CommitMessage
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.schema.options import Options
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arguments import option_texts, whole_number
from penstock.table.values.buffers import rows_at
from penstock.table.write.bucket_writer import BucketWriter
from penstock.table.write.memory_budget import WriteBudget

AfterCommit = Callable[[Snapshot, bool], None]

log = logging.getLogger(__name__)


class TableWriter:
    """Buckets share `write-buffer-size`, or a budget with the writers of other tables; when it is spent the largest go
    to disk first. Nothing is visible before `commit`; leaving the block without one deletes what was written.
    """

    def __init__(
        self,
        store: TableStore,
        schema: TableSchema,
        user: str,
        after_commit: AfterCommit | None = None,
        budget: WriteBudget | None = None,
    ) -> None:
        self.store = store
        self._after_commit = after_commit
        self.layout = Layout.of(schema)
        self._opened_at = store.schemas.get(schema.id)
        self.user = user
        self._options = Options(schema.options)
        self._rules = RowRules.of(schema)
        self._budget = budget or WriteBudget.of(self._options)
        self._state = TableState(store, store.snapshots.latest())
        self._buckets: dict[Bucket, BucketWriter] = {}
        self._uncertain = False  # whether a commit failed that may have taken effect
        self._owed: set[Bucket] = set()  # whose compaction was lost: the next commit makes it good
        self._assigner, self._placer = self._opened_routes()
        self._full_compaction = FullCompaction.of(store, self.layout)

    @classmethod
    def open(
        cls,
        store: TableStore,
        user: str | None,
        options: Mapping[str, str] | None = None,
        after_commit: AfterCommit | None = None,
        budget: WriteBudget | None = None,
    ) -> TableWriter:
        """`after_commit` is told each commit that made a snapshot, and whether it stood for itself (no identifier)."""
        return cls(store, cls.schema_with(store, options), user or store.new_commit_user(), after_commit, budget)

    @staticmethod
    def schema_with(store: TableStore, options: Mapping[str, str] | None) -> TableSchema:
        """The table's newest schema, under options that hold for this writer only."""
        schema = store.schema()
        return replace(schema, options={**schema.options, **option_texts(options)})

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def write(self, data: pa.Table | pa.RecordBatch, kinds: object = None) -> None:
        """Take rows; `kinds` stands parallel to them, all +I without. Refused rows refuse the whole batch."""
        batch, numbers = self._rules.fit(data, kinds)
        refuse_folders(self.store, self.layout, batch)
        if batch.num_rows:
            self.write_fitted(batch, numbers)

    def write_fitted(self, batch: pa.RecordBatch, kinds: Kinds) -> None:
        """Rows that already have the table's columns and types."""
        if self._placer is not None:
            placed = self._placer.place(batch, kinds)
            batch, kinds = placed.rows, placed.kinds
            parts: Iterable[Slice] = slices(placed.partitions, placed.places, placed.buckets)
        else:
            parts = self._routed(batch)
        for part in parts:
            whole = len(part.rows) == batch.num_rows
            rows = batch if whole else rows_at(batch, part.rows)
            self._bucket((part.partition, part.bucket)).write(rows, kinds if whole else kinds[part.rows])

    def _routed(self, batch: pa.RecordBatch) -> Iterable[Slice]:
        if self._assigner is None:
            return route(self.layout, batch)
        partitions, places = partitions_of(self.layout, batch)
        return slices(partitions, places, self._assigner.assign(batch, partitions, places))

    def _bucket(self, place: Bucket) -> BucketWriter:
        writer = self._buckets.get(place)
        if writer is None:
            writer = self._buckets[place] = self.open_bucket(place, self._bucket_state(*place))
        return writer

    def open_bucket(self, place: Bucket, state: BucketState) -> BucketWriter:
        return BucketWriter.opened(self.store, self.layout, *place, state, self._budget, Writer(self.user))

    def _bucket_state(self, partition: bytes, bucket: int) -> BucketState:
        return self._state.bucket(partition, bucket)

    def prepare(self, identifier: int | None = None) -> list[CommitMessage]:
        """Everything into files, and what a committer needs to know of them.

        A commit that stands for itself waits for compaction; of those that follow one another each, with `lookup-wait`
        false, leaves its own to the next.
        """
        due = self._due_in_full(identifier)
        for place in sorted(due | self._owed):
            self._bucket(place)
        self._owed = set()
        waits = self._waits(identifier)
        messages = [writer.prepare(full=place in due, waits=waits) for place, writer in self._buckets.items()]
        if not waits:
            self._owed = {
                place for place, writer in self._buckets.items() if writer.lags and writer.compacts and place not in due
            }
        return messages if self._assigner is None else self._assigner.with_index(messages)

    def _due_in_full(self, identifier: int | None) -> set[Bucket]:
        """The buckets that this commit compacts into one run."""
        return self._full_compaction.buckets(self._state, identifier, set(self._buckets))

    def _waits(self, identifier: int | None) -> bool:
        """Whether this commit compacts its own rows, also where `lookup-wait` is false."""
        return identifier is None

    def forget(self) -> None:
        """Leave what was prepared to whoever commits it."""
        self._buckets.clear()

    def commit(
        self,
        identifier: int | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> list[Snapshot]:
        """Make what was written visible, and return the snapshots that were made.

        With an identifier that this user has committed before, what was written is dropped. All that may still be done
        is the compaction of that commit, where its rows show only then and its process died before. Without an
        identifier every commit counts.
        """
        if identifier is not None and whole_number(identifier, "identifier") < 0:
            raise ConfigError(f"{identifier} cannot identify a commit", hint="identifiers rise from 0")
        return self.land(self.prepare(identifier), identifier, watermark=watermark, properties=properties)

    def land(
        self,
        messages: Sequence[CommitMessage],
        identifier: int | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> list[Snapshot]:
        """Commit what was prepared, here or by writers in other processes; as `commit` in all else.

        After an OSError it is not known whether the messages were committed. Call it again with the same messages: it
        finds out, keeps the files that are in the table, and does what is left.
        """
        try:
            return self._land(messages, identifier, watermark, properties)
        except OSError as failure:
            self._uncertain = True
            raise store_error(failure, "the store failed during a commit", table=self.store.name) from failure

    def _land(
        self,
        messages: Sequence[CommitMessage],
        identifier: int | None,
        watermark: int | None,
        properties: Mapping[str, str] | None,
    ) -> list[Snapshot]:
        number = BATCH_IDENTIFIER if identifier is None else identifier
        self._check_same_table()
        committer = Committer(self.store, self.user)
        completion = Completion(committer, self.layout, self.open_bucket)
        already = committer.committed(number) or self._committed_unawares(messages)
        if already is not None:
            return self._complete([], completion.finish(messages, already), identifier)
        try:
            done = self._committed(committer, messages, number, watermark, properties)
        except (CommitConflict, ConfigError):
            # Refused, so this call has committed nothing. What an earlier one did may still show.
            if not self._uncertain:
                self._discard(messages)
            raise
        if done.already is not None:
            return self._complete([], completion.finish(messages, done.already), identifier)
        rest = Completed()
        if done.lost_compaction is not None:
            log.warning("compaction lost table=%s reason=%s", self.store.name, done.lost_compaction.message)
            self._discard([only_compaction(message) for message in messages])
            if done.last is not None:
                rest = completion.compact(compacted_buckets(messages), done.last)
        return self._complete(done.snapshots, rest, identifier)

    def _complete(self, made: Sequence[Snapshot], rest: Completed, identifier: int | None) -> list[Snapshot]:
        """Go on from a commit that is done, and say which snapshots it made."""
        snapshots = [*made, *rest.snapshots]
        self._uncertain = False
        self._owed |= rest.owed
        self.abort()
        self._go_on(snapshots[-1] if snapshots else None)
        if self._after_commit is not None and snapshots:
            self._after_commit(snapshots[-1], identifier is None)
        return snapshots

    def _committed_unawares(self, messages: Sequence[CommitMessage]) -> Snapshot | None:
        """The snapshot that holds these messages after all, when the store failed while they were committed."""
        if not self._uncertain:
            return None
        fate = fate_of(self.store, self.user, messages)
        if not fate.is_known:
            raise CommitConflict(
                "the store failed during a commit, and the snapshots that tell whether it took effect have expired",
                table=self.store.name,
                hint="look at the table before you write the rows again",
            )
        return fate.newest

    def _check_same_table(self) -> None:
        """Rows in files of a schema that is another one by now would be read by the wrong columns, and the buckets of
        a snapshot that is another one by now are not those that the rows were placed in.
        """
        base = self._state.snapshot
        found = self.store.snapshots.find(base.id) if base is not None else None
        if not self.store.schemas.is_current(self._opened_at):
            what = f"schema {self._opened_at.id}"
        elif base is not None and found is not None and found != base:
            what = f"snapshot {base.id}"
        else:
            return
        raise ConfigError(
            f"{what} is another one than when the writer read it",
            table=self.store.name,
            hint="the table was rolled back, fast-forwarded, or dropped and made again: open the table anew",
        )

    def _committed(
        self,
        committer: Committer,
        messages: Sequence[CommitMessage],
        number: int,
        watermark: int | None,
        properties: Mapping[str, str] | None,
    ) -> Committed:
        return committer.commit(messages, number, watermark=watermark, properties=properties)

    def _go_on(self, newest: Snapshot | None) -> None:
        """Later writes stand on the table as it is after the commit."""
        self._buckets.clear()
        self._state = TableState(self.store, newest or self.store.snapshots.latest())
        self._assigner, self._placer = self._opened_routes()

    def _opened_routes(self) -> tuple[Assigner | None, KeyPlacer | None]:
        """What finds buckets where the row alone does not tell its own."""
        match self.layout.mode:
            case BucketMode.DYNAMIC:
                return Assigner(self.store, self.layout, self._known_state()), None
            case BucketMode.CROSS_PARTITION:
                return None, KeyPlacer.opened(self.store, self.layout, self._known_state())
        return None, None

    def _known_state(self) -> TableState:
        """What of the table the rows are to meet."""
        return self._state

    def abort(self) -> None:
        """Delete the files that were not committed."""
        for writer in self._buckets.values():
            writer.abort()
        self._buckets.clear()

    def _discard(self, messages: Sequence[CommitMessage]) -> None:
        """Delete the files that messages name, none of which was committed."""
        discard(self.store, self.layout, messages)
        self.abort()
