"""Values as the peer's writer prints them; the expected texts were printed by its classes."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections import Counter
from decimal import Decimal, localcontext

import bson
import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.decimal128 import create_decimal128_context
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.json_text import java_double
from penstock.ingest.mongodb.bson.elements import Block, segments
from penstock.ingest.mongodb.bson.texts import NOT_A_NUMBER, NOT_UTF8, json_texts, plain_texts
from tests.unit.ingest.mongodb.bson.test_elements import laid_out

VALUES = [
    ("text", "text"),
    ("", ""),
    (5, "5"),
    (True, "true"),
    (Int64(9007199254740993), '{"$numberLong":"9007199254740993"}'),
    (3.14, "3.14"),
    (4.0, "4.0"),
    (1e10, "1.0E10"),
    (1e-5, "1.0E-5"),
    (1e-4, "1.0E-4"),
    (0.001, "0.001"),
    (9999999.5, "9999999.5"),
    (1e7, "1.0E7"),
    (-0.0, "-0.0"),
    (float("nan"), None),
    (float("inf"), None),
    (Decimal128("1.10"), '{"$numberDecimal":"1.10"}'),
    (Decimal128("-0"), '{"$numberDecimal":"-0"}'),
    (Decimal128("1E+3"), '{"$numberDecimal":"1E+3"}'),
    (Decimal128("NaN"), '{"$numberDecimal":"NaN"}'),
    (Decimal128("-Infinity"), '{"$numberDecimal":"-Infinity"}'),
    (dt.datetime(2024, 1, 1, 0, 0, 1, 123000), '{"$date":1704067201123}'),
    (dt.datetime(1969, 12, 31, 23, 59, 59), '{"$date":-1000}'),
    (ObjectId("100000000000000000000101"), '{"$oid":"100000000000000000000101"}'),
    (Timestamp(1704067201, 7), '{"$timestamp":{"t":1704067201,"i":7}}'),
    (b"\x01\x02\xff", '{"$binary":"AQL/","$type":"00"}'),
    (b"", '{"$binary":"","$type":"00"}'),
    (Binary(uuid.UUID(int=5).bytes, 4), '{"$binary":"AAAAAAAAAAAAAAAAAAAABQ==","$type":"04"}'),
    (Binary(b"abc", 2), '{"$binary":"YWJj","$type":"02"}'),
    (b"x" * 100, '{"$binary":"' + "eHh4" * 33 + 'eA==","$type":"00"}'),
    (Regex("a.*b/", "im"), '{"$regex":"a.*b/","$options":"im"}'),
    (Code("f()"), '{"$code":"f()"}'),
    (MinKey(), '{"$minKey":1}'),
    (MaxKey(), '{"$maxKey":1}'),
]


def plain(*values: object) -> tuple[list[str | None], Counter[str]]:
    """Return values of one type as texts of a column."""
    block, at = laid_out(*({"v": value} for value in values))
    (segment,) = segments(block, at)
    oddities: Counter[str] = Counter()
    return plain_texts(block, segment.kind, segment.start, segment.length, oddities).to_pylist(), +oddities


@pytest.mark.parametrize(("value", "text"), VALUES, ids=lambda case: repr(case)[:40])
def test_value_is_printed_as_the_peer_prints_it(value: object, text: str | None) -> None:
    found, oddities = plain(value, value)
    assert found == [text, text]
    assert oddities == ({NOT_A_NUMBER: 2} if text is None else {})


def test_types_that_drivers_no_longer_write() -> None:
    symbol, pointer = b"\x0ev\0\x02\0\0\0s\0", b"\x0cv\0\x04\0\0\0a.b\0" + bytes(range(12))
    undefined = b"\x06v\0"
    wanted = ['{"$symbol":"s"}', '{"$ref":"a.b","$id":{"$oid":"000102030405060708090a0b"}}', '{"$undefined":true}']
    for element, text in zip([symbol, pointer, undefined], wanted, strict=True):
        block = Block(struct.pack("<i", len(element) + 5) + element + b"\0")
        (segment,) = segments(block, [0])  # type: ignore[arg-type]  # a list of positions suffices
        assert json_texts(block, segment.kind, segment.start, segment.length, Counter()).to_pylist() == [text]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_doubles_are_printed_as_java_prints_them(values: list[float]) -> None:
    assert plain(*values)[0] == [java_double(value) for value in values]


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=None), min_size=1))
def test_decimals_are_printed_as_the_driver_prints_them(values: list[Decimal]) -> None:
    with localcontext(create_decimal128_context()) as context:
        made = [Decimal128(context.create_decimal(value)) for value in values]
    assert plain(*made)[0] == [f'{{"$numberDecimal":"{value}"}}' for value in made]


def test_texts_in_json_are_escaped_as_jackson_does() -> None:
    block, at = laid_out({"v": 'a"b\\c\n\t\x01\x1fé/\u2028'}, {"v": "plain"})
    (segment,) = segments(block, at)
    found = json_texts(block, segment.kind, segment.start, segment.length, Counter()).to_pylist()
    assert found == ['"a\\"b\\\\c\\n\\t\\u0001\\u001Fé/\u2028"', '"plain"']


def test_text_that_is_not_utf8_is_repaired_and_counted() -> None:
    raw = bson.encode({"v": "ab"}).replace(b"ab", b"a\xff")
    (segment,) = segments(Block(raw), [0])  # type: ignore[arg-type]  # a list of positions suffices
    oddities: Counter[str] = Counter()
    assert plain_texts(Block(raw), segment.kind, segment.start, segment.length, oddities).to_pylist() == ["a\ufffd"]
    assert oddities == {NOT_UTF8: 1}
