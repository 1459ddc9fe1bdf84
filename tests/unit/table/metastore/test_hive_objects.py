"""Descriptions of tables in a Hive metastore."""

from __future__ import annotations

import copy

import pytest

from penstock.table.metastore.hive_objects import (
    hive_type,
    is_external,
    is_paimon,
    new_partition,
    new_table,
    update,
    view_type,
)
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.type_text import read_type, written
from penstock.table.values.types import parse_type

TYPES = [
    ("BOOLEAN", "boolean"),
    ("TINYINT", "tinyint"),
    ("SMALLINT", "smallint"),
    ("INT NOT NULL", "int"),
    ("BIGINT", "bigint"),
    ("FLOAT", "float"),
    ("DOUBLE", "double"),
    ("DECIMAL(10, 2)", "decimal(10,2)"),
    ("CHAR(255)", "char(255)"),
    ("CHAR(256)", "string"),
    ("VARCHAR(65535)", "varchar(65535)"),
    ("VARCHAR(65536)", "string"),
    ("STRING", "string"),
    ("BINARY(5)", "binary"),
    ("VARBINARY(5)", "binary"),
    ("BYTES", "binary"),
    ("DATE", "date"),
    ("TIME(3)", "string"),
    ("TIMESTAMP(6)", "timestamp"),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "timestamp"),
    ("VARIANT", "struct<value:binary,metadata:binary>"),
]


@pytest.mark.parametrize(
    ("hive", "paimon"),
    [
        ("decimal(10,2)", "DECIMAL(10, 2)"),
        ("binary", "BYTES"),
        ("struct<a:int,binary:binary>", "ROW<a INT, binary BYTES>"),
        (
            "array<struct<a b:map<string,struct<c:decimal(4,2)>>>>",
            "ARRAY<ROW<`a b` MAP<STRING, ROW<c DECIMAL(4, 2)>>>>",
        ),
    ],
)
def test_types_of_columns_of_views_are_read(hive: str, paimon: str) -> None:
    assert written(read_type(view_type(hive))) == written(read_type(paimon))


@pytest.mark.parametrize(("paimon", "hive"), TYPES)
def test_types_are_those_of_java(paimon: str, hive: str) -> None:
    assert hive_type(parse_type(paimon)) == hive
    assert hive_type(parse_type({"type": "ARRAY", "element": paimon})) == f"array<{hive}>"
    assert hive_type(parse_type({"type": "MAP", "key": "STRING", "value": paimon})) == f"map<string,{hive}>"
    assert hive_type(parse_type({"type": "MULTISET", "element": paimon})) == f"map<{hive},int>"
    row = {"type": "ROW", "fields": [{"id": 1, "name": "f", "type": paimon}, {"id": 2, "name": "g", "type": "INT"}]}
    assert hive_type(parse_type(row)) == f"struct<f:{hive},g:int>"


def test_keys_are_parameters_and_partition_columns_are_columns() -> None:
    columns = [("dt", "STRING"), ("id", "INT"), ("v", "STRING")]
    schema = create_schema(columns, ["dt", "id"], ["dt"], {"bucket": "2"}, "sales", now=1)
    table = new_table("shop", "orders", "file:/lake/shop.db/orders", schema)
    assert table.parameters == {
        "bucket": "2",
        "partition": "dt",
        "primary-key": "dt,id",
        "bucket-key": "id",
        "comment": "sales",
        "table_type": "PAIMON",
        "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler",
    }
    assert [col.name for col in table.sd.cols] == ["dt", "id", "v"]
    assert is_paimon(table)
    assert not is_external(table)


def test_parameters_of_others_are_kept_and_removed_options_are_not() -> None:
    before = create_schema([("id", "INT")], options={"bucket": "-1", "write-only": "true"}, comment="old", now=1)
    after = create_schema([("id", "INT"), ("v", "INT")], options={"bucket": "-1"}, now=1)
    table = new_table("shop", "orders", "file:/orders", before)
    table.parameters["theirs"] = "1"
    assert update(table, after, before.options)
    assert table.parameters["theirs"] == "1"
    assert not {"write-only", "comment"} & table.parameters.keys()
    assert [col.name for col in table.sd.cols] == ["id", "v"]
    assert not update(table, after, after.options)


def test_columns_of_partitions_that_are_shown_are_separate() -> None:
    columns = [("id", "INT"), ("dt", "STRING"), ("hh", "INT")]
    options = {"bucket": "-1", "metastore.partitioned-table": "true"}
    schema = create_schema(columns, (), ["dt", "hh"], options, now=1)
    table = new_table("shop", "orders", "file:/orders/", schema)
    assert [(number.name, number.type) for number in table.partitionKeys] == [("dt", "string"), ("hh", "int")]
    assert [column.name for column in table.sd.cols] == ["id"]
    assert not update(table, schema, schema.options)
    partition = new_partition(table, "dt=a/hh=1", ["a", "1"])
    assert (partition.dbName, partition.tableName, partition.values) == ("shop", "orders", ["a", "1"])
    assert partition.sd.location == "file:/orders/dt=a/hh=1"
    assert table.sd.location == "file:/orders/"


def test_partition_columns_described_by_java_are_kept() -> None:
    schema = create_schema([("dt", "STRING"), ("id", "INT")], (), ["dt"], {"bucket": "-1"}, now=1)
    table = new_table("shop", "orders", "file:/orders", schema)
    table.partitionKeys, table.sd.cols = [table.sd.cols[0]], table.sd.cols[1:]
    expected = copy.deepcopy(table)
    assert not update(table, schema, schema.options)
    assert table == expected


def test_a_table_that_hive_4_translated_is_still_managed() -> None:
    table = new_table("shop", "orders", "file:/orders", create_schema([("id", "INT")], options={"bucket": "-1"}, now=1))
    table.tableType, table.parameters["EXTERNAL"] = "EXTERNAL_TABLE", "TRUE"
    assert is_external(table)
    table.parameters["TRANSLATED_TO_EXTERNAL"] = "TRUE"
    assert not is_external(table)
    table.parameters["external.table.purge"] = "TRUE"
    assert not is_external(table)
    table.parameters["external.table.purge"] = "false"
    assert is_external(table)
