"""A reader and writer of the Protocol Buffers wire format, as far as ORC's metadata uses it.

Unknown fields are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}


@dataclass(slots=True)
class Message:
    """A message as a list of its fields in wire order, each as (number, wire type, value).

    Varints are ints, all other values are bytes.
    """

    fields: list[tuple[int, int, int | bytes]] = field(default_factory=list)

    @classmethod
    def parse(cls, data: bytes) -> Message:
        """Parse a message. ValueError when the bytes are not a message."""
        found, place = cls(), 0
        while place < len(data):
            key, place = _varint(data, place)
            # The three low bits of a key are the wire type, the others the number of the field.
            number, wire = key >> 3, key & 7
            value: int | bytes
            if wire == VARINT:
                value, place = _varint(data, place)
            else:
                # Wire types 3 and 4, groups, do not occur in ORC.
                length = _FIXED.get(wire)
                if length is None:
                    if wire != BYTES:
                        raise ValueError(f"wire type {wire}")
                    length, place = _varint(data, place)
                if place + length > len(data):
                    raise ValueError("a message is truncated")
                value, place = data[place : place + length], place + length
            found.fields.append((number, wire, value))
        return found

    def integer(self, number: int, default: int = 0) -> int:
        """Return the first varint of a field, or the default."""
        return next((value for at, _, value in self.fields if at == number and isinstance(value, int)), default)

    def text(self, number: int) -> str:
        """Return the first text of a field, or an empty string."""
        return next((value.decode() for at, _, value in self.fields if at == number and isinstance(value, bytes)), "")

    def messages(self, number: int) -> list[Message]:
        """Return all messages of a repeated field."""
        return [Message.parse(value) for at, _, value in self.fields if at == number and isinstance(value, bytes)]

    def integers(self, number: int) -> list[int]:
        """Return all values of a repeated integer field, packed or not."""
        found: list[int] = []
        for at, _, value in self.fields:
            if at != number:
                continue
            if isinstance(value, int):
                found.append(value)
                continue
            place = 0
            while place < len(value):
                integer, place = _varint(value, place)
                found.append(integer)
        return found

    def put(self, number: int, value: int) -> None:
        """Set an integer field, or add it."""
        # The field moves to the end, since fields may be in any order.
        kept = [(at, wire, old) for at, wire, old in self.fields if at != number]
        self.fields = [*kept, (number, VARINT, value)]

    def put_messages(self, number: int, messages: list[Message]) -> None:
        """Replace all messages of a repeated field."""
        kept = [(at, wire, old) for at, wire, old in self.fields if at != number]
        self.fields = [*kept, *((number, BYTES, message.encode()) for message in messages)]

    def encode(self) -> bytes:
        """Return the message as bytes."""
        out = bytearray()
        for number, wire, value in self.fields:
            _put_varint(out, number << 3 | wire)
            if isinstance(value, int):
                _put_varint(out, value)
                continue
            if wire == BYTES:
                _put_varint(out, len(value))
            out += value
        return bytes(out)


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise ValueError("a number is truncated")


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
