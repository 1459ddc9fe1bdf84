"""Column-wise decoding of blocks of Avro records, without arrays and maps: the position of their items varies.

Where an Avro record ends is known only after it was read, so a single pass over the bytes finds where each record
begins. The pass jumps with regular expressions from one text value to the next, because the bytes alone say how long a
text is. Everything else is decoded column by column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.table.files.avro.encode import counted
from penstock.table.files.avro.record_places import SIZED, VARINTS, WIDTHS, Places, kind_of, record_places
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import AtomicType, DataType, Field, RowType

Valid = npt.NDArray[np.bool_] | None
_KINDS = (*WIDTHS, *VARINTS, *SIZED)
_VARINT_BYTES = 10
_DECIMAL_BYTES = 16
_LONG_TEXT = 256


def can_decode(node: Any, *, with_sized: bool = True) -> bool:
    """Return whether `decoded` supports this schema: no arrays or maps, and no text inside records that may be null."""
    match node:
        case {"type": "record", "fields": fields}:
            return all(can_decode(field["type"], with_sized=with_sized) for field in fields)
        case ["null", branch]:
            return can_decode(branch, with_sized=with_sized and kind_of(branch) != "record")
    return kind_of(node) in _KINDS and (with_sized or kind_of(node) not in SIZED)


def decoded(data: bytes, count: int, schema: Mapping[str, Any], fields: Sequence[Field]) -> list[pa.Array]:
    """Return the columns `fields` of a block's records; a column that the file does not have is null.

    ValueError or IndexError when the bytes do not contain exactly `count` records.
    """
    places = record_places(data, count, schema["fields"])
    # The padding is as long as the widest read, which is the read of a decimal.
    block = _PaddedBlock(np.frombuffer(data + bytes(_DECIMAL_BYTES), np.uint8))
    wanted, found = {field.name: field.type for field in fields}, {}
    for member in schema["fields"]:
        name = member["name"]
        found[name], places = block.column(member["type"], places, wanted.get(name))
    return [found[field.name] if field.name in found else pa.nulls(count, to_arrow(field.type)) for field in fields]


@dataclass(frozen=True, slots=True)
class _PaddedBlock:
    """The bytes of a block, padded at the end so that reads of a fixed width never run out of bounds."""

    data: npt.NDArray[np.uint8]

    def column(self, node: Any, places: Places, type_: DataType | None) -> tuple[pa.Array | None, Places]:
        """Return the values that begin at `places`, and where they end. Without a type only the ends are computed."""
        if not isinstance(node, list):
            return self._values(node, places, type_, None)
        branches = self.data[places]
        # The number of the branch is a zigzag integer: 0 is null, and 2 the second branch.
        if not ((branches == 0) | (branches == 2)).all():
            raise ValueError("a value selects a branch that its union does not have")
        column, ends = self._values(node[1], places + 1, type_, branches == 2)
        # A null has no bytes after its branch. The values and ends of nulls are computed too, from the bytes that
        # follow, and ignored.
        return column, np.where(branches == 2, ends, places + 1)

    def _values(
        self, node: Any, places: Places, type_: DataType | None, valid: Valid
    ) -> tuple[pa.Array | None, Places]:
        kind = kind_of(node)
        if kind == "record":
            return self._records(node["fields"], places, type_, valid)
        assert type_ is None or isinstance(type_, AtomicType)
        if kind in WIDTHS:
            return self._fixed(kind, places, type_, valid), places + WIDTHS[kind]
        numbers, ends = self._varints(places)
        if kind in VARINTS:
            return None if type_ is None else _numbers(numbers, valid, type_), ends
        if valid is not None:
            numbers = np.where(valid, numbers, 0)
        return None if type_ is None else self._sized(ends, ends + numbers, valid, type_), ends + numbers

    def _fixed(self, kind: str, places: Places, type_: AtomicType | None, valid: Valid) -> pa.Array | None:
        if type_ is None:
            return None
        width = WIDTHS[kind]
        # The place of a null may be at the very end of the block.
        inside = np.minimum(places, len(self.data) - width)
        values = self.data[inside[:, None] + np.arange(width)]
        values = values.view(f"<f{width}")[:, 0] if width > 1 else values[:, 0] != 0
        return pa.array(values, mask=_missing(valid)).cast(to_arrow(type_))

    def _records(
        self, members: Sequence[Mapping[str, Any]], places: Places, type_: DataType | None, valid: Valid
    ) -> tuple[pa.Array | None, Places]:
        types = {one.name: one.type for one in type_.fields} if isinstance(type_, RowType) else {}
        inner = AtomicType("VARBINARY") if isinstance(type_, AtomicType) else None  # value and metadata of a VARIANT
        ends = places if valid is None else places[valid]  # a null record has no bytes for its members
        children: dict[str, pa.Array | None] = {}
        for member in members:
            name = member["name"]
            children[name], ends = self.column(member["type"], ends, types.get(name, inner))
        if valid is not None:
            whole = places.copy()
            whole[valid] = ends
            ends = whole
        if type_ is None:
            return None, ends
        arrow = to_arrow(type_)
        columns = [children[field.name] for field in arrow]
        if valid is None:
            return pa.StructArray.from_arrays(columns, fields=list(arrow)), ends
        # The members have one value per record that is not null. This spreads them over all records.
        order = pa.array(np.cumsum(valid) - 1, mask=~valid)
        columns = [column.take(order) for column in columns if column is not None]
        return pa.StructArray.from_arrays(columns, fields=list(arrow), mask=pa.array(~valid)), ends

    def _varints(self, places: Places) -> tuple[npt.NDArray[np.int64], Places]:
        """Return the numbers that begin at `places`, and where they end."""
        last = len(self.data) - 1
        part = self.data[np.minimum(places, last)]
        found, ends = (part & np.uint8(0x7F)).astype(np.uint64), places + 1
        more = np.flatnonzero(part >= 0x80)
        for place in range(1, _VARINT_BYTES):
            if not len(more):
                break
            part = self.data[np.minimum(places[more] + place, last)]
            found[more] |= (part & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * place)
            ends[more] += 1
            more = more[part >= 0x80]
        # Zigzag: the lowest bit is the sign.
        return (found >> np.uint64(1)).view(np.int64) ^ -(found & np.uint64(1)).view(np.int64), ends

    def _sized(self, starts: Places, ends: Places, valid: Valid, type_: AtomicType) -> pa.Array:
        there = None if valid is None else pa.array(valid).buffers()[1]
        if type_.root == "DECIMAL":
            return _decimals(self.data, starts, ends, there, type_)
        offsets = np.zeros(len(starts) + 1, np.int32)
        np.cumsum(ends - starts, out=offsets[1:])
        if offsets[-1] > _LONG_TEXT * len(starts):  # an index per byte would need sixteen times the memory of the text
            data, spans = memoryview(pa.py_buffer(self.data)), zip(starts.tolist(), ends.tolist(), strict=True)
            joined: Any = b"".join([data[start:end] for start, end in spans])
        else:
            # One index per byte: the byte's place in the result, moved by the distance of its text from there.
            joined = self.data[np.repeat(starts - offsets[:-1], ends - starts) + np.arange(offsets[-1])]
        buffers = [there, pa.py_buffer(offsets), pa.py_buffer(joined)]
        return pa.Array.from_buffers(pa.binary(), len(starts), buffers).cast(to_arrow(type_))


def _missing(valid: Valid) -> Valid:
    return None if valid is None else ~valid


def _numbers(numbers: npt.NDArray[np.int64], valid: Valid, type_: AtomicType) -> pa.Array:
    if valid is not None:
        numbers = np.where(valid, numbers, 0)
    arrow, found = to_arrow(type_), pa.array(numbers, mask=_missing(valid))
    match type_.root:
        case "DATE" | "TIME":
            return found.cast(pa.int32()).view(arrow)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return found.view(counted(type_)).cast(arrow)
    return found.cast(arrow)


def _decimals(
    data: npt.NDArray[np.uint8], starts: Places, ends: Places, there: pa.Buffer | None, type_: AtomicType
) -> pa.Array:
    """Return big-endian numbers of any length as Arrow decimals: 16 bytes each, extended by the sign."""
    places = (ends - _DECIMAL_BYTES)[:, None] + np.arange(_DECIMAL_BYTES)
    sign = np.where(ends > starts, data[np.minimum(starts, len(data) - 1)] >> 7, 0).astype(np.uint8) * np.uint8(0xFF)
    # The 16 bytes before the end of each number. Those before its start belong to other values and are replaced by
    # the sign.
    held = np.where(places >= starts[:, None], data[np.clip(places, 0, len(data) - 1)], sign[:, None])
    words = np.ascontiguousarray(held[:, ::-1])
    return pa.Array.from_buffers(to_arrow(type_), len(starts), [there, pa.py_buffer(words)])
