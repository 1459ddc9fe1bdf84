"""Tables written by Spark: one commit a query, through the table's own writers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import ConfigError
from penstock.table.buckets.input_rows import RowRefused
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from tests.integration.spark_tables.shop import add, error_message, orders
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants

pytestmark = pytest.mark.spark


def save(frame: DataFrame, table: Table, mode: str = "append", **options: str) -> None:
    named = {key.replace("_", "-"): value for key, value in options.items()}
    frame.write.format("penstock").mode(mode).options(**named).save(table.path)


def numbers(spark: SparkSession, count: int, q: str = "cast(id % 3 as int)", tasks: int = 3) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr("cast(id as int) id", "concat('n', id) name", f"{q} q")


def held(table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def expected(count: int) -> list[tuple[object, ...]]:
    return [(number, f"n{number}", number % 3) for number in range(count)]


def left_over(table: Table) -> list[Path]:
    return [path for path in Path(table.path).iterdir() if path.name.startswith("_")]


def test_tasks_write_files_of_append_tables_for_one_commit(registered: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("shop.log", [("id", "INT"), ("name", "STRING"), ("q", "INT")])
    save(numbers(registered, 300), table)
    assert held(table) == expected(300)
    assert len(table.snapshots) == 1
    assert table.scan().plan().files == 3
    save(numbers(registered, 2), table, "overwrite")
    assert held(table) == expected(2)
    assert left_over(table) == []
    check_invariants(table)


def test_keyed_rows_of_many_tasks_become_one_commit_ordered_by_task(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog)
    twice = numbers(registered, 100, "0").unionAll(numbers(registered, 100))
    save(twice, table)
    assert held(table) == expected(100)
    assert [snapshot.commit_kind for snapshot in table.snapshots] == ["APPEND"]
    assert left_over(table) == []
    check_invariants(table)


def test_overwrite_replaces_all_or_named_or_written_partitions(registered: SparkSession, catalog: Catalog) -> None:
    columns = [("id", "INT NOT NULL"), ("dt", "STRING NOT NULL")]
    table = catalog.create_table("shop.days", columns, ["id", "dt"], ["dt"], {"bucket": "1"})

    def put(rows: list[tuple[int, str]], **options: str) -> list[tuple[object, ...]]:
        save(registered.createDataFrame(rows, "id int, dt string").coalesce(1), table, "overwrite", **options)
        return held(table)

    assert put([(1, "a"), (2, "b"), (3, "c")]) == [(1, "a"), (2, "b"), (3, "c")]
    assert put([(9, "a")], overwrite_partition="dt=a") == [(2, "b"), (3, "c"), (9, "a")]
    assert put([(8, "b")], partitionOverwriteMode="dynamic") == [(3, "c"), (8, "b"), (9, "a")]
    assert put([(7, "z")]) == [(7, "z")]


def test_row_kinds_are_read_from_their_column(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1), (2, "b", 1))
    changes = registered.sql("select '-D' rowkind, 1 id, 'a' name, 1 q union all select '+U', 2, 'c', 2")
    save(changes, table, rowkind="true")
    assert held(table) == [(2, "c", 2)]


@pytest.mark.parametrize("keys", [["id"], []])
def test_a_write_with_an_identifier_is_committed_once(
    registered: SparkSession, catalog: Catalog, keys: list[str]
) -> None:
    table = catalog.create_table("shop.once", [("id", "INT NOT NULL"), ("q", "INT")], keys)
    for _ in range(2):
        save(registered.sql("select 1 id, 2 q"), table, commit_user="etl", commit_identifier="7")
    assert held(table) == [(1, 2)]
    assert len(table.snapshots) == 1


@pytest.mark.parametrize("keys", [["id"], []])
def test_refused_rows_leave_no_files(registered: SparkSession, catalog: Catalog, keys: list[str]) -> None:
    """One task: Spark does not wait for other tasks when it aborts a write, and their files appear after that."""
    table = catalog.create_table("shop.strict", [("id", "INT NOT NULL"), ("q", "INT NOT NULL")], keys)
    refuse(registered, table, tasks=1)
    assert list(Path(table.path).rglob("*.parquet")) == []
    assert left_over(table) == []


@pytest.mark.parametrize("keys", [["id"], []])
def test_rows_of_tasks_beside_a_refused_one_are_never_visible(
    registered: SparkSession, catalog: Catalog, keys: list[str]
) -> None:
    table = catalog.create_table("shop.strict_tasks", [("id", "INT NOT NULL"), ("q", "INT NOT NULL")], keys)
    refuse(registered, table, tasks=4)
    save(registered.sql("select cast(7 as int) id, 1 q"), table)
    assert held(table) == [(7, 1)]
    check_invariants(table)


def refuse(spark: SparkSession, table: Table, tasks: int) -> None:
    bad = spark.range(0, 100, 1, tasks).selectExpr("cast(id as int) id", "if(id = 99, null, 1) q")
    with pytest.raises(PySparkException) as caught:
        save(bad, table)
    assert "Cannot write null to non-null column(q)" in error_message(caught.value, RowRefused)
    assert table.snapshots == []


def test_a_stream_without_a_user_commits_under_its_checkpoint(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    source, sink = orders(catalog), catalog.create_table("shop.log", [("id", "INT"), ("name", "STRING"), ("q", "INT")])
    add(source, (1, "a", 1))
    for checkpoint in ("one", "one", "two"):
        stream = registered.readStream.format("penstock").load(source.path).writeStream.format("penstock")
        query = stream.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        query.start(sink.path).awaitTermination()
    assert held(sink) == [(1, "a", 1)] * 2
    first, second = sink.snapshots
    assert first.commit_user.startswith("spark-")
    assert first.commit_user != second.commit_user


def test_column_names_are_case_insensitive(registered: SparkSession, catalog: Catalog) -> None:
    columns = [("id", "INT NOT NULL"), ("Name", "STRING"), ("q", "INT"), ("Q", "INT")]
    table = catalog.create_table("shop.letters", columns, ["id"])
    save(registered.sql("select 1 ID, 'a' NAME, 3 Q, 2 q"), table)
    assert held(table) == [(1, "a", 2, 3)]
    with pytest.raises(PySparkException) as caught:
        save(registered.sql("select 1 ID, 'a' NAMES"), table)
    assert "NAMES" in error_message(caught.value, RowRefused)


def test_sql_reads_and_writes_a_table_by_name(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    registered.sql(f"CREATE TABLE by_name USING penstock LOCATION '{table.path}'")
    try:
        registered.sql("INSERT INTO by_name SELECT 2, 'b', 2")
        registered.sql("INSERT INTO by_name (q, id) VALUES (3, 3)")
        rows = registered.sql("SELECT q, id FROM by_name WHERE id > 1 ORDER BY id").collect()
        assert rows == [(2, 2), (3, 3)]
        assert [row.col_name for row in registered.sql("DESCRIBE by_name").collect()][:3] == ["id", "name", "q"]
        registered.sql("INSERT OVERWRITE by_name SELECT 9, 'z', 9")
        assert held(table) == [(9, "z", 9)]
        names = [field.metadata for field in registered.read.format("penstock").load(table.path).schema.fields]
        assert names == [{}, {}, {}]
    finally:
        registered.sql("DROP TABLE by_name")
    assert held(table) == [(9, "z", 9)]


def test_sql_never_writes_into_a_table_that_a_statement_reads(registered: SparkSession, catalog: Catalog) -> None:
    columns = [("id", "INT NOT NULL"), ("name", "STRING"), ("q", "INT")]
    source, target = orders(catalog), catalog.create_table("shop.target", columns, ["id"])
    add(source, (1, "a", 1))
    for name, table in (("source", source), ("target", target)):
        registered.sql(f"CREATE TABLE {name} USING penstock LOCATION '{table.path}'")
    registered.sql(f"CREATE TEMPORARY VIEW into_target USING penstock OPTIONS (path '{target.path}')")
    registered.sql("CREATE VIEW of_source AS SELECT * FROM source")
    try:
        for statement in (
            "INSERT INTO target SELECT * FROM source",
            "INSERT INTO target SELECT * FROM of_source",
            "INSERT INTO source SELECT * FROM source",
            "INSERT OVERWRITE target SELECT * FROM source WHERE id > 1",
            "INSERT INTO target (id, name, q) VALUES (1, 'a', 1)",
        ):
            with pytest.raises(PySparkException) as caught:
                registered.sql(statement)
            assert "CREATE TEMPORARY VIEW" in error_message(caught.value, ConfigError), statement
        with pytest.raises(PySparkException, match=r"spark_catalog\.default\.copied was not created"):
            registered.sql(f"CREATE TABLE copied USING penstock LOCATION '{target.path}2' AS SELECT * FROM source")
        assert (held(source), held(target)) == ([(1, "a", 1)], [])
        registered.sql("INSERT INTO target SELECT id AS i, name, q FROM source")
        registered.sql("INSERT INTO target SELECT max(id) id, 'a' name, 1 q FROM source GROUP BY name")
        assert held(target) == [(1, "a", 1)]
        registered.sql("INSERT INTO into_target (id, name, q) VALUES (2, 'b', 2)")
        registered.sql("INSERT INTO into_target SELECT id + 2 AS id, name, q FROM source")
        assert held(target) == [(1, "a", 1), (2, "b", 2), (3, "a", 1)]
        assert held(source) == [(1, "a", 1)]
        with pytest.raises(PySparkException, match=r"spark_catalog\.default\.source was not changed"):
            registered.sql("ALTER TABLE source ADD COLUMN n INT")
    finally:
        registered.sql("DROP VIEW of_source")
        registered.catalog.dropTempView("into_target")
        for name in ("source", "target"):
            registered.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("streamed", ["append", "keyed"])
def test_streams_write_each_batch_once(
    registered: SparkSession, catalog: Catalog, tmp_path: Path, streamed: str
) -> None:
    source = orders(catalog)
    add(source, (1, "a", 1))
    keys = ["id"] if streamed == "keyed" else []
    sink = catalog.create_table("shop.copy", [("id", "INT NOT NULL"), ("name", "STRING"), ("q", "INT")], keys)
    for name in "bc":
        stream = registered.readStream.format("penstock").load(source.path)
        query = stream.writeStream.format("penstock").option("commit-user", "copy")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start(sink.path).awaitTermination()
        add(source, (2, name, 2))
    assert held(sink) == [(1, "a", 1), (2, "b", 2)]
    assert [snapshot.commit_identifier for snapshot in sink.snapshots] == [0, 1]
    assert not list(Path(sink.path).rglob("_penstock*"))


@pytest.mark.java
def test_java_reads_what_spark_wrote(registered: SparkSession, catalog: Catalog, oracle: Oracle) -> None:
    keyed, plain = orders(catalog), catalog.create_table("shop.log", [("id", "INT"), ("name", "STRING"), ("q", "INT")])
    for table in (keyed, plain):
        save(numbers(registered, 50), table)
        save(numbers(registered, 60), table)
        check_invariants(table, oracle=oracle)
        assert len(oracle.read(Path(table.path)).rows) == table.scan().to_arrow().num_rows


def test_spark_refuses_partition_by_with_a_path(registered: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("shop.by_day", [("id", "INT"), ("dt", "STRING")], partition_keys=["dt"])
    frame = registered.createDataFrame([(1, "mon")], "id int, dt string")
    with pytest.raises(PySparkException, match="provided partitioning or clustering columns do not match"):
        frame.write.format("penstock").mode("append").partitionBy("dt").save(table.path)
    save(frame, table)
    assert held(table) == [(1, "mon")]
