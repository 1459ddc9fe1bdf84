"""Sort keys: one sortable numpy array that represents the key, whatever its number of columns.

Nulls sort first, texts by their UTF-8 bytes, and floats as Double.compare orders them. A key becomes an int64 if 8
bytes can represent it, and otherwise `S` bytes of a fixed width, which numpy sorts, searches and compares as unsigned
bytes.

Two arrays are comparable only if they have the same KeyLayout. comparable_keys builds arrays of several inputs with a
common layout.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import (
    Bytes,
    Ints,
    decimal_words,
    filled_values,
    fixed_values,
    one_array,
    padded,
    text_parts,
    validity,
)
from penstock.table.values.key_layout import TEXTS, WIDTHS, ColumnLayout, KeyLayout, key_layout
from penstock.table.values.row_codec import is_wide_decimal
from penstock.table.values.types import BIGINT, AtomicType, DataType

Keys = npt.NDArray[np.int64] | npt.NDArray[np.bytes_]

_NULL = np.int64(-(2**63))
# A text column whose byte matrix would be larger than this because of a few long values is sorted by rank instead.
_WIDE_MATRIX = 256 << 20


def sort_keys(
    columns: Sequence[pa.Array],
    types: Sequence[DataType],
    descending: Sequence[bool] = (),
    *,
    signed_zero: bool = False,
    layout: KeyLayout | None = None,
) -> Keys:
    """Return one sortable array over these columns. A given `layout` must have space for the longest text."""
    if layout is None:
        return comparable_keys([columns], types, descending, signed_zero=signed_zero)[0]
    parts = zip(columns, layout.columns, strict=True)
    arrays = [one_array(column, to_arrow(part.type)) for column, part in parts]
    if layout.one_integer:
        return _integers(arrays[0], layout.columns[0])
    return _packed(arrays, layout)


def comparable_keys(
    inputs: Sequence[Sequence[pa.Array]],
    types: Sequence[DataType],
    descending: Sequence[bool] = (),
    *,
    signed_zero: bool = False,
) -> list[Keys]:
    """Return one sortable array per input; the arrays are comparable with each other."""
    inputs, types = _narrowed(inputs, list(types))
    layout = key_layout(inputs[0], types, descending, signed_zero=signed_zero)
    for columns in inputs[1:]:
        layout = layout.joined(key_layout(columns, types, descending, signed_zero=signed_zero))
    return [sort_keys(columns, types, layout=layout) for columns in inputs]


def _narrowed(
    inputs: Sequence[Sequence[pa.Array]], types: list[DataType]
) -> tuple[list[list[pa.Array]], list[DataType]]:
    """Replace text columns that contain a value far longer than the others by their ranks over all inputs."""
    columns = [list(column) for column in zip(*inputs, strict=True)]
    for i, type_ in enumerate(types):
        if isinstance(type_, AtomicType) and type_.root in TEXTS:
            parts = [one_array(part, to_arrow(type_)) for part in columns[i]]
            if _too_wide(parts):
                columns[i], types[i] = _ranks(parts), BIGINT
    return [list(row) for row in zip(*columns, strict=True)], types


def _too_wide(parts: Sequence[pa.Array]) -> bool:
    longest = max((pc.max(pc.binary_length(part)).as_py() or 0 for part in parts), default=0)
    # In the matrix, every value takes as many bytes as the longest one.
    return longest * sum(len(part) for part in parts) > _WIDE_MATRIX


def _ranks(parts: Sequence[pa.Array]) -> list[pa.Array]:
    # Ranks are computed over binaries, because strings would first be validated as UTF-8; the order is the same.
    whole = pa.chunked_array([part.cast(pa.binary()) for part in parts])
    # Dense ranks, because equal texts of different inputs must get equal keys.
    ranks = pc.rank(whole, sort_keys="ascending", tiebreaker="dense").cast(pa.int64())
    out, start = [], 0
    for part in parts:
        own = ranks.slice(start, len(part))
        out.append(pc.if_else(pc.is_valid(part), own, pa.scalar(None, pa.int64())))
        start += len(part)
    return out


def _integers(array: pa.Array, column: ColumnLayout) -> Ints:
    values = _plain_integers(array, column.type)
    present = validity(array)
    if present is not None:
        # The layout guarantees that no value equals the smallest int64.
        values = np.where(present, values, _NULL)
    # Unlike negation, the complement reverses the order without overflow.
    return ~values if column.descending else values


def _plain_integers(array: pa.Array, type_: AtomicType) -> Ints:
    if type_.root == "DECIMAL":
        return np.ascontiguousarray(decimal_words(array)[0]).view(np.int64)
    width = WIDTHS[type_.root]
    return fixed_values(array, f"<i{width}").astype(np.int64, copy=False)


def _packed(arrays: Sequence[pa.Array], layout: KeyLayout) -> Keys:
    count, size = len(arrays[0]), layout.size
    if size <= 8:
        # Up to eight bytes fit into an int64, which numpy sorts much faster than byte strings. Big-endian words have
        # the order of their bytes; the flipped sign bit makes the signed order the same.
        wide = np.zeros((count, 8), np.uint8)
        _fill(wide, arrays, layout)
        return (wide.view(">u8")[:, 0].astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)
    # Texts of one length without nulls are a matrix already: the bytes of the Arrow array are used without a copy.
    only = layout.columns[0]
    if len(arrays) == 1 and only.is_text and only.uniform and not only.nullable and not only.descending:
        return np.frombuffer(text_parts(arrays[0])[1], f"S{size}")
    matrix = np.zeros((count, size), np.uint8)
    _fill(matrix, arrays, layout)
    return matrix.view(f"S{size}")[:, 0]


def _fill(out: Bytes, arrays: Sequence[pa.Array], layout: KeyLayout) -> None:
    begin = 0
    for array, column in zip(arrays, layout.columns, strict=True):
        part = out[:, begin : begin + column.size]
        _fill_column(part, array, column, signed_zero=layout.signed_zero)
        if column.descending:
            # The complement of all bytes reverses their order, including the byte for null and the length of a text.
            np.subtract(255, part, out=part)
        begin += column.size


def _fill_column(out: Bytes, array: pa.Array, column: ColumnLayout, *, signed_zero: bool) -> None:
    present = validity(array)
    body = out[:, 1:] if column.nullable else out
    if column.is_text:
        _fill_text(body, array, column)
    else:
        body[:] = _sortable_bytes(array, column.type, signed_zero=signed_zero)
    if column.nullable:
        out[:, 0] = 1 if present is None else present
    if present is not None:
        # Null keys must be equal, and Arrow does not define the bytes under a null.
        body[~present] = 0


def _fill_text(out: Bytes, array: pa.Array, column: ColumnLayout) -> None:
    if array.null_count:
        array = pc.fill_null(array, pa.scalar("" if pa.types.is_string(array.type) else b"", array.type))
    lengths, data = text_parts(array)
    out[:, : column.width] = padded(lengths, data, column.width)
    if column.length_bytes:
        suffix = lengths.astype(f">u{column.length_bytes}").view(np.uint8)
        out[:, column.width :] = suffix.reshape(-1, column.length_bytes)


def _sortable_bytes(array: pa.Array, type_: AtomicType, *, signed_zero: bool) -> Bytes:
    """Return big-endian bytes whose unsigned order is the order of the values."""
    if type_.root == "BOOLEAN":
        return np.asarray(fixed_values(array, np.uint8), np.uint8).reshape(-1, 1)
    if is_wide_decimal(type_):
        low, high = decimal_words(array)
        # Only the sign bit of the high half is flipped; the low half is unsigned.
        words = np.empty((len(array), 2), ">u8")
        words[:, 0], words[:, 1] = high.view(np.uint64) ^ np.uint64(1 << 63), low
        return words.view(np.uint8)
    width = WIDTHS[type_.root]
    if type_.root in {"FLOAT", "DOUBLE"}:
        bits = _float_bits(np.asarray(filled_values(array, f"<f{width}")), signed_zero=signed_zero)
    elif type_.root == "DECIMAL":
        bits = decimal_words(array)[0] ^ np.uint64(1 << 63)
    else:
        bits = np.asarray(fixed_values(array, f"<u{width}")) ^ np.array(1 << (8 * width - 1), f"<u{width}")
    return bits.astype(f">u{width}").view(np.uint8).reshape(-1, width)


def _float_bits(values: npt.NDArray[np.floating], *, signed_zero: bool) -> npt.NDArray[np.unsignedinteger]:
    width = values.dtype.itemsize
    # Double.compare knows one NaN, whatever its bits.
    clean = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    if not signed_zero:
        clean = clean + np.zeros((), values.dtype)  # -0.0 + 0.0 is 0.0
    bits = clean.view(f"<u{width}")
    sign = np.array(1 << (8 * width - 1), bits.dtype)
    # The order of negative floats is the reverse of that of their bits, so all their bits are inverted.
    return np.where(bits & sign, ~bits, bits | sign)
