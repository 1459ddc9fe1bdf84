"""ORC data files (table-format 7.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import orc

from penstock.table.files.columns import stored_rows, stored_schema
from penstock.table.files.conditions import Condition
from penstock.table.files.encoding import Encoding
from penstock.table.files.moments import Ints, moments
from penstock.table.files.orc_tail import EPOCH_2015, OrcTail
from penstock.table.files.relayout import map_leaves, nested, relayout
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import fixed_values
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType

_BLOCK_BYTES = 256 << 10  # as Java's
_UTC = ("", "GMT", "UTC", "Etc/UTC", "Z")


class OrcWriter:
    """One file. liborc ends a stripe when it is full."""

    def __init__(self, stream: Any, fields: Sequence[Field], encoding: Encoding, sample: pa.Table) -> None:
        self._fields, self._stored = tuple(fields), stored_schema(tuple(fields), "orc")
        self._writer = orc.ORCWriter(
            stream,
            compression="uncompressed" if encoding.codec == "none" else encoding.codec,
            compression_block_size=_BLOCK_BYTES,
            stripe_size=encoding.stripe_bytes,
        )

    def write(self, rows: pa.Table) -> None:
        stored = stored_rows(rows, self._fields, self._stored)
        columns = [_safe_to_write(column) for column in stored.columns]
        self._writer.write(pa.Table.from_arrays(columns, schema=stored.schema))

    def close(self) -> None:
        self._writer.close()


def _safe_to_write(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Arrow's ORC writer loses members of a ROW in slices, and where something stands behind a null."""
    if not pa.types.is_nested(column.type):
        return column
    whole = pa.chunked_array([_null_all_through(chunk) for chunk in column.chunks], column.type)
    return whole.take(pa.array(np.arange(len(whole))))  # a copy: no offsets are left


def _null_all_through(array: pa.Array) -> pa.Array:
    type_ = array.type
    if pa.types.is_struct(type_):
        members = [_null_all_through(member) for member in array.flatten()]
        fields = [type_.field(place) for place in range(type_.num_fields)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null())
    if pa.types.is_map(type_):
        members = [_null_all_through(array.keys), _null_all_through(array.items)]
        return nested(array, type_, pa.StructArray.from_arrays(members, fields=[type_.key_field, type_.item_field]))
    if pa.types.is_list(type_):
        return nested(array, type_, _null_all_through(array.values))
    return array


def read(
    source: Any, fields: Sequence[Field], *, batch_rows: int, conditions: Sequence[Condition] = ()
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As `parquet.read`, but nothing is passed over. Holds a batch, and what liborc holds of a stripe."""
    timed = {field.name for field in fields if has_timestamps(field.type)}
    if timed:
        batches = _timed_batches(OrcTail(source), fields, timed, batch_rows)
    else:
        plain = _scan(source, {field.name for field in fields}, batch_rows)
        batches = (_public(batch, fields, lambda column, _, target: relayout(column, target)) for batch in plain)
    first_row = 0
    for batch in batches:
        yield first_row, batch
        first_row += batch.num_rows


def has_timestamps(type_: DataType) -> bool:
    match type_:
        case AtomicType("TIMESTAMP" | "TIMESTAMP_LTZ"):
            return True
        case ArrayType(element) | MultisetType(element):
            return has_timestamps(element)
        case MapType(key, value):
            return has_timestamps(key) or has_timestamps(value)
        case RowType(fields):
            return any(has_timestamps(member.type) for member in fields)
    return False


def _scan(source: Any, names: set[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches in the file's order. They end where stripes end."""
    fragment = ds.OrcFileFormat().make_fragment(source)
    columns = [name for name in fragment.physical_schema.names if name in names]
    scanner = fragment.scanner(
        columns=columns, batch_size=batch_rows, batch_readahead=0, fragment_readahead=0, use_threads=False
    )
    yield from scanner.to_batches()


def _timed_batches(
    tail: OrcTail, fields: Sequence[Field], timed: set[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    seconds = _scan(pa.PythonFile(tail.with_seconds()), {field.name for field in fields}, batch_rows)
    nanos = _scan(pa.PythonFile(tail.with_nanoseconds()), timed, batch_rows)
    stripes = iter(tail.stripes)
    left, zone = 0, ""
    for batch, finer in zip(seconds, nanos, strict=True):
        if left == 0:
            left, zone = next(stripes)
        yield _public(batch, fields, partial(_with_moments, finer, _Clock(zone, from_java=tail.from_java)))
        left -= batch.num_rows


class _Clock:
    """What the numbers of one stripe mean. TIMESTAMPs are told by the clock on the writer's wall, since its 2015.

    Java writes TIMESTAMP WITH LOCAL TIME ZONE by that clock too, though it tells ORC that it does not.
    """

    def __init__(self, zone: str, *, from_java: bool) -> None:
        self._zone = None if zone in _UTC else zone
        self._from_java = from_java

    def wall_seconds(self, since_2015: Ints, nanos: Ints, *, instant: bool) -> Ints:
        if self._zone is None or (instant and not self._from_java):
            return _unrounded(since_2015 + EPOCH_2015, nanos)
        start = EPOCH_2015 if instant else int(datetime(2015, 1, 1, tzinfo=ZoneInfo(self._zone)).timestamp())
        true = _unrounded(since_2015 + start, nanos)
        zoned = pa.Array.from_buffers(pa.timestamp("s", self._zone), len(true), [None, pa.py_buffer(true)])
        return _integers(pc.local_timestamp(zoned))


def _unrounded(seconds: Ints, nanos: Ints) -> Ints:
    """ORC rounds seconds toward 1970, and tells by the nanoseconds that it did."""
    return seconds - ((seconds < 0) & (nanos > 999_999))


def _integers(array: pa.Array) -> Ints:
    return fixed_values(array, np.int64).view(np.int64)


def _with_moments(
    finer: pa.RecordBatch, clock: _Clock, column: pa.Array, field: Field, target: pa.DataType
) -> pa.Array:
    if field.name not in finer.schema.names:
        return relayout(column, target)

    def leaf(seconds: pa.Array, type_: pa.DataType, nanos: pa.Array) -> pa.Array:
        if not pa.types.is_timestamp(type_):
            return relayout(seconds, type_)
        fraction = _integers(nanos) - EPOCH_2015 * 10**9
        whole = clock.wall_seconds(_integers(seconds), fraction, instant=type_.tz is not None)
        return moments(seconds, whole, fraction, type_, field.name)

    return map_leaves(column, target, leaf, finer.column(field.name))


def _public(batch: pa.RecordBatch, fields: Sequence[Field], convert: Any) -> pa.RecordBatch:
    columns = []
    for field in fields:
        place, type_ = batch.schema.get_field_index(field.name), to_arrow(field.type)
        column = pa.nulls(batch.num_rows, type_) if place < 0 else convert(batch.column(place), field, type_)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, [field.name for field in fields]) if columns else batch.select([])
