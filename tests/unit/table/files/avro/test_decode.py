"""Columns to Avro's bytes and back, beside what fastavro reads out of them record by record."""

from __future__ import annotations

import io
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from penstock.table.files.avro.decode import can_decode, decoded
from penstock.table.files.avro.encode import encoded_blocks
from penstock.table.files.avro.reader import from_avro
from penstock.table.files.avro.schema import record_schema, without_logical_types
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import Field, parse_type

FLAT: dict[str, list[Any]] = {
    "STRING": ["", None, "a", "ü" * 200, "x" * 70_000],
    "BYTES": [b"", None, b"\x00\xff"],
    "TINYINT": [1, None, -128],
    "INT": [0, -1, None, 2**31 - 1, -(2**31), 300],
    "BIGINT": [0, None, 2**63 - 1, -(2**63), 1 << 40],
    "BOOLEAN": [True, None, False],
    "FLOAT": [1.5, None, float("-inf")],
    "DOUBLE": [0.1, None, float("inf")],
    "DECIMAL(10, 2)": [Decimal(text) / 100 for text in ("127", "128", "-128", "-129", "0", "-1", "9999999999")]
    + [None],
    "DECIMAL(38, 0)": [Decimal(10**37), None, Decimal(-(10**37)), Decimal(1 << 64), Decimal(-(1 << 63))],
    "DATE": [date(2020, 1, 1), None, date(1, 1, 1)],
    "TIMESTAMP(3)": [datetime(2020, 1, 1, 1, 2, 3, 4000), None],
    "TIMESTAMP(6)": [datetime(1960, 1, 1, 1, 2, 3, 4), None],
}
TEXT_ROW = {"type": "ROW", "fields": [{"id": 8, "name": "x", "type": "INT"}, {"id": 9, "name": "y", "type": "STRING"}]}
ROW = {
    "type": "ROW",
    "fields": [{"id": 8, "name": "x", "type": "INT NOT NULL"}, {"id": 9, "name": "y", "type": "DOUBLE"}],
}
NESTED: list[tuple[dict[str, Any], list[Any]]] = [
    (ROW, [{"x": 1, "y": 1.5}, None, {"x": 3, "y": None}]),
    ({**TEXT_ROW, "type": "ROW NOT NULL"}, [{"x": 1, "y": "a"}, {"x": None, "y": None}]),
    (TEXT_ROW, [{"x": 1, "y": "a"}, None, {"x": None, "y": None}]),
    ({"type": "ARRAY", "element": "INT"}, [[1, None], [], None, [3]]),
    ({"type": "ARRAY", "element": TEXT_ROW}, [[{"x": 1, "y": "a"}, None], None, []]),
    (
        {"type": "ARRAY", "element": {"type": "ARRAY", "element": "STRING"}},
        [[["a"], None, []], None, [], [["b", None]]],
    ),
    ({"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}, [[("a", 1), ("b", None)], [], None]),
    ({"type": "MAP", "key": "INT NOT NULL", "value": "STRING"}, [[(1, "x")], None, [], [(2, None), (3, "")]]),
    ({"type": "MULTISET", "element": "STRING NOT NULL"}, [[("a", 1)], None, []]),
]
KEY = Field(1, "k", parse_type("INT NOT NULL"))


@pytest.mark.parametrize(("type_", "values"), [*FLAT.items(), *NESTED], ids=lambda case: str(case)[:40])
@pytest.mark.parametrize("nullable", [True, False])
def test_fastavro_and_the_decoder_read_encoded_records(type_: Any, values: list[Any], nullable: bool) -> None:
    if not nullable and isinstance(type_, str):
        type_, values = f"{type_} NOT NULL", [value for value in values if value is not None]
    field = Field(0, "c", parse_type(type_))
    whole = pa.array(values, to_arrow(field.type))
    schema = fastavro.parse_schema(without_logical_types(record_schema([field, KEY])))
    for column in (whole, whole.slice(1), whole.slice(0, 1), whole.slice(len(whole))):
        keys, records, columns = pa.array(range(len(column)), pa.int32()), [], []
        for count, data in encoded_blocks([column, keys], [field, KEY]):
            records += [fastavro.schemaless_reader(stream, schema, None) for stream in [io.BytesIO(data)] * count]
            if can_decode(schema, [(count, data)]):
                columns.append(decoded([(count, data)], schema, [KEY, field])[1])
        assert [record["k"] for record in records] == keys.to_pylist()
        assert from_avro([record["c"] for record in records], field.type).equals(column)
        assert not columns or pa.concat_arrays(columns).equals(column)


def test_records_with_lists_are_decoded_value_by_value() -> None:
    def flat(type_: Any) -> bool:
        return can_decode(without_logical_types(record_schema([Field(0, "c", parse_type(type_))])), [(100, b"")])

    assert [flat(type_) for type_, _ in NESTED] == [True, True, *[False] * 7]


def test_columns_that_are_not_requested_are_skipped() -> None:
    fields = [
        Field(number, name, parse_type(type_)) for number, (name, type_) in enumerate(zip("abcd", FLAT, strict=False))
    ]
    columns = [pa.array(FLAT[type_][:3], to_arrow(field.type)) for field, type_ in zip(fields, FLAT, strict=False)]
    schema = without_logical_types(record_schema(fields))
    blocks = list(encoded_blocks(columns, fields))
    new = Field(9, "new", parse_type("INT"))
    assert [column.to_pylist() for column in decoded(blocks, schema, [fields[3], new, fields[0]])] == [
        FLAT["INT"][:3],
        [None] * 3,
        FLAT["STRING"][:3],
    ]


def test_invalid_record_bytes_are_refused() -> None:
    fields = [Field(number, f"c{number}", parse_type(type_)) for number, type_ in enumerate(FLAT)]
    columns = [
        pa.array(values[:2] * 20, to_arrow(field.type)) for field, values in zip(fields, FLAT.values(), strict=True)
    ]
    schema, random, refused = without_logical_types(record_schema(fields)), Random(1), 0
    [(count, data)] = encoded_blocks(columns, fields)
    for _ in range(300):
        broken = bytearray(data)
        broken[random.randrange(len(data))] = random.randrange(256)
        try:
            end = random.choice([len(data), random.randrange(len(data))])
            decoded([(count, bytes(broken[:end]))], schema, fields)
        except (ValueError, IndexError):
            refused += 1
    assert refused > 150
