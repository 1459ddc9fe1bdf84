"""The difference between two states of a table, and the rows an overwrite removed and added."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.row_kinds import ROWKIND
from penstock.table.buckets.layout import Layout
from penstock.table.meta.entries import Bucket, FileKind
from penstock.table.meta.live import delta_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.read.plan import Plan, grouped, plan_state
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split, only
from penstock.table.values.buffers import Flags, rows_at
from penstock.table.values.fingerprints import MARK, Marks, fingerprints
from penstock.table.values.internal import entry_types, internal_values
from penstock.table.values.sort_keys import comparable_keys
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType


def difference(
    store: TableStore, reader: SplitReader, start: Snapshot | None, end: Snapshot | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `end` that are missing in `start` or differ from it.

    Deleted rows are not reported, as in a batch read.

    For tables with keys the merged rows of both states are compared, whatever the merge engine; the files that only
    one state has determine which keys may differ. Paimon's Java client compares only the files that are not shared, and
    so also reports rows that are equal in both states, and partial rows of partial-update and aggregation tables. Keeps
    the rows of such keys of one bucket in memory, or of one partition after an overwrite.
    """
    layout = reader.layout
    _check_same_buckets(store, start, end, layout)
    place_of = _partition if layout.has_keys and _keys_may_move(store, start, end) else _bucket
    before, after = (_grouped(plan_state(store, layout, snapshot), place_of) for snapshot in (start, end))
    for place, splits in after.items():
        old = before.get(place, [])
        found = _changed_rows(reader, old, splits) if layout.has_keys else _new_rows(reader, old, splits)
        for batch in found.to_batches():
            out = reader.finished_rows(batch)
            if out.num_rows:
                yield out


def _changed_rows(reader: SplitReader, old: Sequence[Split], new: Sequence[Split]) -> pa.Table:
    full = _full(reader)
    only_old, only_new = _without_shared(old, new)
    if not only_new and not only_old:
        return full.schema.empty_table()
    keys = _Keys.of(reader, [*only_old, *only_new])
    old_rows, new_rows = keys.rows(full, old), keys.rows(full, new)
    return new_rows.filter(pa.array(_changed(reader.layout, old_rows, new_rows)))


