"""BinaryRow bytes: what Java wrote, and rows there and back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import TableCorrupt
from penstock.table.values.binary_row import decode_row, encode_row, encode_rows
from penstock.table.values.internal import from_internal, internal_values
from penstock.table.values.types import parse_type
from tests.unit.table.values.samples import ATOMIC_TYPES, NESTED, VECTORS, same, values_of, vector_rows

MILLIS = 1_000_000
FIVE = ["STRING", "INT", "TIMESTAMP(6)", "BOOLEAN", "DECIMAL(10, 2)"]
ELEVEN = [
    *("INT", "STRING", "STRING", "DECIMAL(10, 2)", "DECIMAL(30, 2)", "TIMESTAMP(3)", "TIMESTAMP(6)", "BOOLEAN"),
    *("DOUBLE", {"type": "ARRAY", "element": "INT"}, "BYTES"),
]
JAVA_ROWS: list[tuple[list[Any], tuple[object, ...], str]] = [
    ([], (), "00000000 0000000000000000"),
    (["INT"], (1,), "00000001 0000000000000000 0100000000000000"),
    (["STRING"], ("abcdefg",), "00000001 0000000000000000 6162636465666787"),
    (["STRING"], ("20240514",), "00000001 0000000000000000 0800000010000000 3230323430353134"),
    (["INT", "DATE"], (7, 19849), "00000002 0000000000000000 0700000000000000 894d000000000000"),
    (
        FIVE,
        ("d", -5, 0x018F4DF73E7B * MILLIS + 456_000, True, Decimal("12.30")),
        "00000005 0000000000000000 6400000000000081 fbffffff00000000 40f5060030000000 0100000000000000 ce04000000000000"
        "7b3ef74d8f010000",
    ),
    (
        FIVE,
        (None,) * 5,
        "00000005 001f000000000000 0000000000000000 0000000000000000 0000000030000000"
        "0000000000000000 0000000000000000 0000000000000000",
    ),
    (
        ELEVEN,
        (
            *(1, "short", "longer than 7", Decimal("123.45"), Decimal("-1.23"), 1700000000123 * MILLIS),
            *(1700000000123 * MILLIS + 456_000, True, 1.5, [1, None, 3], b"\x01\x02"),
        ),
        "0000000b 0000000000000000 0100000000000000 73686f7274000085 0d00000060000000 3930000000000000 0100000070000000"
        "7b68e5cf8b010000 40f5060080000000 0100000000000000 000000000000f83f 1800000088000000 0102000000000082"
        "6c6f6e676572207468616e2037000000 85000000000000000000000000000000 7b68e5cf8b010000"
        "030000000200000001000000000000000300000000000000",
    ),
]
NESTED_VALUES = [
    ({"type": "ARRAY", "element": "STRING"}, ["a", None, "longer than seven", ""]),
    ({"type": "ARRAY", "element": "TINYINT"}, list(range(-20, 20))),
    ({"type": "ARRAY", "element": "DECIMAL(20, 2)"}, [Decimal("1.00"), None]),
    ({"type": "MAP", "key": "STRING", "value": "BIGINT"}, [("k", 1), ("another key", None)]),
    ({"type": "MULTISET", "element": "INT"}, [(3, 1), (4, 2)]),
    ({"type": "ARRAY", "element": {"type": "ARRAY", "element": "TIMESTAMP(6)"}}, [[1_000], None, []]),
    ("VARIANT", (b"value", b"metadata")),
    (
        {
            "type": "ROW",
            "fields": [
                {"id": 1, "name": "x", "type": "TIMESTAMP(9)"},
                {"id": 2, "name": "y", "type": {"type": "ARRAY", "element": "STRING"}},
            ],
        },
        (None, ["deep", None]),
    ),
]


@pytest.mark.parametrize(("types", "values", "expected"), JAVA_ROWS, ids=lambda v: str(v)[:40])
def test_rows_are_java_s_bytes(types: list[Any], values: tuple[object, ...], expected: str) -> None:
    parsed = [parse_type(text) for text in types]
    data = bytes.fromhex(expected.replace(" ", ""))
    assert encode_row(values, parsed) == data
    assert decode_row(data, parsed) == values


@pytest.mark.parametrize("group", VECTORS, ids=lambda g: f"{g['function']} {'+'.join(g['types'])}")
def test_recorded_rows_are_decoded_by_row_and_by_column(group: dict[str, Any]) -> None:
    types, rows = vector_rows(group)
    expected = [vector["row_hex"] for vector in group["vectors"]]
    assert [encode_row(row, types)[4:].hex() for row in rows] == expected
    inside = [in_arrow_range(row, types) for row in rows]
    kept = [row for row, fits in zip(rows, inside, strict=True) if fits]
    columns = [from_internal(list(column), type_) for column, type_ in zip(zip(*kept, strict=True), types, strict=True)]
    encoded = encode_rows(columns, types)
    assert [encoded[i].hex() for i in range(len(encoded))] == [
        text for text, fits in zip(expected, inside, strict=True) if fits
    ]


def in_arrow_range(row: list[Any], types: list[Any]) -> bool:
    pairs = zip(row, types, strict=True)
    return all(v is None or t.root != "TIMESTAMP" or t.precision < 7 or abs(v) < 2**63 for v, t in pairs)


@pytest.mark.parametrize(("text", "value"), NESTED_VALUES, ids=str)
def test_nested_values_survive_a_round_trip(text: object, value: object) -> None:
    types = [parse_type("INT"), parse_type(text), parse_type("STRING")]
    rows = [(1, value, "a tail behind"), (None, None, None), (2, value, "b")]
    for row in rows:
        assert decode_row(encode_row(row, types), types) == row
    columns = [from_internal(list(column), type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    encoded = encode_rows(columns, types)
    assert [encoded[i] for i in range(3)] == [encode_row(row, types)[4:] for row in rows]


@pytest.mark.parametrize("group", NESTED, ids=lambda g: str(g["types"][1])[:60])
def test_recorded_nested_rows_are_decoded_and_encoded_both_ways(group: dict[str, Any]) -> None:
    types, rows = vector_rows(group)
    expected = [vector["row_hex"] for vector in group["vectors"]]
    encoded = encode_rows(
        [from_internal(list(column), type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)],
        types,
    )
    for i, (row, text) in enumerate(zip(rows, expected, strict=True)):
        assert encode_row(row, types)[4:].hex() == text
        assert encoded[i].hex() == text
        assert decode_row(encode_row(row, types), types) == tuple(row)


TABLES = st.lists(ATOMIC_TYPES, min_size=1, max_size=5).flatmap(
    lambda types: st.tuples(
        st.just(types), st.lists(st.tuples(*(values_of(type_) for type_ in types)), min_size=1, max_size=12)
    )
)


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 3 // 2)
@given(TABLES, st.integers(0, 3))
def test_any_row_survives_a_round_trip_and_columns_encode_as_rows_do(table: tuple[Any, Any], cut: int) -> None:
    types, rows = table
    columns = [from_internal(list(column), type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    encoded = encode_rows([column.slice(cut) for column in columns], types)
    for i, row in enumerate(rows):
        data = encode_row(row, types)
        assert all(same(a, b) for a, b in zip(decode_row(data, types), row, strict=True))
        assert i < cut or encoded[i - cut] == data[4:]
    for column, type_, i in zip(columns, types, range(len(types)), strict=True):
        back = internal_values(column.slice(cut), type_)
        assert all(same(a, row[i]) for a, row in zip(back, rows[cut:], strict=True))


def test_null_bits_past_56_fields_use_a_second_header_word() -> None:
    types = [parse_type("INT")] * 57
    row = (*range(56), None)
    data = encode_row(row, types)
    assert len(data) == 4 + 16 + 57 * 8
    assert data[4 + 8] == 1
    assert decode_row(data, types) == row
    assert encode_rows([pa.array([v], pa.int32()) for v in row], types)[0] == data[4:]


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0\2" + bytes(16), b"\0\0\0\1" + bytes(10), b"\0\0\0\1" + bytes(8) + b"\x50" * 7]
)
def test_foreign_bytes_are_table_corrupt(data: bytes) -> None:
    with pytest.raises(TableCorrupt):
        decode_row(data, [parse_type("STRING")])
