"""The answers to the catalog's questions, without Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from penstock.pipelines.spark_catalog.answers import answer
from penstock.pipelines.spark_catalog.catalog_jar import joined_source
from penstock.pipelines.spark_catalog.source import CatalogDataSource
from penstock.pipelines.spark_source.table_place import CatalogTable, TablePlace
from penstock.pipelines.spark_source.table_read import TableRead
from penstock.table.catalog.catalog import Catalog
from penstock.table.errors import SnapshotMissing

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING"), ("d", "DATE")]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(str(tmp_path / "warehouse"), {"local.sync": "false"})
    made.create_database("shop")
    return made


def asked(catalog: Catalog, verb: str, /, **arguments: Any) -> Any:
    options = {"warehouse": catalog.warehouse, "local.sync": "false"}
    return json.loads(answer(json.dumps({"verb": verb, "options": options, **arguments})))


def of(catalog: Catalog, verb: str, /, **arguments: Any) -> Any:
    found = asked(catalog, verb, **arguments)
    assert "error" not in found, found
    return found["value"]


def described(catalog: Catalog, table: str, database: str = "shop", **given: Any) -> Any:
    """The description of a table as Spark asks for it; `given` has the options of the read and of the session."""
    return of(
        catalog,
        "describe",
        **{"database": database, "table": table, "read": {}, "session": {}, "catalog": "lake", **given},
    )


def test_a_request_of_the_jar_of_another_release_is_named(catalog: Catalog) -> None:
    """Such a jar sends no "changes" for ALTER DATABASE."""
    of_release = {"jar": "0123456789abcdef", "database": "shop"}
    for request in ({"database": "shop"}, of_release):
        refused = asked(catalog, "alter_database", **request)["error"]
        assert "the jar of the catalog is of another release" in refused
        assert "KeyError: 'changes'" in refused
    digest = re.findall(r'DIGEST = "(\w+)"', joined_source())[0]
    with pytest.raises(KeyError, match="changes"):
        asked(catalog, "alter_database", **of_release | {"jar": digest})


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("create_database", {"properties": {}}),
        ("describe", {"table": "t", "read": {}, "session": {}, "catalog": "lake"}),
        ("drop_table", {"table": "t"}),
    ],
)
def test_a_name_of_three_parts_is_no_table_of_the_database(catalog: Catalog, verb: str, given: dict[str, Any]) -> None:
    catalog.create_table("shop.zz.t", COLUMNS, ["id"], options={"bucket": "1"})  # in Spark lake.shop.`zz.t`
    refused = asked(catalog, verb, database="shop.zz", **given)
    assert "shop.zz" in refused["error"]
    assert (catalog.databases(), catalog.tables("shop")) == (["shop"], ["zz.t"])


def test_databases(catalog: Catalog) -> None:
    of(catalog, "create_database", database="other", properties={"owner": "me"})
    assert of(catalog, "databases") == ["other", "shop"]
    assert of(catalog, "database", database="shop") == {}
    assert of(catalog, "database", database="none") is None
    of(catalog, "drop_database", database="other", cascade=False)
    assert catalog.databases() == ["shop"]


def test_a_description_has_what_a_plan_needs(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", COLUMNS, ["id"], options={"bucket": "1"}, comment="c")
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"], "d": pa.nulls(2, pa.date32())}))
        writer.commit()
    found = described(catalog, "t")
    assert (found["kind"], found["keys"], found["partitions"], found["rows"]) == ("keyed", ["id"], [], 2)
    shown = {"bucket": "1", "primary-key": "id", "provider": "penstock", "comment": "c"}
    assert found["properties"] == {**shown, "location": table.path, "is_managed_location": "true"}
    assert (found["read"]["path"], found["read"]["planned-snapshot"]) == (table.path, "1")
    named = CatalogTable.of(found["read"]["catalog-table"])
    assert (named.name, named.store(None).paths.root) == ("shop.t", table.path)
    names = [field["name"] for field in json.loads(found["schema"])["fields"]]
    assert names == ["id", "v", "d"]
    travelled = described(catalog, "t", read={"scan.version": "1"})
    assert "planned-snapshot" not in travelled["read"]
    changes = described(catalog, "t", read={"incremental-between": "0,1"})
    assert json.loads(changes["schema"])["fields"][0]["name"] == "rowkind"


def test_a_planned_snapshot_is_read_by_queries_and_not_by_streams(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", COLUMNS, options={"snapshot.num-retained.min": "1"})
    for number in (1, 2):
        with table.writer() as writer:
            writer.write(pa.table({"id": pa.array([number], pa.int32()), "v": ["a"], "d": pa.nulls(1, pa.date32())}))
            writer.commit()
    read = described(catalog, "t")["read"] | {"planned-snapshot": "1"}
    planned = TableRead.of(TablePlace.of(read))
    [piece] = planned.pieces()
    assert sum(batch.num_rows for batch in planned.batches(piece)) == 1
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(SnapshotMissing, match="snapshot 1, which the statement reads, has expired"):
        planned.pieces()
    [later] = TableRead.of(TablePlace.of({**read, "planned-snapshot": "2"})).pieces()
    assert sum(batch.num_rows for batch in planned.batches(later)) == 2


def test_what_does_not_exist_is_null(catalog: Catalog) -> None:
    catalog.create_table("shop.t", COLUMNS)
    assert described(catalog, "none") is None
    assert described(catalog, "t", database="none") is None
    assert described(catalog, "t$branch_none") is None
    assert of(catalog, "drop_table", database="shop", table="none") is False


def test_system_tables_are_only_read(catalog: Catalog) -> None:
    catalog.create_table("shop.t", COLUMNS)
    assert described(catalog, "t$snapshots")["kind"] == "system"
    assert "system table" in asked(catalog, "truncate", database="shop", table="t$snapshots")["error"]


def test_an_error_is_its_message_and_its_hint(catalog: Catalog) -> None:
    error = asked(catalog, "procedure", database="sys", table="compakt")["error"]
    assert error == "there is no procedure 'compakt'\n  to repair: did you mean compact?"
    assert "has no warehouse" in json.loads(answer(json.dumps({"verb": "databases", "options": {}})))["error"]


def filtered(kind: str, column: str, value: object = None) -> dict[str, object]:
    return {"kind": kind, "column": column, "value": value}


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (filtered("EqualTo", "id", "1"), [2, 3]),
        (filtered("EqualTo", "d", "20484"), [2, 3]),
        (filtered("IsNull", "v"), [1, 2]),
        ({"kind": "Not", "child": filtered("EqualNullSafe", "v", "a")}, [1]),
        ({"kind": "Not", "child": filtered("EqualTo", "v", "a")}, [1, 3]),
        ({"kind": "Not", "child": {"kind": "In", "column": "v", "values": ["a", "z"]}}, [1, 3]),
        ({"kind": "Or", "left": filtered("EqualTo", "id", "1"), "right": filtered("GreaterThan", "id", "2")}, [2]),
        ({"kind": "AlwaysTrue"}, []),
    ],
)
def test_deletes_from_tables_without_a_key(catalog: Catalog, condition: dict[str, object], left: list[int]) -> None:
    table = catalog.create_table("shop.t", COLUMNS)
    dates = pa.array(["2026-01-31", "2026-02-01", None]).cast(pa.date32())
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", None], "d": dates}))
        writer.commit()
    assert of(catalog, "can_delete", database="shop", table="t", filters=[condition]) is True
    of(catalog, "delete", database="shop", table="t", filters=[condition])
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == left


@pytest.mark.parametrize("value", [None, filtered("StringContains", "v", "a"), filtered("EqualTo", "none", "1")])
def test_conditions_that_cannot_be_evaluated(catalog: Catalog, value: dict[str, object] | None) -> None:
    catalog.create_table("shop.t", COLUMNS)
    condition = value or filtered("EqualTo", "id", None)
    assert of(catalog, "can_delete", database="shop", table="t", filters=[condition]) is False
    assert "INSERT OVERWRITE" in asked(catalog, "delete", database="shop", table="t", filters=[condition])["error"]


def test_a_column_that_looks_like_an_old_value_is_refused(catalog: Catalog) -> None:
    catalog.create_table("shop.t", [("id", "INT NOT NULL"), ("_old_id", "INT")], ["id"])
    error = asked(catalog, "check_row_changes", database="shop", table="t", command="MERGE")["error"]
    assert "rename the column" in error


def test_an_update_that_sets_a_key_is_refused(catalog: Catalog) -> None:
    catalog.create_table("shop.t", COLUMNS, ["id"])
    where = {"database": "shop", "table": "t", "command": "UPDATE"}
    assert "error" not in asked(catalog, "check_row_changes", **where)
    error = asked(catalog, "check_row_changes", **where, sets="id")["error"]
    assert "'id' is a part of the key and cannot be changed" in error


def altered(catalog: Catalog, *changes: dict[str, Any], by_statement: bool = False) -> dict[str, Any]:
    where = {"database": "shop", "table": "t", "by_statement": by_statement}
    return dict(asked(catalog, "alter_table", **where, changes=changes))


def test_notes_of_declarative_pipelines_are_stored(catalog: Catalog) -> None:
    field = {"name": "id", "type": "integer", "nullable": True, "metadata": {}}
    of(
        catalog,
        "create_table",
        database="shop",
        table="t",
        schema=json.dumps({"type": "struct", "fields": [field]}),
        properties={"pipelines.autocdc.scdType": "SCD1"},
        keys=[],
        partitions=[],
    )
    assert catalog.table("shop.t").options["pipelines.autocdc.scdType"] == "SCD1"


def test_a_target_that_is_declared_again_keeps_its_key(catalog: Catalog) -> None:
    catalog.create_table("shop.t", COLUMNS, ["id"], options={"bucket": "1"})
    nullable = {"kind": "UpdateColumnNullability", "name": ["id"], "nullable": True}
    declared = [
        {"kind": "SetProperty", "key": "primary-key", "value": "id"},
        {"kind": "SetProperty", "key": "bucket", "value": "1"},
        nullable,
        {"kind": "AddColumn", "name": ["more"], "type": '"string"', "nullable": True, "comment": None},
    ]
    assert "error" not in altered(catalog, *declared)
    table = catalog.table("shop.t")
    assert (list(table.primary_keys), table.definition.fields[-1].name) == (["id"], "more")
    assert not table.definition.fields[0].type.nullable
    # Another key is another table, and DROP NOT NULL of a key column is refused in a statement.
    assert "error" in altered(catalog, {"kind": "SetProperty", "key": "primary-key", "value": "v"}, nullable)
    assert "cannot be made nullable" in altered(catalog, nullable, by_statement=True)["error"]


@pytest.mark.parametrize("column", ["v", "__spark_autocdc_metadata"], ids=["table", "target of an AUTO CDC flow"])
def test_a_table_of_a_declarative_pipeline_keeps_its_key(catalog: Catalog, column: str) -> None:
    # Spark 4.3 leaves out the properties that the table has: only the columns are declared again, as nullable.
    catalog.create_table("shop.t", [("id", "INT NOT NULL"), (column, "STRING")], ["id"], options={"bucket": "1"})
    nullable = {"kind": "UpdateColumnNullability", "name": ["id"], "nullable": True}
    assert "error" not in altered(catalog, nullable)
    assert catalog.table("shop.t").definition.id == 0, "nothing has changed"
    assert "error" not in altered(catalog, nullable, {"kind": "SetProperty", "key": "pipelines.note", "value": "x"})
    table = catalog.table("shop.t")
    assert not table.definition.fields[0].type.nullable
    assert table.options["pipelines.note"] == "x"
    assert "cannot be made nullable" in altered(catalog, nullable, by_statement=True)["error"]


def test_tables_of_sys_describe_the_catalog(catalog: Catalog) -> None:
    catalog.create_table("shop.t", COLUMNS, ["id"], options={"bucket": "3"})
    assert of(catalog, "tables", database="sys") == ["all_table_options", "catalog_options", "partitions", "tables"]
    assert of(catalog, "database", database="sys") == {}
    assert of(catalog, "databases") == ["shop"]
    assert of(catalog, "table_exists", database="sys", table="catalog_options")
    assert not of(catalog, "table_exists", database="sys", table="other")
    assert described(catalog, "other", "sys") is None
    found = described(catalog, "all_table_options", "sys")
    assert (found["kind"], found["rows"]) == ("system", None)
    names = ["database_name", "table_name", "key", "value"]
    assert [field["name"] for field in json.loads(found["schema"])["fields"]] == names
    # Spark reads the columns that a query needs.
    schema = StructType([StructField("value", StringType()), StructField("key", StringType())])
    reader = CatalogDataSource(found["read"]).reader(schema)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert rows == [{"value": "3", "key": "bucket"}]


def test_options_of_the_session_are_checked_also_for_a_table_that_is_written(catalog: Catalog) -> None:
    catalog.create_table("shop.t", COLUMNS, ["id"])
    older = {"spark.paimon.scan.mode": "latest-full"}
    assert described(catalog, "t", session=older)["read"]["scan.mode"] == "latest-full"
    assert "scan.mode" not in described(catalog, "t", session=older, newest=True)["read"]
    place = {"database": "shop", "table": "t", "read": {}, "catalog": "lake", "newest": True}
    refused = asked(catalog, "describe", **place, session={"spark.paimon.write-buffer-size": "1 mb"})["error"]
    assert "INSERT INTO t WITH" in refused
    refused = asked(catalog, "describe", **place, session={"spark.paimon.*.*.t.write.merge-schema": "true"})["error"]
    assert "INSERT WITH SCHEMA EVOLUTION INTO t" in refused


def test_the_newest_partition_is_found_by_the_name_that_a_query_has(catalog: Catalog) -> None:
    catalog.create_table("shop.t", COLUMNS, ["id"])
    refused = asked(catalog, "newest_partition", database="shop", table="t")["error"]
    assert refused == asked(catalog, "newest_partition", database="other", table="`lake`.shop.`t`")["error"]
    assert "needs a table with partitions" in refused
