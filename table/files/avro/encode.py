"""Column-wise encoding of Avro values: the bytes of each column for all rows at once, then one join of all columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.files.avro.pieces import ShortBytes, Text, decimals, fixed, numbers, records, texts
from penstock.table.files.avro.schema import COUNT, has_text_keys
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import decimal_words, filled_values, text_parts, validity
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType

# Java makes blocks of 64,000 bytes. With smaller ones a file has more blocks, which a reader passes side by side.
BLOCK_BYTES = 16_000
_DECIMAL_BYTES = 16
_VARINT_BYTES = 10
_WORD_DIGITS = 18  # of decimals that fit into 64 bits


def _byte(value: bytes) -> pa.BinaryScalar:
    # From buffers, because `pa.scalar` of a Python value imports pandas, which each process would wait for.
    offsets = np.array([0, len(value)], np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(value)])[0]


_NULL, _THERE = _byte(b"\x00"), _byte(b"\x02")  # the branch of a union
_END, _EMPTY = _NULL, _byte(b"")


def counted(type_: AtomicType) -> pa.DataType:
    """Return the Arrow type with the unit in which Avro counts this timestamp."""
    return pa.timestamp("ms" if type_.precision <= 3 else "us", to_arrow(type_).tz)


def encoded_blocks(columns: Sequence[pa.Array], fields: Sequence[Field]) -> Iterator[tuple[int, bytes]]:
    """Yield the rows as Avro blocks: the number of rows and their bytes."""
    rows = len(columns[0])
    made = [piece for column, field in zip(columns, fields, strict=True) for piece in _pieces(column, field.type)]
    data, bounds = records(made, rows)
    first = 0
    while first < rows:
        last = int(np.searchsorted(bounds, bounds[first] + BLOCK_BYTES, "right")) - 1
        # A block has at least one row, also if the row is larger than a block.
        last = min(max(last, first + 1), rows)
        yield last - first, data[int(bounds[first]) : int(bounds[last])].tobytes()
        first = last


def _pieces(array: pa.Array, type_: DataType) -> Iterator[ShortBytes | Text]:
    if not isinstance(type_, AtomicType) or type_.root == "VARIANT":
        yield Text(*text_parts(_encoded(array, type_)))
        return
    valid, nullable = validity(array), type_.nullable
    match type_.root:
        case "BOOLEAN":
            yield from fixed(filled_values(array, np.uint8).astype(np.uint64), 1, valid, nullable=nullable)
        case "FLOAT":
            yield from fixed(filled_values(array, np.uint32).astype(np.uint64), 4, valid, nullable=nullable)
        case "DOUBLE":
            yield from fixed(filled_values(array, np.uint64).astype(np.uint64, copy=False), 8, valid, nullable=nullable)
        case "DECIMAL" if type_.precision <= _WORD_DIGITS:
            yield from decimals(decimal_words(array)[0].view(np.int64), valid, nullable=nullable)
        case "DECIMAL":
            binary = _decimals(array)
            if valid is not None:
                binary = pc.if_else(pa.array(valid), binary, _EMPTY)
            yield from texts(binary, valid, nullable=nullable)
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            binary = array.cast(pa.binary())
            yield from texts(binary if valid is None else binary.fill_null(b""), valid, nullable=nullable)
        case _:
            yield from numbers(_counts(array, type_), valid, nullable=nullable)


def _counts(array: pa.Array, type_: AtomicType) -> npt.NDArray[np.int64]:
    match type_.root:
        case "DATE" | "TIME":
            array = array.view(pa.int32())
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            array = array.cast(counted(type_)).view(pa.int64())
    return filled_values(array.cast(pa.int64()), np.int64).astype(np.int64, copy=False)


def _encoded(array: pa.Array, type_: DataType) -> pa.Array:
    body = _body(array, type_)
    if not type_.nullable:
        return body
    # The body of a null has arbitrary bytes, which if_else drops.
    return pc.if_else(array.is_valid(), _joined(_THERE, body), _NULL)


def _body(array: pa.Array, type_: DataType) -> pa.Array:
    """Return the encoded values without the branch of their union; for nulls the bytes are arbitrary."""
    match type_:
        case AtomicType():
            return _atoms(array, type_)
        case ArrayType(element):
            offsets, values = _spans(array)
            return _blocks(offsets, _encoded(values, element))
        case MapType(key, value):
            return _maps(array, key, value)
        case MultisetType(element):
            return _maps(array, element, COUNT)
        case RowType(fields):
            return _joined(*(_encoded(array.field(place), field.type) for place, field in enumerate(fields)))


def _atoms(array: pa.Array, type_: AtomicType) -> pa.Array:
    match type_.root:
        case "BOOLEAN":
            return _fixed(array.cast(pa.uint8()), np.uint8)
        case "FLOAT":
            return _fixed(array, np.float32)
        case "DOUBLE":
            return _fixed(array, np.float64)
        case "DECIMAL":
            return _sized(_decimals(array))
        case "DATE" | "TIME":
            return _varints(_numbers(array.view(pa.int32())))
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _varints(_numbers(array.cast(counted(type_)).view(pa.int64())))
        case "CHAR" | "VARCHAR" | "BINARY" | "VARBINARY":
            return _sized(array.cast(pa.binary()).fill_null(b""))
        case "VARIANT":
            return _joined(*(_sized(array.field(name).fill_null(b"")) for name in ("value", "metadata")))
    return _varints(_numbers(array))


def _numbers(array: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _varints(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Return zigzag varints: seven bits per byte, the lowest first, and the sign in the lowest bit of all."""
    # The lengths are computed first. Then each number has a row of bytes, and those beyond its length are left out.
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    lengths = np.ones(len(numbers), np.int64)
    for more in range(1, _VARINT_BYTES):
        longer = zigzag >> np.uint64(7 * more) > 0
        if not longer.any():
            break
        lengths += longer
    place = np.arange(int(lengths.max(initial=1)))
    parts = (zigzag[:, None] >> (7 * place).astype(np.uint64)).astype(np.uint8) & np.uint8(0x7F)
    parts |= ((place < lengths[:, None] - 1) * np.uint8(0x80)).astype(np.uint8)
    return _binary(parts[place < lengths[:, None]], lengths)