def _new_rows(reader: SplitReader, old: Sequence[Split], new: Sequence[Split]) -> pa.Table:
    """Return the new rows of a table without keys: each row as many times as its count grew between the two states."""
    full = _full(reader)
    only_old, only_new = _without_shared(old, new)
    new_rows, old_rows = _rows(full, only_new), _rows(full, only_old)
    if new_rows.num_rows == 0 or old_rows.num_rows == 0:
        return new_rows
    marks, known = (_marks(table, reader.layout.schema.fields) for table in (new_rows, old_rows))
    values, counts = np.unique(known, return_counts=True)
    # Rows with equal values are numbered from 0, in order. Those numbered below the count of the old state were
    # there before; the rest are new.
    order = np.argsort(marks, kind="stable")
    firsts = np.flatnonzero(np.r_[True, marks[order][1:] != marks[order][:-1]])
    nth = np.arange(len(order)) - np.repeat(firsts, np.diff(np.r_[firsts, len(order)]))
    places = np.minimum(np.searchsorted(values, marks[order]), len(values) - 1)
    held = np.where(values[places] == marks[order], counts[places], 0)
    return rows_at(new_rows, np.sort(order[nth >= held]))


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys that may differ between two states, as sorted 128-bit fingerprints."""

    fields: tuple[Field, ...]
    marks: Marks

    @classmethod
    def of(cls, reader: SplitReader, splits: Iterable[Split]) -> _Keys:
        fields = tuple(reader.layout.key_fields)
        # Only files that one of the states lacks can change a key, but the row of such a key may also be in a file of
        # both states. So the keys are found first, and then their rows are read from all files.
        keys = replace(reader, wanted=fields, where=None, kinds=False)
        parts = [_marks(batch, fields) for split in splits for batch in keys.read_files(split)]
        return cls(fields, np.unique(np.concatenate(parts)) if parts else np.empty(0, MARK))

    def rows(self, reader: SplitReader, splits: Iterable[Split]) -> pa.Table:
        """Return the merged rows of these keys."""
        batches = (batch for split in splits for batch in reader.read(split))
        kept = (batch.filter(pa.array(np.isin(_marks(batch, self.fields), self.marks))) for batch in batches)
        return pa.Table.from_batches(kept, reader.schema)


def _marks(rows: pa.Table | pa.RecordBatch, fields: Sequence[Field]) -> Marks:
    """Return a 128-bit fingerprint of these columns per row."""
    columns = [rows.column(field.name) for field in fields]
    if isinstance(rows, pa.Table):
        columns = [column.combine_chunks() for column in columns]
    return fingerprints(columns, [field.type for field in fields]).marks


def _check_same_buckets(store: TableStore, start: Snapshot | None, end: Snapshot | None, layout: Layout) -> None:
    if start is None or end is None or not layout.has_keys:
        return
    first, last = (Layout.of(store.schemas.get(snapshot.schema_id)).bucket_count for snapshot in (start, end))
    if first != last:
        raise ConfigError(
            f"the two snapshots have different numbers of buckets, {first} and {last}, and cannot be compared",
            table=store.name,
            paimon_message=f"The bucket number of two snapshots are different ({first}, {last}), which is not "
            "supported in incremental diff mode.",
            hint="read between two snapshots with the same number of buckets",
        )


def _full(reader: SplitReader) -> SplitReader:
    return replace(reader, wanted=reader.layout.schema.fields, where=None, kinds=True)


def _keys_may_move(store: TableStore, start: Snapshot | None, end: Snapshot | None) -> bool:
    """Return whether a key may have changed its bucket since then: dynamic buckets, or another number of buckets."""
    if start is None or end is None:
        return False
    between = (store.snapshots.find(number) for number in range(start.id + 1, end.id + 1))
    return any(snapshot is None or snapshot.commit_kind is CommitKind.OVERWRITE for snapshot in between)


def _bucket(split: Split) -> Bucket:
    return split.partition, split.bucket


def _partition(split: Split) -> bytes:
    return split.partition


def _grouped(plan: Plan, place_of: Callable[[Split], Hashable]) -> dict[Hashable, list[Split]]:
    groups: dict[Hashable, list[Split]] = {}
    for split in plan.splits:
        groups.setdefault(place_of(split), []).append(split)
    return groups


def _rows(reader: SplitReader, splits: Iterable[Split]) -> pa.Table:
    return pa.Table.from_batches((batch for split in splits for batch in reader.read(split)), reader.schema)


def _without_shared(old: Sequence[Split], new: Sequence[Split]) -> tuple[list[Split], list[Split]]:
    shared = _places(old) & _places(new)

    def rest(splits: Sequence[Split]) -> list[Split]:
        kept = [
            only(split, [file for file in split.files if (file.name, file.level) not in shared]) for split in splits
        ]
        return [split for split in kept if split.files]

    return rest(old), rest(new)


def _places(splits: Sequence[Split]) -> set[tuple[str, int]]:
    return {(file.name, file.level) for split in splits for file in split.files}


def _changed(layout: Layout, old: pa.Table, new: pa.Table) -> Flags:
    names = [field.name for field in layout.key_fields]
    old_keys, new_keys = comparable_keys(
        [[table.column(name).combine_chunks() for name in names] for table in (old, new)], layout.key_types
    )
    if len(old_keys) == 0:
        return np.ones(len(new_keys), np.bool_)
    # Every new row is compared with the old row of its key, column by column. A row with a new key has changed.
    order = np.argsort(old_keys, kind="stable")
    places = np.minimum(np.searchsorted(old_keys[order], new_keys), len(old_keys) - 1)
    matched = order[places]
    known = old_keys[matched] == new_keys
    same = known.copy()
    beside = rows_at(old, matched)
    for field in layout.schema.fields:
        if same.any():
            same &= _equal(beside.column(field.name), new.column(field.name), field.type)
    return np.asarray(~same, np.bool_)


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray, type_: DataType) -> Flags:
    """Compare as Java does: NaN equals NaN, -0.0 differs from 0.0, and the order of a map's entries is ignored."""
    left_values, right_values = left.combine_chunks(), right.combine_chunks()
    if not isinstance(type_, AtomicType) or type_.root == "VARIANT":
        pairs = zip(internal_values(left_values, type_), internal_values(right_values, type_), strict=True)
        return np.fromiter(
            (_comparable(a, type_) == _comparable(b, type_) for a, b in pairs), np.bool_, len(left_values)
        )
    if pa.types.is_floating(left_values.type):
        left_values, right_values = _bits(left_values), _bits(right_values)
    both_null = pc.and_(pc.is_null(left_values), pc.is_null(right_values))
    equal = pc.fill_null(pc.equal(left_values, right_values), fill_value=False)
    return np.asarray(pc.or_(equal, both_null).to_numpy(zero_copy_only=False), np.bool_)


def _comparable(value: object, type_: DataType) -> str:
    match type_, value:
        case ArrayType(element), list():
            return f"[{', '.join(_comparable(item, element) for item in value)}]"
        case MapType() | MultisetType(), list():
            key, item = entry_types(type_)
            return f"{{{', '.join(sorted(f'{_comparable(k, key)}: {_comparable(v, item)}' for k, v in value))}}}"
        case RowType(fields), tuple():
            return f"({', '.join(_comparable(item, field.type) for item, field in zip(value, fields, strict=True))})"
    return repr(value)


def _bits(column: pa.Array) -> pa.Array:
    # NaN has many bit patterns, and Java compares the canonical one.
    canonical = pc.if_else(pc.is_nan(column), pa.scalar(np.nan, column.type), column)
    return canonical.view(pa.int32() if pa.types.is_float32(column.type) else pa.int64())


def overwritten(store: TableStore, reader: SplitReader, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """Yield the rows an overwrite removed as -D, then the rows it added; for tables without keys only the latter."""
    entries = delta_entries(store, snapshot)
    # Removed rows come first: for a key that is in both, the reader ends with the new row.
    for kind in (FileKind.DELETE, FileKind.ADD) if reader.layout.has_keys else (FileKind.ADD,):
        chosen = [entry for entry in entries if entry.kind is kind]
        for bucket, group in grouped(chosen).items():
            split = Split(*bucket, tuple(entry.file for entry in group), raw=False)
            for batch in reader.read(split):
                yield _as_deletes(batch) if kind is FileKind.DELETE else batch


def _as_deletes(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index(ROWKIND)
    kinds = pa.array(["-D"] * batch.num_rows, pa.string())
    return batch.set_column(place, batch.schema.field(place), kinds)
