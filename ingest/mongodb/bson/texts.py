"""Values as text, as Paimon's action writes them: extended JSON for all types that JSON does not have.

Common types are converted as columns. Types that hardly any document has, and numbers with unusual forms, are
converted one by one.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.json_text import java_double
from penstock.ingest.database.buffers import (
    Bools,
    Bytes,
    Int64s,
    at_every_byte,
    booleans,
    fixed,
    gathered,
    of_offsets,
    slices,
    unsigned_at,
)
from penstock.ingest.mongodb.bson.elements import (
    BOOL,
    CODE,
    DATE,
    DB_POINTER,
    DECIMAL128,
    INT32,
    INT64,
    MAX_KEY,
    MIN_KEY,
    OBJECT_ID,
    REGEX,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UNDEFINED,
    Block,
    text_at,
)

# Counted values, by the reasons that are shown to users.
NOT_A_NUMBER, NOT_UTF8 = "not-a-number", "text-not-utf8"
_HEX = np.frombuffer(b"".join(b"%02x" % one for one in range(256)), np.uint8).reshape(256, 2)
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
# Binaries up to this length are encoded as matrices of one length.
_SHORT_BINARY = 64
_CONSTANTS = {UNDEFINED: '{"$undefined":true}', MIN_KEY: '{"$minKey":1}', MAX_KEY: '{"$maxKey":1}'}


def plain_texts(block: Block, kind: int, start: Int64s, length: Int64s, oddities: Counter[str]) -> pa.Array:
    """Return values of one type as text: texts themselves, and all others as JSON. Not for documents and arrays."""
    if kind == STRING:
        return _strings(block.data, start + 4, length - 5, oddities)
    return json_texts(block, kind, start, length, oddities)


def json_texts(block: Block, kind: int, start: Int64s, length: Int64s, oddities: Counter[str]) -> pa.Array:
    """Return values of one type as JSON, null for numbers that JSON does not have. Not for documents and arrays."""
    if kind in _CONSTANTS:
        return repeated(_CONSTANTS[kind], len(start))
    columns = _COLUMNS.get(kind)
    if columns is not None:
        return columns(block.data, start)
    match kind:
        case 2 | 13 | 14:
            quoted = quoted_texts(_strings(block.data, start + 4, length - 5, oddities))
            name = {CODE: "$code", SYMBOL: "$symbol"}.get(kind)
            return quoted if name is None else joined(f'{{"{name}":', quoted, "}")
        case 1:
            return _doubles(block.data, start, oddities)
        case 5:
            return _binaries(block, start, length)
    return pa.array([_rare(block.raw, kind, one) for one in start.tolist()], pa.string())


def object_ids(data: Bytes, start: Int64s) -> pa.Array:
    """Return identifiers as 24 hexadecimal digits."""
    digits = _HEX[gathered(data, start, 12)].reshape(-1)
    return of_offsets(pa.string(), digits, np.arange(len(start) + 1, dtype=np.int64) * 24, np.zeros(len(start), bool))


def repeated(text: str, count: int) -> pa.Array:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(count, np.int64)))


def joined(*parts: pa.Array | str) -> pa.Array:
    """Return the parts of each row one after another; null if one of them is."""
    return pc.binary_join_element_wise(*parts, "")


def quoted_texts(texts: pa.Array) -> pa.Array:
    """Return texts as JSON, with the escapes that Jackson writes."""
    special = pc.match_substring_regex(texts, r'["\\\x00-\x1f]')
    if pc.any(special).as_py():
        places = np.flatnonzero(special.to_numpy(zero_copy_only=False))
        escaped = pa.array([json_quoted(one)[1:-1] for one in texts.take(pa.array(places)).to_pylist()], pa.string())
        texts = pc.replace_with_mask(texts, special, escaped)
    return joined('"', texts, '"')


_UPPER = {f"\\u{one:04x}": f"\\u{one:04X}" for one in range(32)}


def json_quoted(text: str) -> str:
    """Return one text as JSON."""
    quoted = json.dumps(text, ensure_ascii=False)
    if "\\u00" in quoted:
        # Jackson writes upper case digits. A backslash before one of these would itself be doubled.
        for lower, upper in _UPPER.items():
            quoted = quoted.replace(lower, upper)
    return quoted


def _strings(data: Bytes, start: Int64s, length: Int64s, oddities: Counter[str]) -> pa.Array:
    found = slices(pa.string(), data, start, length, np.zeros(len(start), bool))
    try:
        found.validate(full=True)
    except pa.ArrowInvalid:
        # The server does not check texts of clients that do not.
        values = found.cast(pa.binary()).to_pylist()
        oddities[NOT_UTF8] += sum(_is_broken(one) for one in values)
        return pa.array([one.decode("utf-8", "replace") for one in values], pa.string())
    return found


def _is_broken(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return True
    return False


def _doubles(data: Bytes, start: Int64s, oddities: Counter[str]) -> pa.Array:
    values = at_every_byte(data, "<f8")[start]
    size = np.abs(values)
    finite = np.isfinite(values)
    oddities[NOT_A_NUMBER] += int(np.count_nonzero(~finite))
    plain = (size >= 1e-3) & (size < 1e7)
    texts = pc.cast(pa.array(values), pa.string())
    # Arrow writes whole numbers without a fraction, Java with one.
    texts = pc.if_else(pa.array(plain & (values == np.trunc(values))), joined(texts, ".0"), texts)
    others = np.flatnonzero(~plain & finite)
    if len(others):
        made = pa.array([java_double(one) for one in values[others].tolist()], pa.string())
        texts = pc.replace_with_mask(texts, pa.array(~plain & finite), made)
    if finite.all():
        return texts
    return pc.if_else(pa.array(finite), texts, pa.scalar(None, pa.string()))


def _long(data: Bytes, start: Int64s) -> pa.Array:
    return pa.array(at_every_byte(data, "<i8")[start]).cast(pa.string())


def _ints(data: Bytes, start: Int64s) -> pa.Array:
    return pa.array(at_every_byte(data, "<i4")[start]).cast(pa.string())


def _bools(data: Bytes, start: Int64s) -> pa.Array:
    return booleans(data[start] != 0, np.zeros(len(start), bool)).cast(pa.string())


def _timestamps(data: Bytes, start: Int64s) -> pa.Array:
    number, seconds = (pa.array(unsigned_at(data, start + at, 4)).cast(pa.string()) for at in (0, 4))
    return joined('{"$timestamp":{"t":', seconds, ',"i":', number, "}}")


def _decimals(data: Bytes, start: Int64s) -> pa.Array:
    return joined('{"$numberDecimal":"', decimal_digits(data, start), '"}')


_COLUMNS: dict[int, Callable[[Bytes, Int64s], pa.Array]] = {
    INT32: _ints,
    BOOL: _bools,
    INT64: lambda data, start: joined('{"$numberLong":"', _long(data, start), '"}'),
    DATE: lambda data, start: joined('{"$date":', _long(data, start), "}"),
    OBJECT_ID: lambda data, start: joined('{"$oid":"', object_ids(data, start), '"}'),
    TIMESTAMP: _timestamps,
    DECIMAL128: _decimals,
}
_EXPONENT_BIAS, _MOST_SCALE = 6176, 37


def decimal_digits(data: Bytes, start: Int64s) -> pa.Array:
    """Return decimals as text, with the digits they were stored with: 1.10 is not 1.1."""
    words = at_every_byte(data, "<u8")
    low, high = words[start], words[start + 8]
    negative = (high >> np.uint64(63)).astype(np.bool_)
    scale = _EXPONENT_BIAS - ((high >> np.uint64(49)) & np.uint64(0x3FFF)).astype(np.int64)
    # The coefficient fits into 63 bits, and the form is the usual one: infinities have bits 62 and 61 set.
    simple = ((high & np.uint64((1 << 49) - 1)) == 0) & (low >> np.uint64(63) == 0)
    simple &= (high >> np.uint64(61) & np.uint64(3)) != 3
    simple &= (scale >= 0) & (scale <= _MOST_SCALE) & ~(negative & (low == 0))
    pieces: list[pa.Array] = []
    places: list[Int64s] = []
    for one in np.unique(scale[simple]).tolist():
        chosen = np.flatnonzero(simple & (scale == one))
        pieces.append(_of_scale(low[chosen].astype(np.int64), negative[chosen], one))
        places.append(chosen)
    others = np.flatnonzero(~simple)
    if len(others):
        pieces.append(_unusual_decimals(data, start[others]))
        places.append(others)
    return in_places(pieces, places, len(start))


def _of_scale(coefficient: Int64s, negative: Bools, scale: int) -> pa.Array:
    value = np.where(negative, -coefficient, coefficient)
    halves = np.stack([value, value >> 63], axis=1)
    kind = pa.decimal128(38, scale)
    # Arrow writes an exponent where Java does: below 10^-6.
    return fixed(kind, halves, np.zeros(len(value), bool)).cast(pa.string())


def _unusual_decimals(data: Bytes, start: Int64s) -> pa.Array:
    from bson.decimal128 import Decimal128

    found = gathered(data, start, 16)
    return pa.array([str(Decimal128.from_bid(one.tobytes())) for one in found], pa.string())


def in_places(pieces: Sequence[pa.Array], places: Sequence[Int64s], count: int) -> pa.Array:
    """Return `count` values of which pieces are given, each with the places of its values; null for the others."""
    if len(pieces) == 1 and len(places[0]) == count:
        # The only piece is in order, because places ascend.
        return pieces[0]
    if not pieces:
        return pa.nulls(count, pa.string())
    index = np.full(count, -1, np.int64)
    begin = 0
    for piece, place in zip(pieces, places, strict=True):
        index[place] = np.arange(begin, begin + len(piece))
        begin += len(piece)
    return pa.concat_arrays(pieces).take(pa.array(index, mask=index < 0))


def _binaries(block: Block, start: Int64s, length: Int64s) -> pa.Array:
    data = block.data
    subtype = _HEX[data[start + 4]].reshape(-1)
    offsets = np.arange(len(start) + 1, dtype=np.int64) * 2
    kinds = of_offsets(pa.string(), subtype, offsets, np.zeros(len(start), bool))
    begin, size = start + 5, length - 5
    # The old subtype has its length once more before its content.
    old = data[start + 4] == 2
    begin, size = begin + 4 * old, size - 4 * old
    pieces, places = [], []
    for one in np.unique(size[size <= _SHORT_BINARY]).tolist():
        chosen = np.flatnonzero(size == one)
        pieces.append(_base64(gathered(data, begin[chosen], one), one))
        places.append(chosen)
    others = np.flatnonzero(size > _SHORT_BINARY)
    if len(others):
        cells = zip(begin[others].tolist(), size[others].tolist(), strict=True)
        pieces.append(pa.array([b64encode(block.raw[at : at + many]).decode() for at, many in cells], pa.string()))
        places.append(others)
    return joined('{"$binary":"', in_places(pieces, places, len(start)), '","$type":"', kinds, '"}')


def _base64(matrix: Bytes, width: int) -> pa.Array:
    """Return the lines of the matrix in base64."""
    count, triples = len(matrix), -(-width // 3)
    padded = np.zeros((count, triples * 3), np.uint32)
    padded[:, :width] = matrix
    number = padded[:, 0::3] << 16 | padded[:, 1::3] << 8 | padded[:, 2::3]
    characters = np.empty((count, triples, 4), np.uint8)
    for place in range(4):
        characters[:, :, place] = _BASE64[number >> (18 - 6 * place) & 63]
    lines = characters.reshape(count, triples * 4)
    missing = triples * 3 - width
    if missing:
        lines[:, -missing:] = ord("=")
    offsets = np.arange(count + 1, dtype=np.int64) * (triples * 4)
    return of_offsets(pa.string(), lines.reshape(-1), offsets, np.zeros(count, bool))


def _rare(raw: bytes, kind: int, start: int) -> str:
    if kind == REGEX:
        middle = raw.index(b"\0", start)
        pattern, options = raw[start:middle].decode(), raw[middle + 1 : raw.index(b"\0", middle + 1)].decode()
        return f'{{"$regex":{json_quoted(pattern)},"$options":{json_quoted(options)}}}'
    assert kind == DB_POINTER
    size = struct.unpack_from("<i", raw, start)[0]
    identifier = raw[start + 4 + size : start + 16 + size].hex()
    return f'{{"$ref":{json_quoted(text_at(raw, start))},"$id":{{"$oid":"{identifier}"}}}}'
