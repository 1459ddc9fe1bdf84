"""A reader and writer of Thrift's compact protocol, as far as a Parquet footer uses it. Unknown fields are kept."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TypeAlias

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _MAP, STRUCT = range(1, 13)


@dataclass(slots=True)
class Items:
    """The elements of a list, with their type."""

    kind: int
    values: list[Value]


@dataclass(slots=True)
class Struct:
    """A structure: its fields by number, each with its type."""

    fields: dict[int, tuple[int, Value]] = field(default_factory=dict)

    def get(self, number: int) -> Value | None:
        """Return the value of a field, or None."""
        return self.fields[number][1] if number in self.fields else None

    def structs(self, number: int) -> list[Struct]:
        """Return the members of a list of structures; empty if the field is absent."""
        items = self.get(number)
        return [value for value in items.values if isinstance(value, Struct)] if isinstance(items, Items) else []


Value: TypeAlias = bool | int | float | bytes | Items | Struct


class ThriftReader:
    """A parser of one structure. ValueError or IndexError when the bytes are not such a structure."""

    def __init__(self, data: bytes | memoryview, place: int = 0) -> None:
        """Start at a place in the bytes. `place` is always the place of the next byte to read."""
        self._data = data
        self.place = place

    def struct(self, last: int | None = None) -> Struct:
        """Read a structure up to its end mark, or up to and with the field `last`."""
        data, number = self._data, 0
        fields: dict[int, tuple[int, Value]] = {}
        while head := data[self.place]:
            self.place += 1
            # Field numbers are written as the distance from the field before, or in full if the distance does not fit
            # four bits.
            step, kind = head >> 4, head & 15
            number = number + step if step else self._zigzag()
            # The value of a boolean field is its type. In lists, booleans have a byte each.
            value = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind)
            fields[number] = (kind, value)
            if number == last:
                return Struct(fields)
        self.place += 1
        return Struct(fields)

    def _value(self, kind: int) -> Value:
        # The kinds that are most frequent in footers and headers of pages come first.
        if kind in (I16, I32, I64):
            return self._zigzag()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            return self.items()
        if kind == DOUBLE:
            return float(struct.unpack("<d", self._bytes(8))[0])
        if kind == BYTE:
            return self._byte()
        if kind in (TRUE, FALSE):
            return self._byte() == TRUE
        raise ValueError(f"type {kind} in a Parquet footer")

    def items(self) -> Items:
        """Read a list or a set."""
        head = self._byte()
        size, kind = head >> 4, head & 15
        # 15 means that the size follows.
        if size == 15:
            size = self._varint()
        return Items(kind, [self._value(kind) for _ in range(size)])

    def _byte(self) -> int:
        value = self._data[self.place]
        self.place += 1
        return value

    def _bytes(self, length: int) -> bytes:
        value = self._data[self.place : self.place + length]
        self.place += length
        return bytes(value)

    def _varint(self) -> int:
        data, place = self._data, self.place
        byte, value, shift = data[place], 0, 0
        while byte & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            place += 1
            byte = data[place]
        self.place = place + 1
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def struct_bytes(value: Struct) -> bytes:
    """Return a structure as bytes."""
    out = bytearray()
    _put_struct(out, value)
    return bytes(out)


def _put_struct(out: bytearray, value: Struct) -> None:
    last = 0
    for number, (kind, member) in sorted(value.fields.items()):
        head = (TRUE if member else FALSE) if kind in (TRUE, FALSE) else kind
        if 0 < number - last < 16:
            out.append(number - last << 4 | head)
        else:
            out.append(head)
            _put_varint(out, _zigzag(number))
        last = number
        if type(member) is int and kind != BYTE:  # most fields, so they are spared a call
            _put_varint(out, _zigzag(member))
        elif kind not in (TRUE, FALSE):
            _put(out, kind, member)
    out.append(0)


def _put(out: bytearray, kind: int, value: Value) -> None:
    match value:
        case Struct():
            _put_struct(out, value)
        case Items(of, values):
            out.append(min(len(values), 15) << 4 | of)
            if len(values) >= 15:
                _put_varint(out, len(values))
            for item in values:
                _put(out, of, item)
        case bytes():
            _put_varint(out, len(value))
            out += value
        case float():
            out += struct.pack("<d", value)
        case bool():
            out.append(TRUE if value else FALSE)
        case int():
            if kind == BYTE:
                out.append(value)
            else:
                _put_varint(out, _zigzag(value))


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
