"""One table that a pipeline reads: its state and its changes as batches of changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import ChangeBatch, Int64s, SourceField, SourceSchema
from penstock.row_kinds import INSERT, KIND_TEXTS, UPDATE_AFTER, UPDATE_BEFORE, RowKinds
from penstock.schema_evolution.types.source import typed
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.read.changes import change_splits, snapshot_or_changelog, writes_changelog
from penstock.table.read.follow import follows_overwrite
from penstock.table.read.plan import plan_state
from penstock.table.read.snapshot_diff import overwritten
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from penstock.table.read.stream_start import levels_of_state
from penstock.table.read.update_pairs import whole_updates
from penstock.table.schema.table_schema import TableSchema

DIALECT = "paimon"


@dataclass(frozen=True, slots=True)
class Upstream:
    """A table as a source of changes. `options` are the options of the streaming read."""

    name: str  # database.table
    store: TableStore
    options: Mapping[str, str]

    def snapshot(self, number: int) -> Snapshot:
        """Return a snapshot, or the long-lived changelog of it. SnapshotMissing if it has expired."""
        return snapshot_or_changelog(self.store, number)

    def schema_at(self, snapshot: Snapshot) -> TableSchema:
        """Return the schema with which a snapshot was committed: read again, its rows have the same columns."""
        return self.store.schemas.get(snapshot.schema_id)

    def rows_of(self, snapshot: Snapshot) -> int:
        """Return about how many rows the changes of a snapshot have, without reading its manifests."""
        logged = writes_changelog(Layout.of(self.schema_at(snapshot)))
        return abs(snapshot.changelog_record_count if logged else snapshot.delta_record_count)

    def state_splits(self, snapshot: Snapshot) -> tuple[Split, ...]:
        """Return the splits of the rows at a snapshot, always in the same order."""
        schema = self.schema_at(snapshot)
        return plan_state(self.store, Layout.of(schema), snapshot, keep_levels=levels_of_state(schema)).splits

    def state(self, snapshot: Snapshot, first: int, last: int) -> Iterator[ChangeBatch]:
        """Yield the rows of the splits with numbers in [first, last)."""
        schema = self.schema_at(snapshot)
        reader = SplitReader(self.store, Layout.of(schema), schema.fields)
        source, position = self.described(schema), 0
        for split in self.state_splits(snapshot)[first:last]:
            for batch in reader.read(split):
                yield ChangeBatch.inserts(source, batch, position)
                position += len(batch)

    def parts(self, snapshot: Snapshot, most: int) -> int:
        """Return into how many parts the changes of a snapshot are divided, so that rows of a key are in one."""
        layout = Layout.of(self.schema_at(snapshot))
        # An overwrite removes rows before it adds others, and a key may move between the buckets of partitions.
        whole = snapshot.commit_kind is CommitKind.OVERWRITE or layout.mode is BucketMode.CROSS_PARTITION
        return 1 if whole else most

    def changes(self, snapshot: Snapshot, part: int, parts: int) -> Iterator[ChangeBatch]:
        """Yield one part of the rows that a snapshot changed."""
        schema = self.schema_at(snapshot)
        layout = Layout.of(schema)
        reader = SplitReader(self.store, layout, schema.fields, kinds=True)
        source, position = self.described(schema), 0
        logged = writes_changelog(layout)
        for batch in whole_updates(self._batches(snapshot, reader, part, parts, logged=logged)):
            change = _change(batch, source, position, snapshot.time_millis)
            if layout.has_keys and not logged:
                # Without a changelog, a row that is written may be a new one or replace another.
                kinds = np.where(change.kinds == INSERT, UPDATE_AFTER, change.kinds).astype(np.int8)
                change = replace(change, kinds=kinds)
            yield change
            position += len(batch)

    def _batches(
        self, snapshot: Snapshot, reader: SplitReader, part: int, parts: int, *, logged: bool
    ) -> Iterator[pa.RecordBatch]:
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            if follows_overwrite(self.name, reader.layout.schema, snapshot, self.options):
                yield from overwritten(self.store, reader, snapshot)
            return
        splits = change_splits(self.store, snapshot, "changelog" if logged else "delta")
        for number, split in enumerate(splits):
            if number % parts == part:
                yield from reader.read_files(split)

    def described(self, schema: TableSchema) -> SourceSchema:
        """Return the schema of the table as a source schema."""
        database, _, table = self.name.partition(".")
        fields = tuple(
            SourceField(field.name, typed(field.type), field.description, field.type.nullable)
            for field in schema.fields
        )
        keys = schema.primary_keys
        return SourceSchema(DIALECT, database, table, fields, keys, schema.comment, states_no_key=not keys)


def _change(batch: pa.RecordBatch, source: SourceSchema, first: int, millis: int) -> ChangeBatch:
    kinds = np.asarray(pc.index_in(batch.column(0), pa.array(KIND_TEXTS)).cast(pa.int8()))
    rows = batch.select(batch.schema.names[1:])
    after = _second_images(rows, kinds, source.primary_keys)
    # Both images of an update have one position.
    positions = np.arange(first, first + len(batch), dtype=np.int64) - after
    return ChangeBatch(rows, kinds, positions, after.astype(np.int32), source, np.full(len(batch), millis, np.int64))


def _second_images(rows: pa.RecordBatch, kinds: RowKinds, keys: Sequence[str]) -> Int64s:
    """Return 1 for each +U that follows the -U of its key, 0 for all other rows."""
    after = np.zeros(len(kinds), np.int64)
    places = np.flatnonzero((kinds[:-1] == UPDATE_BEFORE) & (kinds[1:] == UPDATE_AFTER)) + 1
    same = np.ones(len(places), np.bool_)
    for name in keys:
        column = rows.column(name)
        equal = pc.equal(column.take(pa.array(places)), column.take(pa.array(places - 1)))
        same &= equal.to_numpy(zero_copy_only=False)
    after[places[same]] = 1
    return after
