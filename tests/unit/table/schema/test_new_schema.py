"""Making a schema: what is given, what comes of it, what Paimon refuses."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.schema_files import parse_schema
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import parse_type_text
from penstock.table.values.types import Field, field_json, parse_type, type_json
from tests.golden.cases import case_names, unpacked

COLUMNS = [("k", "INT"), ("dt", "STRING"), ("v", "DECIMAL(10, 2)"), ("tags", {"type": "ARRAY", "element": "INT"})]


def made(
    columns: Any = COLUMNS,
    primary_keys: tuple[str, ...] = ("k",),
    partition_keys: tuple[str, ...] = (),
    **options: object,
) -> TableSchema:
    named = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    return create_schema(columns, primary_keys, partition_keys, named, now=7)


def with_options(options: dict[str, object], **keys: Any) -> TableSchema:
    return create_schema(COLUMNS, **{"primary_keys": ["k"], **keys}, options=options, now=7)


def test_a_schema_has_its_arguments() -> None:
    schema = create_schema(COLUMNS, ["k", "dt"], ["dt"], {"bucket": 4, "write-only": True}, "a table", now=7)
    assert schema == TableSchema(
        id=0,
        fields=(
            Field(0, "k", parse_type("INT NOT NULL")),
            Field(1, "dt", parse_type("STRING NOT NULL")),
            Field(2, "v", parse_type("DECIMAL(10, 2)")),
            Field(3, "tags", parse_type({"type": "ARRAY", "element": "INT"})),
        ),
        highest_field_id=3,
        partition_keys=("dt",),
        primary_keys=("k", "dt"),
        options={"bucket": "4", "write-only": "true"},
        comment="a table",
        time_millis=7,
    )


def test_an_arrow_schema_keeps_types_nullability_and_descriptions() -> None:
    arrow = pa.schema(
        [
            pa.field("k", pa.int64(), nullable=False),
            pa.field("at", pa.timestamp("us"), metadata={"description": "when"}),
            pa.field("inner", pa.struct([("x", pa.int8()), ("y", pa.list_(pa.string()))])),
        ]
    )
    schema = create_schema(arrow, now=7)
    assert [field_json(field) for field in schema.fields] == [
        {"id": 0, "name": "k", "type": "BIGINT NOT NULL"},
        {"id": 1, "name": "at", "type": "TIMESTAMP(6)", "description": "when"},
        {
            "id": 2,
            "name": "inner",
            "type": {
                "type": "ROW",
                "fields": [
                    {"id": 3, "name": "x", "type": "TINYINT"},
                    {"id": 4, "name": "y", "type": {"type": "ARRAY", "element": "STRING"}},
                ],
            },
        },
    ]


def test_members_are_numbered_after_what_is_inside_them() -> None:
    schema = create_schema([("r", "ROW<x INT, z ARRAY<ROW<q INT>>, w INT>"), ("next", "INT")], now=7)
    row = type_json(schema.fields[0].type)
    assert [schema.fields[0].id, schema.fields[1].id, schema.highest_field_id] == [0, 5, 5]
    assert [member["id"] for member in row["fields"]] == [1, 3, 4]  # type: ignore[index]
    assert '"id": 2, "name": "q"' in str(row).replace("'", '"')


@pytest.mark.parametrize("case", [name for name in case_names() if not name.startswith(("evolve", "py_"))])
def test_golden_schemas_are_reproduced(case: str) -> None:
    path = unpacked() / case / "table" / "schema" / "schema-0"
    java = parse_schema(path.read_bytes(), path.name)
    columns = [(field.name, type_json(field.type), field.description) for field in java.fields]
    again = create_schema(
        columns, java.primary_keys, java.partition_keys, java.options, java.comment, now=java.time_millis
    )
    assert again == java


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("array < int not null > NOT NULL", {"type": "ARRAY NOT NULL", "element": "INT NOT NULL"}),
        ("MAP<STRING, DECIMAL(10, 2)>", {"type": "MAP", "key": "STRING", "value": "DECIMAL(10, 2)"}),
        ("MULTISET<STRING NOT NULL>", {"type": "MULTISET", "element": "STRING NOT NULL"}),
        ("ARRAY<ARRAY<INT>>", {"type": "ARRAY", "element": {"type": "ARRAY", "element": "INT"}}),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL", "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"),
    ],
)
def test_constructed_types_may_be_written_as_in_sql(text: str, same: object) -> None:
    assert parse_type_text(text) == parse_type(same)


def test_members_of_a_row_may_have_odd_names() -> None:
    row = parse_type_text("ROW<`a b` INT, c: ROW<d STRING>>")
    assert [member["name"] for member in type_json(row)["fields"]] == ["a b", "c"]  # type: ignore[index]


@pytest.mark.parametrize(
    "text", ["ARRAY<INT, INT>", "MAP<INT>", "ARRAY<INT", "ROW<a>", "ROW<a INT,>", "ARRAY<INTT>", "ARRAY<>", "", "INT>>"]
)
def test_invalid_types_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_type_text(text)


def test_keys_in_options_become_keys() -> None:
    schema = create_schema(COLUMNS, options={"primary-key": "k, dt", "partition": "dt", "bucket": "1"}, now=7)
    assert (schema.primary_keys, schema.partition_keys, schema.options) == (("k", "dt"), ("dt",), {"bucket": "1"})
    with pytest.raises(ConfigError, match="repeats an argument"):
        with_options({"primary-key": "k"})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "at least one column"),
        ([("a", "INT"), ("a", "STRING")], "'a' is used twice"),
        ([("a", "INT"), (" ", "STRING")], "has no name"),
        ([("a", "ROW<x INT, x INT>")], "'x' is used twice"),
        ([("_KEY_a", "INT")], "reserved"),
        ([("rowkind", "INT")], "reserved"),
        ([("_SEQUENCE_NUMBER", "INT")], "reserved"),
        ([("a", "INTT")], "did you mean INT"),
        ([("a",)], "is not a column"),
        ([Field(0, "a", parse_type("INT"), default="x")], "cannot be the default of INT"),
    ],
)
def test_invalid_columns_are_refused(columns: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create_schema(columns, now=7)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"primary_keys": ["kk"]}, "primary key names 'kk'"),
        ({"primary_keys": ["k", "k"]}, "names 'k' twice"),
        ({"partition_keys": ["dz"]}, "partition key names 'dz'"),
        ({"primary_keys": ["tags"]}, "cannot be in a primary key"),
        ({"primary_keys": [], "partition_keys": ["tags"]}, "cannot be in a partition key"),
        ({"primary_keys": ["dt"], "partition_keys": ["dt", "k"]}, "consists of partition columns only"),
    ],
)
def test_invalid_keys_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create_schema(COLUMNS, **{"primary_keys": ["k"], **keys}, now=7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bukcet": "1"}, "did you mean bucket"),
        ({"bucket": "many"}, "not a whole number"),
        ({"bucket": "0"}, "not a number of buckets"),
        ({"bucket": "-3"}, "not a number of buckets"),
        ({"bucket-key": "k"}, "has no effect with bucket = -1"),
        ({"bucket": "2", "bucket-key": "v"}, "must be part of the primary key"),
        ({"bucket": "2", "bucket-key": "kk"}, "bucket-key names 'kk'"),
        ({"bucket": "2", "bucket-function.type": "hive"}, "choices are default, mod"),
        ({"merge-engine": "dedupe"}, "choices are"),
        ({"merge-engine": "partial_update", "changelog-producer": "lookups"}, "did you mean lookup"),
        ({"deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"}, "deletion vectors cannot"),
        ({"sequence.field": "w"}, "sequence.field names 'w'"),
        ({"sequence.field": "v,v"}, "'v' twice"),
        ({"sequence.field": "v", "fields.v.aggregate-function": "sum"}, "cannot have an aggregate function"),
        ({"fields.w.aggregate-function": "sum"}, "names 'w'"),
        ({"fields.v.sequence-group": "w"}, "names 'w'"),
        ({"file-index.bloom-filter.columns": "k,w"}, "names 'w'"),
        ({"rowkind.field": "w"}, "names 'w'"),
        ({"record-level.time-field": "dt"}, "must be INT, BIGINT or TIMESTAMP"),
        ({"snapshot.num-retained.min": "0"}, "1 or more"),
        ({"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "4"}, "is more than"),
        ({"changelog.num-retained.min": "5", "changelog.num-retained.max": "4"}, "is more than"),
        ({"partition.expiration-time": "1 d"}, "needs a partitioned table"),
        ({"streaming-read-overwrite": "true", "changelog-producer": "lookup"}, "twice"),
        ({"row-tracking.enabled": "true"}, "without a primary key"),
        ({"num-sorted-run.compaction-trigger": "0"}, "^0 is too small"),
        ({"num-levels": "1"}, "^1 is too small"),
        ({"full-compaction.delta-commits": "0"}, "^0 is too small"),
        ({"bucket": "-2", "postpone.default-bucket-num": "0"}, "^0 is too small"),
        ({"commit.max-retries": "-1"}, "^-1 is too small"),
        ({"dynamic-bucket.max-buckets": "0"}, "allows no bucket"),
        ({"file.format": "csv"}, "choices are parquet, orc, avro"),
        ({"data-evolution.enabled": "true"}, "not supported"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_options(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bucket": "2"}, "needs a bucket-key"),
        ({"bucket": "-2"}, "needs a primary key"),
        ({"bucket": "2", "bucket-key": "tags"}, "cannot be in a bucket-key"),
        ({"bucket": "2", "bucket-key": "k,v", "bucket-function.type": "mod"}, "single INT or BIGINT"),
        ({"changelog-producer": "input"}, "needs a primary key"),
        ({"streaming-read-overwrite": "true"}, "streaming-read-append-overwrite"),
        ({"row-tracking.enabled": "true", "bucket": "2", "bucket-key": "k"}, "bucket = -1"),
    ],
)
def test_options_that_need_a_key_are_refused_without_one(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        with_options(options, primary_keys=[])


def test_sequence_field_needs_keys_that_stay_in_their_partition() -> None:
    with pytest.raises(ConfigError, match="move between partitions"):
        with_options({"sequence.field": "v"}, partition_keys=["dt"])


@pytest.mark.parametrize(
    ("type_", "options", "message"),
    [
        ("TIMESTAMP(9)", {"file.format": "avro"}, "six digits"),
        ("ARRAY<TIMESTAMP(7)>", {"file.format.per.level": "0:avro,1:orc"}, "six digits"),
        ("VARIANT", {"file.format": "orc"}, "parquet files only"),
    ],
)
def test_types_that_a_format_cannot_store_are_refused(type_: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        create_schema([("a", type_)], options=options, now=7)


def test_options_of_columns_and_custom_options_are_accepted() -> None:
    schema = with_options({"penstock.owner": "me", "fields.v.stats-mode": "full", "parquet.page.size": "1 mb"})
    assert len(schema.options) == 3


def test_keys_are_lists_and_types_are_written_as_in_sql() -> None:
    with pytest.raises(ConfigError, match="primary-key must be a list of columns, not a text"):
        create_schema([("i", "INT"), ("d", "INT")], "id", now=1)
    with pytest.raises(ConfigError, match="cannot be in a primary key") as refused:
        create_schema([("m", "MAP<INT, STRING>")], ["m"], now=1)
    assert refused.value.facts["type"] == "MAP<INT, STRING> NOT NULL"
