"""Columns from cells in PostgreSQL's text format, as the server prints values; the same values as in binary."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.exact_decimals import decimals_of_texts
from penstock.ingest.database.buffers import booleans
from penstock.ingest.database.cells import Cells
from penstock.ingest.postgres.values.binary import bits_of_text
from penstock.ingest.postgres.values.odd_values import (
    ARRAY_SHAPE,
    INFINITY,
    NOT_A_NUMBER,
    OUT_OF_DAY,
    TOO_LARGE,
    note_lengths,
)

if TYPE_CHECKING:
    from penstock.ingest.postgres.relation import PgType


_BOUNDS = re.compile(r"(?:\[[-\d]+:[-\d]+\])+=")
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|((?:[^",{}\\]|\\.)+)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def elements_of(text: str) -> list[str | None] | None:
    """Return the elements of an array with one dimension, None for an array with several.

    ValueError if the text is not an array.
    """
    bounds = _BOUNDS.match(text)
    body = text[bounds.end() :] if bounds else text
    if not (body.startswith("{") and body.endswith("}")):
        raise ValueError(f"{text[:80]!r} is not an array")
    if body.startswith("{{"):
        return None
    found: list[str | None] = []
    at, end = 1, len(body) - 1
    while at < end:
        element = _ELEMENT.match(body, at, end)
        if element is None:
            raise ValueError(f"{text[:80]!r} is not an array")
        quoted, plain = element.groups()
        content = _ESCAPE.sub(r"\1", plain if quoted is None else quoted)
        found.append(None if quoted is None and plain.upper() == "NULL" else content)
        at = element.end() + 1  # after the comma
    return found


_INFINITIES = pa.array(["infinity", "-infinity", "Infinity", "-Infinity"])
_CASTS = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
}
_EPOCH = dt.date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000


def text_column(cells: Cells, kind: PgType, oddities: Counter[str]) -> pa.Array:
    """Return the column; values that Arrow or Paimon cannot represent become null and are counted."""
    cells = cells.safe()
    if kind.name == "bool" and kind.element is None:
        return booleans(cells.data[cells.start] == ord("t"), cells.null)
    return column_of_texts(cells.valid_texts(), kind, oddities)


def column_of_texts(texts: pa.Array, kind: PgType, oddities: Counter[str]) -> pa.Array:
    """Return the column of values that are given as an array of texts."""
    if kind.element is not None:
        return _arrays(texts, kind, oddities) if kind.is_binary else texts
    if kind.name in _CASTS:
        return texts.cast(_CASTS[kind.name])
    build = _BUILDERS.get(kind.name)
    return texts if build is None else build(texts, kind, oddities)


def _without(texts: pa.Array, odd: pa.Array, reason: str, oddities: Counter[str]) -> pa.Array:
    found = pc.sum(odd).as_py() or 0
    if not found:
        return texts
    oddities[reason] += found
    return pc.if_else(pc.fill_null(odd, fill_value=False), pa.scalar(None, texts.type), texts)


def _bools(texts: pa.Array, _kind: PgType, _oddities: Counter[str]) -> pa.Array:
    return pc.equal(texts, "t")


def _numerics(texts: pa.Array, kind: PgType, oddities: Counter[str]) -> pa.Array:
    if kind.decimal is None:
        return texts
    special = pc.is_in(texts, pa.array(["NaN", "Infinity", "-Infinity"]))
    texts = _without(texts, special, NOT_A_NUMBER, oddities)
    arrow = pa.decimal128(*kind.decimal)
    try:
        return decimals_of_texts(texts, arrow)
    except pa.ArrowInvalid:
        # A number that does not fit: convert each distinct one.
        return _each(texts, arrow, lambda text: _decimal(text, arrow), TOO_LARGE, oddities)


def _decimal(text: str, arrow: pa.Decimal128Type) -> Decimal | None:
    try:
        value = Decimal(text)
        pa.array([value], arrow)
    except (InvalidOperation, pa.ArrowInvalid):
        return None
    return value


def _each(
    texts: pa.Array, arrow: pa.DataType, convert: Callable[[str], object], reason: str, oddities: Counter[str]
) -> pa.Array:
    """Convert each distinct text once; a text that becomes None is counted for each of its cells."""
    encoded = texts.dictionary_encode()
    values = [convert(text) for text in encoded.dictionary.to_pylist()]
    column = pa.array(values, arrow).take(encoded.indices)
    lost = column.null_count - texts.null_count
    if lost:
        oddities[reason] += lost
    return column


def _dates(texts: pa.Array, _kind: PgType, oddities: Counter[str]) -> pa.Array:
    texts = _without(texts, pc.is_in(texts, _INFINITIES), INFINITY, oddities)
    # Arrow parses only years of four digits after Christ.
    if _are_plain(texts, 10):
        return texts.cast(pa.date32())
    return _each(texts, pa.int32(), lambda text: _days(text)[0], INFINITY, oddities).view(pa.date32())


def _are_plain(texts: pa.Array, least: int) -> bool:
    """Return whether all years have four digits and are after Christ."""
    lengths = pc.min_max(pc.utf8_length(texts)).as_py()
    dashes = pc.all(pc.equal(pc.utf8_slice_codeunits(texts, 4, 5), "-")).as_py()
    suffixes = pc.any(pc.ends_with(texts, "BC")).as_py()
    return bool(dashes is not False and not suffixes and (lengths["min"] or least) >= least)


def _days(text: str) -> tuple[int, str]:
    """Return the days since 1970 of a date with any year, and the rest of the text."""
    before = text.endswith(" BC")
    date, _, rest = text.removesuffix(" BC").partition(" ")
    year, month, day = (int(part) for part in date.split("-"))
    year = 1 - year if before else year
    # The calendar repeats every 400 years of 146,097 days.
    cycles = (year - 2000) // 400
    ordinal = dt.date(year - 400 * cycles, month, day).toordinal() + 146_097 * cycles
    return ordinal - _EPOCH, rest


def _times(texts: pa.Array, _kind: PgType, oddities: Counter[str]) -> pa.Array:
    texts = _without(texts, pc.starts_with(texts, "24:"), OUT_OF_DAY, oddities)
    # Arrow casts texts to timestamps, but not to times. On the first day of 1970 the instant is the time of day.
    instants = pc.binary_join_element_wise("1970-01-01 ", texts, "").cast(pa.timestamp("us"))
    return instants.view(pa.int64()).view(pa.time64("us"))


def _timestamps(texts: pa.Array, kind: PgType, oddities: Counter[str]) -> pa.Array:
    arrow = pa.timestamp("us", "UTC" if kind.name == "timestamptz" else None)
    texts = _without(texts, pc.is_in(texts, _INFINITIES), INFINITY, oddities)
    if kind.name == "timestamptz":  # connections use UTC
        texts = pc.replace_substring_regex(texts, r"\+00( BC)?$", r"\1")
    if _are_plain(texts, 19):
        return texts.cast(pa.timestamp("us")).view(arrow)
    return _each(texts, pa.int64(), _micros, INFINITY, oddities).view(arrow)


def _micros(text: str) -> int | None:
    days, clock = _days(text)
    hour, minute, second = clock.split(":")
    whole, _, fraction = second.partition(".")
    seconds = int(hour) * 3600 + int(minute) * 60 + int(whole)
    micros = days * _DAY_US + seconds * 1_000_000 + int(fraction.ljust(6, "0") or 0)
    return micros if abs(micros) <= np.iinfo(np.int64).max else None


def _bytes(texts: pa.Array, _kind: PgType, oddities: Counter[str]) -> pa.Array:
    return _each(texts, pa.binary(), lambda text: bytes.fromhex(text[2:]), "", oddities)


def _bits(texts: pa.Array, kind: PgType, oddities: Counter[str]) -> pa.Array:
    note_lengths(kind, pc.binary_length(texts.drop_null()).to_numpy().astype(np.int64), oddities)
    if kind.size == 1:
        return pc.equal(texts, "1")
    return _each(texts, pa.binary(), bits_of_text, "", oddities)


def _arrays(texts: pa.Array, kind: PgType, oddities: Counter[str]) -> pa.Array:
    """Return lists. Arrays are parsed one by one: the binary format is used unless a type needs the text format."""
    values: list[str | None] = []
    offsets, null = [0], []
    for text in texts.to_pylist():
        elements = None if text is None else elements_of(text)
        if elements is None and text is not None:
            oddities[ARRAY_SHAPE] += 1
        null.append(elements is None)
        values += elements or ()
        offsets.append(len(values))
    assert kind.element is not None
    inner = column_of_texts(pa.array(values, pa.string()), kind.element, oddities)
    mask = pa.array(null) if any(null) else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, mask=mask)


_BUILDERS: dict[str, Callable[[pa.Array, PgType, Counter[str]], pa.Array]] = {
    "bool": _bools,
    "numeric": _numerics,
    "date": _dates,
    "time": _times,
    "timestamp": _timestamps,
    "timestamptz": _timestamps,
    "bytea": _bytes,
    "bit": _bits,
    "varbit": _bits,
}
