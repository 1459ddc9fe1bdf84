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

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def struct(self) -> Struct:
        """Read a structure up to its end mark."""
        found, number = Struct(), 0
        while head := self._byte():
            # Field numbers are written as the distance from the field before, or in full if the distance does not fit
            # four bits.
            step, kind = head >> 4, head & 15
            number = number + step if step else self._zigzag()
            found.fields[number] = (kind, self._field(kind))
        return found

    def _field(self, kind: int) -> Value:
        # The value of a boolean field is its type. In lists, booleans have a byte each.
        return kind == TRUE if kind in (TRUE, FALSE) else self._value(kind)

    def _value(self, kind: int) -> Value:
        match kind:
            case 1 | 2:
                return self._byte() == TRUE
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._zigzag()
            case 7:
                return float(struct.unpack("<d", self._bytes(8))[0])
            case 8:
                return self._bytes(self._varint())
            case 9 | 10:
                return self._items()
            case 12:
                return self.struct()
        raise ValueError(f"type {kind} in a Parquet footer")

    def _items(self) -> Items:
        head = self._byte()
        size, kind = head >> 4, head & 15
        # 15 means that the size follows.
        if size == 15:
            size = self._varint()
        return Items(kind, [self._value(kind) for _ in range(size)])

    def _byte(self) -> int:
        value = self._data[self._place]
        self._place += 1
        return value

    def _bytes(self, length: int) -> bytes:
        value = self._data[self._place : self._place + length]
        self._place += length
        return value

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
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
    for number, (kind, one) in sorted(value.fields.items()):
        head = (TRUE if one else FALSE) if kind in (TRUE, FALSE) else kind
        if 0 < number - last < 16:
            out.append(number - last << 4 | head)
        else:
            out.append(head)
            _put_varint(out, _zigzag(number))
        last = number
        if kind not in (TRUE, FALSE):
            _put(out, kind, one)
    out.append(0)


def _put(out: bytearray, kind: int, value: Value) -> None:
    match value:
        case Struct():
            _put_struct(out, value)
        case Items(of, values):
            out.append(min(len(values), 15) << 4 | of)
            if len(values) >= 15:
                _put_varint(out, len(values))
            for one in values:
                _put(out, of, one)
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
