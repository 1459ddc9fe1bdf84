"""A table's changes as a stream of snapshots that a job processes one by one. The job stores its own position."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.row_kinds import INSERT, KIND_TEXTS, ROWKIND
from penstock.table.buckets.layout import Layout
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.scans import CONSUMER_ID
from penstock.table.options.table_options import TableOptions
from penstock.table.read.changes import writes_changelog
from penstock.table.read.consumer_place import ConsumerPlace
from penstock.table.read.follow import check_follows, follows_overwrite, next_snapshot, snapshot_splits
from penstock.table.read.plan import plan_state
from penstock.table.read.pruning import possible_changes
from penstock.table.read.snapshot_diff import overwritten
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.stream_start import Start, levels_of_state, starting
from penstock.table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class SnapshotBatches:
    """The changes of one snapshot: batches with the row kind in the leading column."""

    snapshot: Snapshot
    batches: Iterator[pa.RecordBatch]


class ChangeStream:
    """The changes of a table from a start on.

    `poll` returns the next snapshot again until `advance` is called, so that a snapshot whose processing failed can be
    processed again. It has the columns that the table has at the start.
    """

    def __init__(
        self,
        store: TableStore,
        options: Mapping[str, str],
        position: int | None = None,
        columns: Collection[str] | None = None,
        where: pc.Expression | None = None,
    ) -> None:
        """Open the stream after the snapshot `position`, or where `options` and a consumer let it start.

        It reads the `columns` of these names in small letters (None: all), and the primary key. Files are left out in
        which no row can match `where`; the other rows need not match.
        """
        self.store, self.options, self._where = store, options, where
        schema = store.schema()
        check_streamable(schema, store.name)
        keys = set(schema.primary_keys)
        wanted = tuple(
            field for field in schema.fields if columns is None or field.name in keys or field.name.lower() in columns
        )
        # A query of constants has as many rows as the changes.
        self.reader = SplitReader(store, Layout.of(schema), wanted or schema.fields[:1], kinds=True)
        self._place = ConsumerPlace(store, TableOptions(options)[CONSUMER_ID] or None)
        start = starting(store, options) if position is None else Start(0, position + 1)
        self._state, self._next = start.state, start.first
        # The snapshot before: the table may be rolled back before the first changes are read.
        self._last, self._created = store.snapshots.find(self._next - 1), store.schemas.created_millis()
        if not self._state:
            next_snapshot(store, self._next)  # refuses a position behind the newest snapshot: a rollback
        # Before the first read, so that the snapshots with which the stream begins do not expire.
        self._place.keep(self._state or self._next, self._mark)

    @property
    def schema(self) -> TableSchema:
        """Return the schema of the rows."""
        return self.reader.layout.schema

    @property
    def position(self) -> int | None:
        """Return the last snapshot that is processed, or None if the stream begins with the rows of a snapshot."""
        return None if self._state else self._next - 1

    @property
    def has_old_rows(self) -> bool:
        """Return whether updates and deletes come with the rows that they replace."""
        return writes_changelog(self.reader.layout)

    def poll(self) -> SnapshotBatches | None:
        """Return the changes of the next snapshot; None when it is not committed yet."""
        if self._state:
            snapshot = self.store.snapshots.get(self._state)
            return SnapshotBatches(snapshot, self._state_rows(snapshot))
        following = next_snapshot(self.store, self._next)
        if following is None:
            self._place.keep(self._next, self._mark)
            return None
        # As in `follow`: ids are used again after a rollback.
        check_follows(self.store, self._last, self._created)
        self._check_columns(following)
        return SnapshotBatches(following, self._changes(following))

    def advance(self, snapshot: Snapshot) -> None:
        """Continue after the snapshot, which is processed."""
        self._state, self._next, self._last = 0, snapshot.id + 1, snapshot
        self._place.keep(self._next, self._mark)

    @property
    def _mark(self) -> int:
        return 0 if self._state or self._last is None else self._last.mark

    def _state_rows(self, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        reader = SplitReader(self.store, self.reader.layout, self.reader.wanted)
        plan = plan_state(
            self.store, self.reader.layout, snapshot, self._where, keep_levels=levels_of_state(self.schema)
        )
        for split in plan.splits:
            for batch in reader.read(split):
                # With any kind in the files, each row is new for a stream that begins here.
                kinds = pa.array([KIND_TEXTS[INSERT]]).take(pa.array([0] * batch.num_rows, pa.int32()))
                yield pa.RecordBatch.from_arrays([kinds, *batch.columns], names=[ROWKIND, *batch.schema.names])

    def _changes(self, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            if follows_overwrite(self.store.name, self.store.schema(), snapshot, self.options):
                yield from overwritten(self.store, self.reader, snapshot)
            return
        splits = snapshot_splits(self.store, snapshot)
        for split in possible_changes(self.store, self.reader.layout, splits, self._where):
            yield from self.reader.read_files(split)

    def _check_columns(self, snapshot: Snapshot) -> None:
        """Raise ConfigError when a column that the stream reads was dropped, renamed or given another type.

        Changes under an older schema are read as batch reads do it: a stream may begin before the last ALTER.
        """
        if snapshot.schema_id <= self.schema.id:
            return
        fields = {field.id: field for field in self.store.schemas.get(snapshot.schema_id).fields}
        for field in self.schema.fields:
            now = fields.get(field.id)
            if now is None or (now.name, now.type) != (field.name, field.type):
                raise ConfigError(
                    f"the column {field.name!r} of the source was changed while its changes are read",
                    table=self.store.name,
                    snapshot=snapshot.id,
                    hint="start the statement again: it continues here, with the new columns",
                )


def check_streamable(schema: TableSchema, table: str) -> None:
    """Raise ConfigError if the table's files contain parts of rows and not its changes: the rule of Paimon."""
    if not schema.primary_keys or writes_changelog(Layout.of(schema)):
        return
    engine = merge_engine(schema.typed).needs_changelog_as
    if engine:
        raise ConfigError(
            f"{engine} streaming reading is not supported: the table has no changelog",
            table=table,
            hint="ALTER TABLE t SET ('changelog-producer' = 'lookup'), or 'full-compaction', then CALL sys.compact",
        )
