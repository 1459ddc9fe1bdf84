"""Paimon's types as Arrow types, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import NO_ID, arrow_schema, fields_from_arrow, from_arrow, to_arrow
from penstock.table.values.types import STRING, Field, parse_type

PUBLIC = [
    ("BOOLEAN", pa.bool_()),
    ("TINYINT", pa.int8()),
    ("SMALLINT", pa.int16()),
    ("INT", pa.int32()),
    ("BIGINT", pa.int64()),
    ("FLOAT", pa.float32()),
    ("DOUBLE", pa.float64()),
    ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
    ("DECIMAL(38, 10)", pa.decimal128(38, 10)),
    ("CHAR(5)", pa.string()),
    ("VARCHAR(20)", pa.string()),
    ("STRING", pa.string()),
    ("BINARY(4)", pa.binary()),
    ("BYTES", pa.binary()),
    ("DATE", pa.date32()),
    ("TIME(0)", pa.time32("ms")),
    ("TIME(9)", pa.time32("ms")),
    ("TIMESTAMP(0)", pa.timestamp("s")),
    ("TIMESTAMP(1)", pa.timestamp("ms")),
    ("TIMESTAMP(3)", pa.timestamp("ms")),
    ("TIMESTAMP(4)", pa.timestamp("us")),
    ("TIMESTAMP(6)", pa.timestamp("us")),
    ("TIMESTAMP(7)", pa.timestamp("ns")),
    ("TIMESTAMP(9)", pa.timestamp("ns")),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", pa.timestamp("ms", "UTC")),
    ({"type": "ARRAY", "element": "INT NOT NULL"}, pa.list_(pa.field("element", pa.int32(), nullable=False))),
    ({"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"}, pa.map_(pa.string(), pa.int64())),
    (
        {"type": "MULTISET", "element": "STRING"},
        pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False)),
    ),
]
ROW = {
    "type": "ROW",
    "fields": [
        {"id": 1, "name": "x", "type": "INT NOT NULL"},
        {"id": 2, "name": "y", "type": {"type": "ARRAY", "element": "STRING"}, "description": "note"},
    ],
}


@pytest.mark.parametrize(("text", "arrow"), PUBLIC, ids=str)
def test_every_type_has_one_public_arrow_type(text: object, arrow: pa.DataType) -> None:
    assert to_arrow(parse_type(text)) == arrow


def test_row_keeps_names_nullability_and_descriptions() -> None:
    arrow = to_arrow(parse_type(ROW))
    assert arrow == pa.struct(
        [pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.list_(pa.field("element", pa.string())))]
    )
    assert arrow.field("y").metadata == {b"description": b"note"}


@pytest.mark.parametrize(
    "text",
    [
        *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT NOT NULL", "FLOAT", "DOUBLE", "DECIMAL(38, 38)", "STRING"),
        *("BYTES", "DATE", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9) NOT NULL"),
        *("TIMESTAMP(6) WITH LOCAL TIME ZONE", "VARIANT"),
        {"type": "MAP NOT NULL", "key": "INT NOT NULL", "value": {"type": "ARRAY", "element": "DATE"}},
    ],
    ids=str,
)
def test_types_that_arrow_can_express_survive_a_round_trip(text: object) -> None:
    type_ = parse_type(text)
    assert from_arrow(to_arrow(type_), nullable=type_.nullable) == type_


def test_row_survives_a_round_trip_without_ids() -> None:
    (field,) = fields_from_arrow(arrow_schema([Field(7, "r", parse_type(ROW), "about r")]))
    assert (field.id, field.description) == (NO_ID, "about r")
    assert [(member.id, member.name) for member in field.type.fields] == [(NO_ID, "x"), (NO_ID, "y")]


@pytest.mark.parametrize(
    ("arrow", "text"),
    [
        (pa.uint8(), "SMALLINT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.large_string(), "STRING"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.binary(4), "BINARY(4)"),
        (pa.timestamp("us", "Asia/Shanghai"), "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (pa.decimal256(30, 2), "DECIMAL(30, 2)"),
        (pa.large_list(pa.int8()), {"type": "ARRAY", "element": "TINYINT"}),
    ],
    ids=str,
)
def test_other_arrow_types_are_widened(arrow: pa.DataType, text: object) -> None:
    assert from_arrow(arrow, nullable=True) == parse_type(text)


def test_arrow_type_without_a_counterpart_is_refused_with_its_column() -> None:
    with pytest.raises(ConfigError, match="duration") as caught:
        fields_from_arrow(pa.schema([pa.field("d", pa.duration("s"))]))
    assert caught.value.facts == {"column": "d"}


def test_dictionary_of_strings_is_a_string() -> None:
    assert from_arrow(pa.dictionary(pa.int8(), pa.large_string()), nullable=True) == STRING
