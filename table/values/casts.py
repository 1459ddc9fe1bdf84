"""Casts of columns from one type to another, as Java does when a file is older than its column's current type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import arrow_field, to_arrow
from penstock.table.values.buffers import one_array
from penstock.table.values.cast_numbers import cast_number
from penstock.table.values.cast_rules import TIMES, CastFailed
from penstock.table.values.cast_times import cast_time
from penstock.table.values.internal import entry_types
from penstock.table.values.text_parser import parse_texts
from penstock.table.values.texts import fit_bytes, fit_text, to_text
from penstock.table.values.types import (
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    type_json,
    with_nullability,
)

NUMBERS = {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
CHARS = {"CHAR", "VARCHAR"}
BINARIES = {"BINARY", "VARBINARY"}
_WIDER = "change the column to a type that all its values fit, such as the type that it had before"


def cast_array(array: pa.Array, source: DataType, target: DataType, zone: str = "UTC") -> pa.Array:
    """Return `array` of type `source` as the public Arrow type of `target`.

    `zone` is the session's zone, for TIMESTAMP_LTZ.

    Values that overflow a DECIMAL become null; text that cannot be parsed raises CastFailed. Members of a ROW are
    matched by field id, and a member that the source lacks is null.
    """
    array = one_array(array, to_arrow(source))
    if with_nullability(source, nullable=True) == with_nullability(target, nullable=True):
        return array
    try:
        return _cast(array, source, target, zone)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise CastFailed(
            f"a value of {type_json(source)} is out of range for {type_json(target)}", reason=str(error), hint=_WIDER
        ) from error


def _cast(array: pa.Array, source: DataType, target: DataType, zone: str) -> pa.Array:
    match source, target:
        case ArrayType(), ArrayType():
            return _cast_list(array, source, target, zone)
        case MapType(), MapType():
            return _cast_map(array, source, target, zone)
        case MultisetType(), MultisetType():
            return _cast_map(array, source, target, zone)
        case RowType(), RowType():
            return _cast_row(array, source, target, zone)
        case AtomicType(), AtomicType():
            return _cast_atomic(array, source, target, zone)
        case _, AtomicType("CHAR" | "VARCHAR"):
            return to_text(array, source, zone)
    raise _no_cast(source, target)


def _no_cast(source: DataType, target: DataType) -> ConfigError:
    return ConfigError(f"{type_json(source)} cannot be read as {type_json(target)}", hint=_WIDER)


def _cast_atomic(array: pa.Array, source: AtomicType, target: AtomicType, zone: str) -> pa.Array:
    if target.root in CHARS:
        text = to_text(array, source, zone)
        # Java neither truncates nor pads texts that were cast from bytes.
        return text if source.root in BINARIES else fit_text(text, target)
    if source.root in CHARS and target.root in BINARIES:
        return fit_bytes(array.cast(pa.binary()), target)
    if source.root in CHARS:
        return parse_texts(array, target, zone)
    if source.root in BINARIES and target.root in BINARIES:
        return fit_bytes(array, target)
    if source.root in NUMBERS and target.root in NUMBERS:
        return cast_number(array, source, target)
    if source.root == target.root == "TIME":  # milliseconds at any precision, which only Paimon 2.0 can change
        return array
    if {*TIMES} & {source.root, target.root} and {source.root, target.root} <= {*TIMES, "INT", "BIGINT"}:
        return cast_time(array, source, target, zone)
    raise _no_cast(source, target)


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Return the offsets, shifted to begin at zero, and the range of child values that they refer to."""
    # A slice shares the children of the whole array. Values outside of the slice are not cast: one that cannot be
    # cast would fail the read.
    ends = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    return pa.Array.from_buffers(pa.int32(), len(ends), [None, pa.py_buffer(ends - ends[0])]), ends[0], ends[-1]


def _mask(array: pa.Array) -> pa.Array | None:
    return pc.is_null(array) if array.null_count else None


def _cast_list(array: pa.Array, source: ArrayType, target: ArrayType, zone: str) -> pa.Array:
    if len(array) == 0:
        return pa.array([], to_arrow(target))
    offsets, begin, end = _offsets(array)
    values = cast_array(array.values.slice(begin, end - begin), source.element, target.element, zone)
    return pa.ListArray.from_arrays(offsets, values, type=to_arrow(target), mask=_mask(array))


def _cast_map(array: pa.Array, source: MapType | MultisetType, target: MapType | MultisetType, zone: str) -> pa.Array:
    if len(array) == 0:
        return pa.array([], to_arrow(target))
    offsets, begin, end = _offsets(array)
    (from_key, from_value), (to_key, to_value) = entry_types(source), entry_types(target)
    keys = cast_array(array.keys.slice(begin, end - begin), from_key, to_key, zone)
    values = cast_array(array.items.slice(begin, end - begin), from_value, to_value, zone)
    return pa.MapArray.from_arrays(offsets, keys, values, type=to_arrow(target), mask=_mask(array))


def _cast_row(array: pa.Array, source: RowType, target: RowType, zone: str) -> pa.Array:
    members = {field.id: i for i, field in enumerate(source.fields)}

    def member(field: Field) -> pa.Array:
        if field.id not in members:
            return pa.nulls(len(array), to_arrow(field.type))
        i = members[field.id]
        return cast_array(array.field(i), source.fields[i].type, field.type, zone)

    columns = [member(field) for field in target.fields]
    # field() returns the members without the nulls of the row itself, so the row needs its mask again.
    return pa.StructArray.from_arrays(columns, fields=[arrow_field(f) for f in target.fields], mask=_mask(array))
