"""Tables and columns that Iceberg metadata can describe, and those it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.iceberg.types import highest_id, iceberg_schema
from penstock.table.schema.new_schema import create_schema
from penstock.table.usable import check_usable
from tests.iceberg import AT_TABLE

KNOWN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "CHAR(3)": "string",
    "STRING": "string",
    "BYTES": "binary",
    "BINARY(3)": "binary",
    "DECIMAL(10, 2)": "decimal(10, 2)",
    "TIMESTAMP(6)": "timestamp",
    "TIMESTAMP(4)": "timestamp",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": "timestamptz",
}


def schema(columns: list[Any], **more: Any) -> Any:
    options = {**AT_TABLE, **more.pop("options", {})}
    return create_schema(columns, options=options, now=1, **more)


def test_columns_have_their_own_ids_and_types() -> None:
    made = iceberg_schema(schema([(f"c{place}", type_) for place, type_ in enumerate(KNOWN)]))
    assert [field["type"] for field in made["fields"]] == list(KNOWN.values())
    assert [field["id"] for field in made["fields"]] == list(range(len(KNOWN)))


def test_members_have_the_ids_of_the_files() -> None:
    made = iceberg_schema(schema([("a", "ARRAY<INT NOT NULL>"), ("m", "MAP<STRING, BIGINT>"), ("r", "ROW<x INT>")]))
    array, map_, row = (field["type"] for field in made["fields"])
    assert array == {"type": "list", "element-id": 536870912, "element-required": True, "element": "int"}
    assert (map_["key-id"], map_["value-id"]) == (536869886, 536871936)
    assert row["fields"][0]["type"] == "int"
    assert highest_id(made) == map_["value-id"]


@pytest.mark.parametrize(
    "type_", ["TIME(3)", "VARIANT", "MULTISET<INT>", "TIMESTAMP(3)", "TIMESTAMP(9)", "ARRAY<TIME(0)>", "ROW<t TIME(0)>"]
)
def test_other_types_are_refused_with_their_column(type_: str) -> None:
    with pytest.raises(ConfigError, match="Iceberg has no such type") as refused:
        check_usable(schema([("id", "INT"), ("c", type_)]))
    assert str(refused.value.facts["column"]).startswith("c")


@pytest.mark.parametrize(
    ("options", "keys", "message"),
    [
        ({"metadata.iceberg.storage": "hive-catalog"}, (), "needs metadata.iceberg.uri"),
        ({"metadata.iceberg.storage": "rest-catalog"}, (), "without the version v1"),
        ({"metadata.iceberg.hive-conf-dir": "/etc/hive"}, (), "is not supported"),
        ({"metadata.iceberg.rest.sigv4-enabled": "true"}, (), "is not supported"),
        ({"metadata.iceberg.format-version": "4"}, (), "set it to 3 or less"),
        ({"file.format": "orc"}, (), "needs Parquet files"),
        ({"file.format.per.level": "5:avro", "bucket": "1"}, ("id",), "needs Parquet files"),
        ({"deletion-vectors.enabled": "true"}, (), "deletion-vectors.bitmap64 = true"),
        ({"metadata.iceberg.manifest-compression": "lzo"}, (), "is not a codec"),
    ],
)
def test_tables_that_readers_would_misread_are_refused(
    options: dict[str, str], keys: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_usable(schema([("id", "INT")], options=options, primary_keys=keys))


def test_partitions_by_decimals_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be partitioned by a DECIMAL"):
        check_usable(schema([("id", "INT"), ("p", "DECIMAL(10, 2)")], partition_keys=["p"]))


def test_files_that_iceberg_does_not_show_may_have_another_format() -> None:
    check_usable(
        schema([("id", "INT")], options={"file.format.per.level": "0:avro", "bucket": "1"}, primary_keys=["id"])
    )


@pytest.mark.parametrize(
    ("old", "new", "follows"),
    [
        ("INT", "BIGINT", True),
        ("SMALLINT", "INT", True),
        ("FLOAT", "DOUBLE", True),
        ("DECIMAL(10, 2)", "DECIMAL(20, 2)", True),
        ("VARCHAR(3)", "STRING", True),
        ("INT", "STRING", False),
        ("BIGINT", "INT", False),
        ("INT", "DOUBLE", False),
        ("DECIMAL(10, 2)", "DECIMAL(20, 4)", False),
        ("VARCHAR(9)", "VARCHAR(3)", False),
        ("DATE", "TIMESTAMP(6)", False),
    ],
)
def test_a_column_changes_only_as_iceberg_follows(tmp_path: Path, old: str, new: str, follows: bool) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("db")
    for name, options in (("free", {}), ("bound", AT_TABLE)):
        catalog.create_table(f"db.{name}", [("id", "INT"), ("c", old)], options=options)
    change = [penstock.UpdateColumnType("c", new)]
    catalog.alter_table("db.free", change)
    if follows:
        catalog.alter_table("db.bound", change)
    else:
        with pytest.raises(ConfigError, match="Iceberg's readers cannot convert"):
            catalog.alter_table("db.bound", change)
