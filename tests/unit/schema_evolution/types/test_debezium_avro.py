"""Avro's types as columns, and values of them in those columns: from a message to the table's own types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from penstock.formats.debezium.schema_registry import SchemaRegistry
from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import paimon_type
from penstock.schema_evolution.value_casts import fit_column
from penstock.table.schema.type_text import written
from penstock.table.values.types import Field
from tests.avro import change, envelope, optional
from tests.unit.formats.support import read

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
DATE = {"type": "int", "connect.name": "io.debezium.time.Date"}
DAY = dt.date(2024, 5, 6)
NOON = dt.datetime(2024, 5, 6, 12, 0, 0, 123456)
NOON_MICROS = 1714996800123456
NOON_MILLIS = dt.datetime(2024, 5, 6, 12, 0, 0, 123000)
PROPAGATED = {"__debezium.source.column.type": "VARCHAR", "__debezium.source.column.length": "20"}
MEMBERS = [{"name": "day", "type": optional(DATE)}, {"name": "n", "type": "int"}]

TYPES: list[tuple[Any, str, Any, Any]] = [
    ("boolean", "BOOLEAN", True, True),
    ("int", "INT", -1, -1),
    ("long", "BIGINT", 1 << 60, 1 << 60),
    ("float", "FLOAT", 0.5, 0.5),
    ("double", "DOUBLE", 0.1, 0.1),
    ("bytes", "BYTES", b"\xff", b"\xff"),
    ({"type": "fixed", "name": "F", "size": 2}, "BYTES", b"ab", b"ab"),
    ("string", "STRING", "é", "é"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, "STRING", "A", "A"),
    ({"type": "int", "logicalType": "date"}, "DATE", DAY, DAY),
    ({"type": "int", "logicalType": "time-millis"}, "TIME(3)", dt.time(1, 2, 3, 4000), dt.time(1, 2, 3, 4000)),
    ({"type": "long", "logicalType": "time-micros"}, "TIME(6)", dt.time(1, 2, 3), dt.time(1, 2, 3)),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        "TIMESTAMP(3)",
        NOON_MICROS // 1000,
        NOON.replace(microsecond=123000),
    ),
    ({"type": "long", "logicalType": "timestamp-micros"}, "TIMESTAMP(6)", NOON_MICROS, NOON),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        NOON_MICROS,
        NOON.replace(tzinfo=dt.UTC),
    ),
    (DECIMAL, "DECIMAL(10, 2)", Decimal("-1.05"), Decimal("-1.05")),
    ({**DECIMAL, "precision": 40}, "STRING", Decimal("-1.05"), "-1.05"),
    ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, "TIMESTAMP(6)", NOON_MICROS, NOON),
    ({"type": "string", "connect.parameters": PROPAGATED}, "VARCHAR(20)", "x", "x"),
    ({"type": "array", "items": optional("int")}, "ARRAY<INT>", [1, None], [1, None]),
    ({"type": "array", "items": DATE}, "ARRAY<DATE>", [19849], [DAY]),
    ({"type": "array", "items": DECIMAL}, "ARRAY<DECIMAL(10, 2)>", [Decimal("1.10")], [Decimal("1.10")]),
    ({"type": "map", "values": "int"}, "MAP<STRING NOT NULL, INT>", {"a": 1}, [("a", 1)]),
    (
        {"type": "record", "name": "R", "fields": MEMBERS},
        "ROW<`day` DATE, `n` INT>",
        {"day": 19849, "n": 1},
        {"day": DAY, "n": 1},
    ),
]


class Fixed(SchemaRegistry):
    def __init__(self, schema: Any) -> None:
        super().__init__("http://nowhere")
        self._one = schema

    def schema(self, number: int) -> Any:
        return self._one


@pytest.mark.parametrize(("schema", "type_text", "value", "expected"), TYPES)
def test_a_value_of_each_type_is_stored_in_its_column(schema: Any, type_text: str, value: Any, expected: Any) -> None:
    whole = envelope({"name": "c", "type": optional(schema)})
    decoded = read(
        "debezium-avro", *(change(1, whole, "c", None, {"c": item}) for item in (value, None)), registry=Fixed(whole)
    )
    assert not decoded.bad
    (batch,) = decoded.batches
    type_ = paimon_type("avro", batch.schema.fields[0], TypeMapping())
    assert written(type_) == type_text
    misfits = Misfits()
    column = fit_column(batch.rows.column(0), Field(0, "c", type_), TypeMapping(), misfits)
    assert (column.to_pylist(), misfits.reasons) == ([expected, None], {})