def _fixed(array: pa.Array, width: type[np.generic]) -> pa.Array:
    values = np.ascontiguousarray(array.fill_null(0).to_numpy(zero_copy_only=False), np.dtype(width).newbyteorder("<"))
    return _binary(values, np.full(len(array), values.itemsize, np.int64))


def _decimals(array: pa.Array) -> pa.Array:
    """Return decimals in as few bytes as the number and its sign need, the highest byte first."""
    # Arrow has 16 little-endian bytes. Leading bytes that only repeat the sign are left out.
    data = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, _DECIMAL_BYTES)
    high_first = data[array.offset : array.offset + len(array), ::-1]
    negative = high_first[:, 0] >> 7
    differs = high_first != (negative * np.uint8(0xFF))[:, None]
    lead = np.where(differs.any(axis=1), differs.argmax(axis=1), _DECIMAL_BYTES - 1)
    first = high_first[np.arange(len(array)), lead]
    lead -= (first >> 7 != negative) & (lead > 0)  # the highest bit that is kept must equal the sign
    return _binary(high_first[np.arange(_DECIMAL_BYTES) >= lead[:, None]], _DECIMAL_BYTES - lead)


def _maps(array: pa.MapArray, key: DataType, value: DataType) -> pa.Array:
    offsets, _ = _spans(array)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys, items = array.keys[first:last], array.items[first:last]
    # Keys of an Avro map are plain strings. In an array of pairs, the key may be a union like any other member.
    named = _body(keys, key) if has_text_keys(key) else _encoded(keys, key)
    return _blocks(offsets, _joined(named, _encoded(items, value)))


def _spans(array: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Return where each row's values lie among the values of this slice, and those values."""
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets - offsets[0], array.values[int(offsets[0]) : int(offsets[-1])]


def _blocks(offsets: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Return encoded lists: one block with its count where a list has values, then the end mark."""
    counts = np.diff(offsets)
    # The encoded values of one list are adjacent, so that a list is a slice of them: no bytes are copied here.
    data, ends = values.buffers()[2], _offsets(values)[offsets]
    spans = pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(ends.astype(np.int32)), data])
    return pc.if_else(pa.array(counts > 0), _joined(_varints(counts), spans, _END), _END)


def _sized(values: pa.Array) -> pa.Array:
    return _joined(_varints(_numbers(pc.binary_length(values))), values)


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, b"")


def _offsets(values: pa.Array) -> npt.NDArray[np.int32]:
    ends: npt.NDArray[np.int32] = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    return ends


def _binary(data: npt.NDArray[np.generic], lengths: npt.NDArray[np.int64]) -> pa.Array:
    # AvroWriter encodes slices of a few megabytes, so 32 bits suffice.
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
