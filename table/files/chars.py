"""CHAR columns in ORC files: padded with blanks, and a type separate from STRING. In memory CHAR has no padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.files.parquet.relayout import nested
from penstock.table.values.internal import entry_types
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType


def pad_chars(array: pa.Array, type_: DataType) -> pa.Array:
    """Return `array` with every CHAR in it padded with blanks, as ORC stores it."""
    return _map_chars(array, type_, pc.utf8_rpad)


def trim_chars(array: pa.Array, type_: DataType) -> pa.Array:
    """Return `array` with the trailing blanks of every CHAR in it removed, as Java reads it."""
    return _map_chars(array, type_, lambda chars, _: pc.utf8_rtrim(chars, " "))


def _map_chars(array: pa.Array, type_: DataType, change: Callable[[pa.Array, int], pa.Array]) -> pa.Array:
    if not any(_lengths(type_)):
        return array
    match type_:
        case AtomicType():
            return change(array, type_.length)
        case ArrayType(element):
            return nested(array, array.type, _map_chars(array.values, element, change))
        case MapType() | MultisetType():
            pairs = zip((array.keys, array.items), entry_types(type_), strict=True)
            fields = [array.type.key_field, array.type.item_field]
            members = [_map_chars(member, of, change) for member, of in pairs]
            return nested(array, array.type, pa.StructArray.from_arrays(members, fields=fields))
        case RowType(fields):
            members = [_map_chars(array.field(place), member.type, change) for place, member in enumerate(fields)]
            names = [array.type.field(place) for place in range(len(fields))]
            return pa.StructArray.from_arrays(members, fields=names, mask=array.is_null())


def char_lengths(fields: Sequence[Field]) -> dict[int, int]:
    """Return the length of each ORC column that is a CHAR, by column number.

    Column 0 is the row, the others are numbered depth first.
    """
    lengths = (length for field in fields for length in _lengths(field.type))
    return {column: length for column, length in enumerate(lengths, 1) if length}


def _lengths(type_: DataType) -> Iterator[int]:
    """Yield the length of each ORC column that the type consists of: 0 unless the column is a CHAR."""
    yield type_.length if isinstance(type_, AtomicType) and type_.root == "CHAR" else 0
    match type_:
        case AtomicType("VARIANT"):
            yield from (0, 0)
        case ArrayType(element):
            yield from _lengths(element)
        case MapType() | MultisetType():
            for member in entry_types(type_):
                yield from _lengths(member)
        case RowType(fields):
            for field in fields:
                yield from _lengths(field.type)
