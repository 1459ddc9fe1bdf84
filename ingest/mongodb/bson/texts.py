"""Values as text, as Paimon's action writes them: extended JSON for all types that JSON does not have.

Common types are converted as columns. Types that hardly any document has, and numbers with unusual forms, are
converted one by one.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.byte_buffers import Bytes, Int64s, at_every_byte, slices
from penstock.formats.json_text import java_double
from penstock.ingest.database.buffers import booleans, unsigned_at
from penstock.ingest.mongodb.bson.binaries import binaries, object_ids
from penstock.ingest.mongodb.bson.decimals import decimal_digits
from penstock.ingest.mongodb.bson.elements import Block
from penstock.ingest.mongodb.bson.single_document import text_at
from penstock.ingest.mongodb.bson.text_columns import joined, repeated
from penstock.ingest.mongodb.bson.value_types import (
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
    damaged,
)

# Counted values, by the reasons that are shown to users.
NOT_A_NUMBER, NOT_UTF8 = "not-a-number", "text-not-utf8"
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
            return binaries(block, start, length)
    return pa.array([_rare(block.raw, kind, begin) for begin in start.tolist()], pa.string())


def quoted_texts(texts: pa.Array) -> pa.Array:
    """Return texts as JSON, with the escapes that Jackson writes."""
    special = pc.match_substring_regex(texts, r'["\\\x00-\x1f]')
    if pc.any(special).as_py():
        places = np.flatnonzero(special.to_numpy(zero_copy_only=False))
        escaped = pa.array([json_quoted(text)[1:-1] for text in texts.take(pa.array(places)).to_pylist()], pa.string())
        texts = pc.replace_with_mask(texts, special, escaped)
    return joined('"', texts, '"')


_UPPER = {f"\\u{code:04x}": f"\\u{code:04X}" for code in range(32)}


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
        oddities[NOT_UTF8] += sum(_is_broken(value) for value in values)
        return pa.array([value.decode("utf-8", "replace") for value in values], pa.string())
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
        made = pa.array([java_double(number) for number in values[others].tolist()], pa.string())
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


# Types that are an object with one member as JSON.
MEMBERS: dict[tuple[int, str], Callable[[Bytes, Int64s], pa.Array]] = {
    (INT64, "$numberLong"): _long,
    (DATE, "$date"): _long,
    (OBJECT_ID, "$oid"): object_ids,
    (DECIMAL128, "$numberDecimal"): decimal_digits,
}
_COLUMNS: dict[int, Callable[[Bytes, Int64s], pa.Array]] = {
    INT32: _ints,
    BOOL: _bools,
    INT64: lambda data, start: joined('{"$numberLong":"', _long(data, start), '"}'),
    DATE: lambda data, start: joined('{"$date":', _long(data, start), "}"),
    OBJECT_ID: lambda data, start: joined('{"$oid":"', object_ids(data, start), '"}'),
    TIMESTAMP: _timestamps,
    DECIMAL128: lambda data, start: joined('{"$numberDecimal":"', decimal_digits(data, start), '"}'),
}


def _rare(raw: bytes, kind: int, start: int) -> str:
    try:
        return _rare_text(raw, kind, start)
    except (ValueError, struct.error) as reason:
        raise damaged(start) from reason


def _rare_text(raw: bytes, kind: int, start: int) -> str:
    if kind == REGEX:
        middle = raw.index(b"\0", start)
        pattern, options = raw[start:middle].decode(), raw[middle + 1 : raw.index(b"\0", middle + 1)].decode()
        return f'{{"$regex":{json_quoted(pattern)},"$options":{json_quoted(options)}}}'
    assert kind == DB_POINTER
    size = struct.unpack_from("<i", raw, start)[0]
    identifier = raw[start + 4 + size : start + 16 + size].hex()
    return f'{{"$ref":{json_quoted(text_at(raw, start))},"$id":{{"$oid":"{identifier}"}}}}'
