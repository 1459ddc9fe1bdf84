"""Reader and writer of ORC data files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

from penstock.errors import TableCorrupt
from penstock.table.files.columns import fitting_rows, stored_rows, stored_schema
from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.encoding import Encoding
from penstock.table.files.orc.assembly import OrcAssembly
from penstock.table.files.orc.early_times import as_nanoseconds, as_seconds, has_early_fractions, with_unit
from penstock.table.files.orc.timestamps import WriterClock, with_nanoseconds, with_seconds
from penstock.table.files.relayout import (
    char_lengths,
    is_split_timestamp,
    map_leaves,
    nested,
    pad_chars,
    relayout,
    trim_chars,
)
from penstock.table.orc_metadata.tail import OrcTail
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType

_BLOCK_BYTES = 256 << 10  # the block size of Java's writer
# In bytes, more than any row group has: each file that Arrow writes has a single stripe.
_ONE_STRIPE = 1 << 40
# Files up to this size have either short rows or few of them.
_SMALL_FILE = 32 << 10
_HELD = 3  # how many copies of a row liborc and the scanner hold

_Convert = Callable[[pa.Array, Field, pa.DataType], pa.Array]


class OrcWriter:
    """The writer of one ORC file. Every `write` is a stripe."""

    def __init__(self, stream: Any, fields: Sequence[Field], encoding: Encoding, sample: pa.Table) -> None:
        self._fields, self._stored = tuple(fields), stored_schema(tuple(fields), "orc")
        self._codec = "uncompressed" if encoding.codec == "none" else encoding.codec
        self._assembly = OrcAssembly(stream, char_lengths(self._fields))

    def write(self, rows: pa.Table) -> None:
        """Append rows as a stripe."""
        table = stored_rows(rows, self._fields, self._stored)
        pairs = zip(table.columns, self._fields, strict=True)
        columns = [_safe_to_write(column, field) for column, field in pairs]
        if not any(has_early_fractions(column) for column in columns):
            self._assembly.add(self._file(columns, self._stored), None)
            return
        # Fractions of seconds before 1970 are written in two files, one with seconds and one with nanoseconds, from
        # which the assembly takes the streams that Java can read.
        seconds, nanos = (_in_unit(self._stored, unit) for unit in ("s", "ns"))
        whole = [as_seconds(column, to.type, to.name) for column, to in zip(columns, seconds, strict=True)]
        fractions = [as_nanoseconds(column, to.type) for column, to in zip(columns, nanos, strict=True)]
        self._assembly.add(self._file(whole, seconds), self._file(fractions, nanos))

    def _file(self, columns: Sequence[pa.ChunkedArray], schema: pa.Schema) -> pa.Buffer:
        out = pa.BufferOutputStream()
        with orc.ORCWriter(
            out, compression=self._codec, compression_block_size=_BLOCK_BYTES, stripe_size=_ONE_STRIPE
        ) as writer:
            writer.write(pa.Table.from_arrays(columns, schema=schema))
        return out.getvalue()

    def close(self) -> None:
        """Write the metadata of the file. The stream stays open."""
        self._assembly.close()


def _in_unit(schema: pa.Schema, unit: str) -> pa.Schema:
    return pa.schema([field.with_type(with_unit(field.type, unit)) for field in schema])


def _safe_to_write(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    """Return a copy of the column that Arrow's ORC writer writes correctly.

    The writer loses members of a ROW in sliced arrays, and where a null has a value underneath.
    """
    chunks = [pad_chars(chunk, field.type) for chunk in column.chunks]
    if not pa.types.is_nested(column.type):
        return pa.chunked_array(chunks, column.type)
    whole = pa.chunked_array([_null_all_through(chunk) for chunk in chunks], column.type)
    return whole.take(pa.array(np.arange(len(whole))))  # `take` copies, so that no slice offsets remain


def _null_all_through(array: pa.Array) -> pa.Array:
    type_ = array.type
    if pa.types.is_struct(type_):
        # flatten() makes members null where the row is null.
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
    source: Any, fields: Sequence[Field], *, batch_rows: int, conditions: Sequence[ColumnCondition] = ()
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches as `parquet.read` does, but without skipping stripes.

    Holds a batch, and liborc's memory of a stripe.
    """
    timed = {field.name for field in fields if has_timestamps(field.type)}
    if source.size() <= _SMALL_FILE:  # Read it with a single request, since most bytes are read twice.
        source = pa.BufferReader(source.read_at(source.size(), 0))
    tail = OrcTail(source)  # liborc aborts the process on a footer that it does not expect
    if timed or tail.size > _SMALL_FILE:
        batch_rows = fitting_rows(batch_rows, _HELD * tail.row_bytes())
    if timed:
        batches = _timed_batches(tail, fields, timed, batch_rows)
    else:
        plain = _scan(source, {field.name for field in fields}, batch_rows)
        batches = (_public(batch, fields, lambda column, _, target: relayout(column, target)) for batch in plain)
    first_row = 0
    for batch in batches:
        yield first_row, batch
        first_row += batch.num_rows


