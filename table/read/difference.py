"""What two states of a table differ in, and what an overwrite took and gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.layout import Layout
from penstock.table.meta.entries import Bucket, FileKind
from penstock.table.meta.live import delta_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.read.plan import Plan, Split, grouped, only, plan_state
from penstock.table.read.rows import SplitReader
from penstock.table.values.internal import entry_types, internal_values
from penstock.table.values.ordering import comparable_keys
from penstock.table.values.row_kinds import ROWKIND
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType

Mask = npt.NDArray[np.bool_]


def difference(
    store: TableStore, reader: SplitReader, start: Snapshot | None, end: Snapshot | None
) -> Iterator[pa.RecordBatch]:
    """Rows of `end` that `start` has not, or has otherwise. Rows that vanished are not told, as in a batch read."""
    layout = reader.layout
    before, after = _by_bucket(plan_state(store, layout, start)), _by_bucket(plan_state(store, layout, end))
    _check_same_buckets(store, start, end, layout)
    for bucket, splits in after.items():
        # As in Java, a file that stands in both states takes no part, not even in the merge of what is left.
        old, splits = _without_shared(before.get(bucket, []), splits)
        if not layout.has_keys:
            yield from (batch for split in splits for batch in reader.read(split))
            continue
        full = _full(reader)
        new_rows, old_rows = _rows(full, splits), _rows(full, old)
        changed = new_rows.filter(pa.array(_changed(layout, old_rows, new_rows)))
        for batch in changed.to_batches():
            out = reader.finished_rows(batch)
            if out.num_rows:
                yield out


def _check_same_buckets(store: TableStore, start: Snapshot | None, end: Snapshot | None, layout: Layout) -> None:
    if start is None or end is None or not layout.has_keys:
        return
    first, last = (Layout.of(store.schemas.get(snapshot.schema_id)).bucket_count for snapshot in (start, end))
    if first != last:
        raise ConfigError(
            f"The bucket number of two snapshots are different ({first}, {last}), which is not supported in "
            "incremental diff mode.",
            table=store.name,
            hint="read between snapshots on one side of the rescaling",
        )


def _full(reader: SplitReader) -> SplitReader:
    return replace(reader, wanted=reader.layout.schema.fields, where=None, kinds=True)


def _by_bucket(plan: Plan) -> dict[Bucket, list[Split]]:
    groups: dict[Bucket, list[Split]] = {}
    for split in plan.splits:
        groups.setdefault((split.partition, split.bucket), []).append(split)
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


def _changed(layout: Layout, old: pa.Table, new: pa.Table) -> Mask:
    names = [field.name for field in layout.key_fields]
    old_keys, new_keys = comparable_keys(
        [[table.column(name).combine_chunks() for name in names] for table in (old, new)], layout.key_types
    )
    if len(old_keys) == 0:
        return np.ones(len(new_keys), np.bool_)
    order = np.argsort(old_keys, kind="stable")
    places = np.minimum(np.searchsorted(old_keys[order], new_keys), len(old_keys) - 1)
    matched = order[places]
    known = old_keys[matched] == new_keys
    same = known.copy()
    beside = old.take(pa.array(matched))
    for field in layout.schema.fields:
        if same.any():
            same &= _equal(beside.column(field.name), new.column(field.name), field.type)
    return np.asarray(~same, np.bool_)


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray, type_: DataType) -> Mask:
    """As Java: a NaN is itself, -0.0 is not 0.0, the order of a map's entries means nothing."""
    one, other = left.combine_chunks(), right.combine_chunks()
    if not isinstance(type_, AtomicType) or type_.root == "VARIANT":
        pairs = zip(internal_values(one, type_), internal_values(other, type_), strict=True)
        return np.fromiter((_told(a, type_) == _told(b, type_) for a, b in pairs), np.bool_, len(one))
    if pa.types.is_floating(one.type):
        one, other = _bits(one), _bits(other)
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    equal = pc.fill_null(pc.equal(one, other), fill_value=False)
    return np.asarray(pc.or_(equal, both_null).to_numpy(zero_copy_only=False), np.bool_)


def _told(value: object, type_: DataType) -> str:
    match type_, value:
        case ArrayType(element), list():
            return f"[{', '.join(_told(item, element) for item in value)}]"
        case MapType() | MultisetType(), list():
            key, item = entry_types(type_)
            return f"{{{', '.join(sorted(f'{_told(k, key)}: {_told(v, item)}' for k, v in value))}}}"
        case RowType(fields), tuple():
            return f"({', '.join(_told(item, field.type) for item, field in zip(value, fields, strict=True))})"
    return repr(value)


def _bits(column: pa.Array) -> pa.Array:
    canonical = pc.if_else(pc.is_nan(column), pa.scalar(np.nan, column.type), column)
    return canonical.view(pa.int32() if pa.types.is_float32(column.type) else pa.int64())


def overwritten(store: TableStore, reader: SplitReader, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """What an overwrite took away as -D, then what it put in its place; of a table without keys only the latter."""
    entries = delta_entries(store, snapshot)
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
