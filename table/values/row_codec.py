"""Encoding and decoding of single BinaryRows, value by value. row_columns.py encodes whole columns."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import cast

from penstock.table.values.internal import entry_types, scaled, unscaled
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType

_MILLI = 1_000_000
_WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "DATE": 4, "TIME": 4, "FLOAT": 4}
_FORMATS = {
    "BOOLEAN": struct.Struct("<?"),
    "TINYINT": struct.Struct("<b"),
    "SMALLINT": struct.Struct("<h"),
    "INT": struct.Struct("<i"),
    "DATE": struct.Struct("<i"),
    "TIME": struct.Struct("<i"),
    "FLOAT": struct.Struct("<f"),
    "BIGINT": struct.Struct("<q"),
    "DOUBLE": struct.Struct("<d"),
}
_LONG = struct.Struct("<q")
_WORD = struct.Struct("<Q")
_SIZE = struct.Struct("<i")
_TEXTS = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")

Reader = Callable[[bytes, int, int], object]  # (bytes, start of the enclosing row or array, position of the slot)


def header_size(fields: int) -> int:
    """Return the bytes of the row kind and the null bits, padded to whole words."""
    return (fields + 63 + 8) // 64 * 8


def is_wide_decimal(type_: DataType) -> bool:
    """Return whether the type is a DECIMAL whose unscaled value needs more than 8 bytes."""
    return isinstance(type_, AtomicType) and type_.root == "DECIMAL" and type_.precision > 18


def is_wide_timestamp(type_: DataType) -> bool:
    """Return whether the type is a timestamp that needs more than the 8 bytes of a slot."""
    return isinstance(type_, AtomicType) and type_.root.startswith("TIMESTAMP") and type_.precision > 3


def encode_body(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """Return the bytes of a row without the arity prefix."""
    head = header_size(len(types))
    row = bytearray(head + 8 * len(types))
    for i, (value, type_) in enumerate(zip(values, types, strict=True)):
        if value is None:
            row[(i + 8) // 8] |= 1 << (i + 8) % 8
        _put(row, head + 8 * i, value, type_, in_row=True)
    return bytes(row)


def _put(out: bytearray, slot: int, value: object, type_: DataType, in_row: bool) -> None:
    if value is None:
        # Types too wide for a slot occupy space in a row's variable part even when null, and hashes include those
        # bytes.
        room = 16 if is_wide_decimal(type_) else 8 if is_wide_timestamp(type_) else 0
        # Elements of an array have no reserved space.
        if room and in_row:
            _WORD.pack_into(out, slot, len(out) << 32)
            out.extend(bytes(room))
        return
    root = type_.root if isinstance(type_, AtomicType) else ""
    if root in _FORMATS:
        _FORMATS[root].pack_into(out, slot, value)
    elif root == "DECIMAL":
        _put_decimal(
            out, slot, unscaled(cast(Decimal, value), cast(AtomicType, type_).scale), wide=is_wide_decimal(type_)
        )
    elif root in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        _put_timestamp(out, slot, cast(int, value), wide=is_wide_timestamp(type_))
    elif root in _TEXTS:
        _put_text(out, slot, value.encode() if isinstance(value, str) else cast(bytes, value))
    else:
        _put_tail(out, slot, encode_nested(value, type_))


def _put_tail(out: bytearray, slot: int, data: bytes) -> None:
    _WORD.pack_into(out, slot, len(out) << 32 | len(data))
    out.extend(data + bytes(-len(data) % 8))


def _put_text(out: bytearray, slot: int, data: bytes) -> None:
    if len(data) > 7:
        _put_tail(out, slot, data)
    else:
        out[slot : slot + 8] = data + bytes(7 - len(data)) + bytes([0x80 | len(data)])


def _put_decimal(out: bytearray, slot: int, value: int, *, wide: bool) -> None:
    if not wide:
        _LONG.pack_into(out, slot, value)
        return
    # The shortest two's complement, as BigInteger.toByteArray returns it.
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    _WORD.pack_into(out, slot, len(out) << 32 | size)
    out.extend(value.to_bytes(size, "big", signed=True) + bytes(16 - size))


def _put_timestamp(out: bytearray, slot: int, nanos: int, *, wide: bool) -> None:
    millis, rest = divmod(nanos, _MILLI)
    if wide:
        _WORD.pack_into(out, slot, len(out) << 32 | rest)
        out.extend(_LONG.pack(millis))
    else:
        _LONG.pack_into(out, slot, millis)


def encode_nested(value: object, type_: DataType) -> bytes:
    """Return an ARRAY, MAP, MULTISET, ROW or VARIANT as the bytes of the variable part, before padding."""
    match type_:
        case ArrayType(element):
            return _encode_array(cast(Sequence[object], value), element)
        case MapType() | MultisetType():
            pairs = cast(Sequence[tuple[object, object]], value)
            key, item = entry_types(type_)
            keys = _encode_array([pair[0] for pair in pairs], key)
            return _SIZE.pack(len(keys)) + keys + _encode_array([pair[1] for pair in pairs], item)
        case RowType(fields):
            return encode_body(cast(Sequence[object], value), [field.type for field in fields])
    body, metadata = cast(tuple[bytes, bytes], value)
    return _SIZE.pack(len(body)) + body + metadata


def _element_width(type_: DataType) -> int:
    return _WIDTHS.get(type_.root, 8) if isinstance(type_, AtomicType) else 8


def _array_head(size: int) -> int:
    return 4 + (size + 31) // 32 * 4


def _encode_array(values: Sequence[object], element: DataType) -> bytes:
    head, width = _array_head(len(values)), _element_width(element)
    out = bytearray((head + len(values) * width + 7) // 8 * 8)
    _SIZE.pack_into(out, 0, len(values))
    for i, value in enumerate(values):
        if value is None:
            out[4 + i // 8] |= 1 << i % 8
        _put(out, head + i * width, value, element, in_row=False)
    return bytes(out)


def decode_body(data: bytes, base: int, types: tuple[DataType, ...]) -> tuple[object, ...]:
    """Return the values of the row that starts at `base`, which has no arity prefix.

    Bytes that are not such a row raise struct.error or IndexError.
    """
    head = base + header_size(len(types))
    # The lowest byte of the header is the row kind.
    nulls = int.from_bytes(data[base:head], "little") >> 8
    return tuple(None if nulls >> i & 1 else read(data, base, head + 8 * i) for i, read in enumerate(_readers(types)))


# The functions are cached because a scan decodes the same few types once per manifest entry.
@lru_cache(maxsize=4096)
def _readers(types: tuple[DataType, ...]) -> tuple[Reader, ...]:
    return tuple(_reader(type_) for type_ in types)


def _reader(type_: DataType) -> Reader:
    match type_:
        case AtomicType("CHAR" | "VARCHAR"):
            return lambda data, base, slot: _read_text(data, base, slot).decode()
        case AtomicType("BINARY" | "VARBINARY"):
            return _read_text
        case AtomicType("DECIMAL"):
            return _decimal_reader(type_)
        case AtomicType("TIMESTAMP" | "TIMESTAMP_LTZ"):
            return _read_wide_timestamp if is_wide_timestamp(type_) else _read_timestamp
        case AtomicType("VARIANT"):
            return _read_variant
        case AtomicType(root):
            unpack = _FORMATS[root].unpack_from
            return lambda data, _, slot: unpack(data, slot)[0]
        case ArrayType(element):
            return lambda data, base, slot: _read_array(data, base + _tail(data, slot)[0], element)
        case MapType() | MultisetType():
            return lambda data, base, slot: _read_map(data, base + _tail(data, slot)[0], *entry_types(type_))
        case RowType(fields):
            types = tuple(field.type for field in fields)
            return lambda data, base, slot: decode_body(data, base + _tail(data, slot)[0], types)


def _tail(data: bytes, slot: int) -> tuple[int, int]:
    word = _WORD.unpack_from(data, slot)[0]
    return word >> 32, word & 0xFFFFFFFF


def _read_text(data: bytes, base: int, slot: int) -> bytes:
    # The last byte of a slot is the highest byte of an offset, which is below 2^31. If its top bit is set, the slot
    # contains a short text instead.
    mark = data[slot + 7]
    if mark & 0x80:
        return data[slot : slot + (mark & 0x7F)]
    offset, size = _tail(data, slot)
    # A slice that ends beyond the data would be returned shorter, without an error.
    if base + offset + size > len(data):
        raise IndexError(f"{size} bytes at {offset} are outside of the row")
    return data[base + offset : base + offset + size]


def _read_timestamp(data: bytes, _: int, slot: int) -> int:
    return int(_LONG.unpack_from(data, slot)[0]) * _MILLI


def _read_wide_timestamp(data: bytes, base: int, slot: int) -> int:
    offset, nanos = _tail(data, slot)
    return int(_LONG.unpack_from(data, base + offset)[0]) * _MILLI + nanos


def _decimal_reader(type_: AtomicType) -> Reader:
    scale = type_.scale

    def read_wide(data: bytes, base: int, slot: int) -> Decimal:
        offset, size = _tail(data, slot)
        return scaled(int.from_bytes(data[base + offset : base + offset + size], "big", signed=True), scale)

    def read(data: bytes, _: int, slot: int) -> Decimal:
        return scaled(_LONG.unpack_from(data, slot)[0], scale)

    return read_wide if is_wide_decimal(type_) else read


def _read_variant(data: bytes, base: int, slot: int) -> tuple[bytes, bytes]:
    offset, size = _tail(data, slot)
    begin = base + offset
    middle = begin + 4 + _SIZE.unpack_from(data, begin)[0]
    return data[begin + 4 : middle], data[middle : begin + size]


def _read_array(data: bytes, base: int, element: DataType) -> list[object]:
    size = _SIZE.unpack_from(data, base)[0]
    head, width, read = _array_head(size), _element_width(element), _readers((element,))[0]
    nulls = int.from_bytes(data[base + 4 : base + head], "little")
    return [None if nulls >> i & 1 else read(data, base, base + head + i * width) for i in range(size)]


def _read_map(data: bytes, base: int, key: DataType, value: DataType) -> list[tuple[object, object]]:
    values = base + 4 + _SIZE.unpack_from(data, base)[0]
    return list(zip(_read_array(data, base + 4, key), _read_array(data, values, value), strict=True))