def has_timestamps(type_: DataType) -> bool:
    """Return whether the type contains a timestamp at any depth."""
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
    """Yield batches in the file's order. A batch never crosses the end of a stripe."""
    # imported late: it imports pandas, which costs half a second in every process that writes
    import pyarrow.dataset as ds

    fragment = ds.OrcFileFormat().make_fragment(source)
    columns = [name for name in fragment.physical_schema.names if name in names]
    # No reading ahead: it would keep more batches in memory.
    scanner = fragment.scanner(
        columns=columns, batch_size=batch_rows, batch_readahead=0, fragment_readahead=0, use_threads=False
    )
    yield from scanner.to_batches()


def _timed_batches(
    tail: OrcTail, fields: Sequence[Field], timed: set[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    seconds = _scan(pa.PythonFile(with_seconds(tail)), {field.name for field in fields}, batch_rows)
    nanos = _scan(pa.PythonFile(with_nanoseconds(tail)), timed, batch_rows)
    # Field 9 is the writer of the file: 0 is Java's.
    is_java = tail.footer.integer(9) == 0
    stripes = zip(tail.stripes, tail.stripe_footers, strict=True)
    left, clock = 0, WriterClock("", is_java=is_java)
    for batch, finer in zip(seconds, nanos, strict=True):
        # Both scans end their batches at the end of a stripe, so the zone of the writer, which is recorded per
        # stripe, changes only between batches.
        if left == 0:
            stripe, footer = next(stripes, (None, None))
            if stripe is None or footer is None:
                raise TableCorrupt("an ORC file declares more rows than its stripes contain")
            left, clock = stripe.integer(5), WriterClock(footer.text(3), is_java=is_java)
        yield _public(batch, fields, partial(_with_moments, finer, clock))
        left -= batch.num_rows


def _with_moments(
    finer: pa.RecordBatch, clock: WriterClock, column: pa.Array, field: Field, target: pa.DataType
) -> pa.Array:
    place = finer.schema.get_field_index(field.name)
    if place < 0:
        return relayout(column, target)

    def leaf(seconds: pa.Array, type_: pa.DataType, nanos: pa.Array) -> pa.Array:
        if pa.types.is_timestamp(type_) or is_split_timestamp(type_):
            return clock.moments(seconds, nanos, type_, field.name)
        return relayout(seconds, type_)

    return map_leaves(column, target, leaf, finer.column(place))


def _public(batch: pa.RecordBatch, fields: Sequence[Field], convert: _Convert) -> pa.RecordBatch:
    columns = []
    for field in fields:
        place, type_ = batch.schema.get_field_index(field.name), to_arrow(field.type)
        if place < 0:
            columns.append(pa.nulls(batch.num_rows, type_))
        else:
            columns.append(trim_chars(convert(batch.column(place), field, type_), field.type))
    return pa.RecordBatch.from_arrays(columns, [field.name for field in fields]) if columns else batch.select([])
