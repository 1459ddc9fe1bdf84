"""INSERT, UPDATE, DELETE, MERGE, time travel, procedures and streams by names in Spark SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit

import penstock
from penstock.table.catalog.catalog import Catalog
from penstock.table.values.hashing import bucket_rows
from penstock.table.values.types import parse_type
from tests.golden.relations import difference
from tests.integration.spark_catalog.statements import fresh, refusal, rows
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def changes(catalog: Catalog, name: str) -> list[tuple[object, ...]]:
    """The rows of the newest snapshot, with their kinds."""
    table = catalog.table(name)
    latest = table.latest_snapshot
    assert latest is not None
    found = table.changes(latest.id - 1, latest.id).to_pylist()
    return sorted((row["rowkind"], row["id"], row["status"]) for row in found)


def test_insert_by_columns_and_by_name(spark: SparkSession) -> None:
    fresh(spark, "inserted")
    spark.sql("INSERT INTO inserted (dt, id) VALUES ('x', 1)")
    spark.sql("INSERT INTO inserted BY NAME SELECT 'y' dt, 2 id, 3.5 amount")
    spark.sql("INSERT INTO inserted PARTITION (dt = 'z') SELECT 3, 'paid', 1")
    expected = [(1, "new", None, "x"), (2, "new", 3.5, "y"), (3, "paid", 1.0, "z")]
    assert rows(spark, "SELECT * FROM inserted") == expected
    assert "NOT_ENOUGH_DATA_COLUMNS" in refusal(spark, "INSERT INTO inserted SELECT 1, 'x'")


def test_overwrite_static_and_dynamic(spark: SparkSession) -> None:
    fresh(spark, "over", "(1, 'a', 1, 'x')", "(2, 'b', 2, 'y')")
    spark.sql("INSERT OVERWRITE over PARTITION (dt = 'x') SELECT 3, 'c', 3")
    assert rows(spark, "SELECT id FROM over") == [(2,), (3,)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql("INSERT OVERWRITE over SELECT 4, 'd', 4, 'y'")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(spark, "SELECT id FROM over") == [(3,), (4,)]
    spark.sql("INSERT OVERWRITE over SELECT * FROM over WHERE id = 4")
    assert rows(spark, "SELECT id FROM over") == [(4,)]


def test_rows_are_replaced_by_the_values_of_partitions(spark: SparkSession) -> None:
    fresh(spark, "replaced_rows", "(1, 'a', 1, 'x')", "(2, 'b', 2, 'y')")
    spark.sql("INSERT INTO replaced_rows REPLACE WHERE DT = 'x' SELECT 3, 'c', 3, 'x'")
    assert rows(spark, "SELECT id FROM replaced_rows") == [(2,), (3,)]
    other = (
        "amount > 1",
        "status = 'b'",
        "dt IN ('x', 'y')",
        "dt = 'x' AND DT = 'y'",
        "dt = 'x' OR dt = 'y'",
        "dt > 'x'",
        "upper(dt) = 'X'",
        "dt = NULL",
        "dt = 'x' AND upper(dt) = 'X'",
    )
    for condition in other:
        told = refusal(spark, f"INSERT INTO replaced_rows REPLACE WHERE {condition} SELECT 4, 'd', 4, 'y'")
        assert "or DELETE the rows and then INSERT" in told
    with pytest.raises(PySparkException, match="or DELETE the rows and then INSERT"):
        spark.table("replaced_rows").writeTo("replaced_rows").overwrite(col("amount") > 1)
    assert rows(spark, "SELECT id FROM replaced_rows") == [(2,), (3,)]


def test_merge_with_every_clause(spark: SparkSession, catalog: Catalog, oracle: Oracle) -> None:
    fresh(spark, "merged", "(1, 'new', 1, 'a')", "(2, 'new', 2, 'a')", "(3, 'new', 3, 'b')", "(4, 'new', 4, 'c')")
    spark.sql(
        """MERGE INTO merged t
        USING (SELECT * FROM VALUES (1, 'paid', false), (2, '?', true), (9, 'late', false) AS v(id, status, gone)) s
        ON t.id = s.id
        WHEN MATCHED AND s.gone THEN DELETE
        WHEN MATCHED THEN UPDATE SET status = s.status, amount = t.amount + 1
        WHEN NOT MATCHED THEN INSERT (id, status, amount, dt) VALUES (s.id, s.status, 0, 'a')
        WHEN NOT MATCHED BY SOURCE AND t.dt = 'b' THEN UPDATE SET status = 'stale'
        WHEN NOT MATCHED BY SOURCE AND t.dt = 'c' THEN DELETE"""
    )
    assert rows(spark, "SELECT * FROM merged") == [(1, "paid", 2.0, "a"), (3, "stale", 3.0, "b"), (9, "late", 0.0, "a")]
    # Old rows have their old values, so that downstream sums stay right.
    assert changes(catalog, "shop.merged") == [
        ("+I", 9, "late"),
        ("+U", 1, "paid"),
        ("+U", 3, "stale"),
        ("-D", 2, "new"),
        ("-D", 4, "new"),
        ("-U", 1, "new"),
        ("-U", 3, "new"),
    ]
    table = catalog.table("shop.merged")
    assert difference(oracle.read(Path(table.path)), table.scan().to_arrow()) is None


def test_two_source_rows_for_one_row_are_refused(spark: SparkSession) -> None:
    fresh(spark, "twice", "(1, 'new', 1, 'a')")
    said = refusal(
        spark,
        "MERGE INTO twice t USING (SELECT 1 id, 'x' s UNION ALL SELECT 1, 'y') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET status = s.s",
    )
    assert "MERGE_CARDINALITY_VIOLATION" in said
    assert rows(spark, "SELECT status FROM twice") == [("new",)]


def test_update_and_delete(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "changed", "(1, 'new', 1, 'a')", "(2, 'new', 2, 'a')", "(3, 'new', 3, 'b')")
    spark.sql("UPDATE changed SET status = 'paid', amount = amount * 2 WHERE id < 3")
    assert changes(catalog, "shop.changed")[:2] == [("+U", 1, "paid"), ("+U", 2, "paid")]
    spark.sql("DELETE FROM changed WHERE id IN (SELECT id FROM changed WHERE amount > 2.5)")
    assert rows(spark, "SELECT id, status, amount FROM changed") == [(1, "paid", 2.0)]
    assert changes(catalog, "shop.changed") == [("-D", 2, "paid"), ("-D", 3, "new")]
    assert "part of the key" in refusal(spark, "UPDATE changed SET id = 7")
    before = catalog.table("shop.changed").latest_snapshot
    spark.sql("UPDATE changed SET status = 'x' WHERE id = 99")
    assert rows(spark, "SELECT status FROM changed") == [("paid",)]
    assert before is not None
    spark.sql("DELETE FROM changed")
    assert rows(spark, "SELECT count(*) FROM changed") == [(0,)]


@pytest.mark.parametrize("values", [(), ("(1, 'new', 1, 'a')",)], ids=["empty", "one row"])
def test_setting_a_key_is_refused_with_and_without_rows(spark: SparkSession, values: tuple[str, ...]) -> None:
    fresh(spark, "keyed", *values)
    for change in ("id = 7", "status = 'x', ID = id + 1", "dt = 'b' WHERE false"):
        said = refusal(spark, f"UPDATE keyed SET {change}")
        assert "is a part of the key and cannot be changed" in said
        assert "DELETE the row, and INSERT it with the new key" in said
    spark.sql("UPDATE keyed SET status = 'same key'")
    assert rows(spark, "SELECT id, status FROM keyed") == [(1, "same key")] * len(values)


def test_merge_may_set_the_key_that_it_finds(spark: SparkSession) -> None:
    fresh(spark, "found", "(1, 'new', 1, 'a')")
    merge = (
        "MERGE INTO found t USING (SELECT {} id, 'x' status, 2 amount, 'a' dt) s ON t.{} WHEN MATCHED THEN UPDATE SET *"
    )
    spark.sql(merge.format(1, "id = s.id"))
    assert rows(spark, "SELECT id, status FROM found") == [(1, "x")]
    assert "'id' is a part of the key" in refusal(spark, merge.format(2, "dt = s.dt"))


def test_many_changed_rows_pass_through_the_queue_of_the_writer(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE many (id BIGINT, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '2')")
    spark.sql("INSERT INTO many SELECT id, repeat('x', 50) FROM range(20000)")
    spark.sql("UPDATE many SET v = concat('new ', id) WHERE id % 2 = 0")
    assert rows(spark, "SELECT count(*), sum(if(v = concat('new ', id), 1, 0)) FROM many") == [(20000, 10000)]
    assert catalog.table("shop.many").count() == 20000


def test_the_buckets_of_rows_are_those_that_spark_computes(spark: SparkSession) -> None:
    def value(number: int) -> tuple[object, ...]:
        text, day = "\u00e9" * (number % 9), dt.date(1960 + number, 1, 1)
        return (number % 2 == 0, -number, number * -300, number - 50, number << 40, day, Decimal(number * 7 - 90), text)

    columns = "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f DATE, g DECIMAL(18, 0), h STRING, i BINARY"
    values = [(*value(number), bytes(number % 20)) for number in range(90)]
    frame = spark.createDataFrame([*values, (None,) * 9], columns)
    types = [parse_type(text.split(" ", 1)[1]) for text in columns.replace("18, 0", "18,0").split(", ")]
    given = frame.toArrow()
    for names in (*((name,) for name in "abcdefghi"), "abcdefghi", "he"):
        found = frame.select(expr(f"lake.penstock_bucket(97, {', '.join(names)})")).toArrow()
        places = ["abcdefghi".index(name) for name in names]
        expected = bucket_rows([given.column(name) for name in names], [types[place] for place in places], 97)
        assert found.column(0).to_pylist() == expected.tolist(), names


def test_changes_of_keys_are_written_by_several_tasks(spark: SparkSession, catalog: Catalog, oracle: Oracle) -> None:
    spark.sql("CREATE TABLE spread (id BIGINT, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '8')")
    spark.sql("INSERT INTO spread SELECT id, 'old' FROM range(200)")
    spark.sql(
        """MERGE INTO spread t USING (SELECT id FROM range(100, 300)) s ON t.id = s.id
        WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'new'
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'added')"""
    )
    expected = dict.fromkeys(range(100), "old") | dict.fromkeys(range(101, 200, 2), "new")
    expected |= dict.fromkeys(range(200, 300), "added")
    table = catalog.table("shop.spread")
    assert {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()} == expected
    latest = table.latest_snapshot
    assert latest is not None
    assert latest.id == 2
    assert difference(oracle.read(Path(table.path)), table.scan().to_arrow()) is None
    [[plan]] = rows(spark, "EXPLAIN UPDATE spread SET v = 'x'")
    assert "Exchange hashpartitioning(applyfunctionexpression(" in plan
    tasks = spark.range(200).repartition(2, expr("lake.penstock_bucket(8, id)")).selectExpr("spark_partition_id()")
    assert tasks.distinct().count() == 2


def test_tables_without_a_key(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE log (id INT, status STRING, d DATE)")
    spark.sql("INSERT INTO log VALUES (1, 'a', DATE '2026-01-31'), (2, null, DATE '2026-02-01'), (3, 'c', null)")
    spark.sql("DELETE FROM log WHERE d = DATE '2026-01-31' AND id IN (1, 7)")
    assert rows(spark, "SELECT id FROM log") == [(2,), (3,)]
    spark.sql("DELETE FROM log WHERE status NOT IN ('a', 'b')")  # null is not deleted
    assert rows(spark, "SELECT id FROM log") == [(2,)]
    spark.sql("DELETE FROM log WHERE id IN (SELECT id FROM log WHERE id > 1)")
    assert rows(spark, "SELECT count(*) FROM log") == [(0,)]
    spark.sql("INSERT INTO log VALUES (1, 'a', null)")
    spark.sql("DELETE FROM log")
    assert rows(spark, "SELECT count(*) FROM log") == [(0,)]


@pytest.mark.parametrize("options", ["", "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')"])
def test_rows_without_a_key_are_changed(spark: SparkSession, catalog: Catalog, oracle: Oracle, options: str) -> None:
    spark.sql("DROP TABLE IF EXISTS events")
    spark.sql(f"CREATE TABLE events (id INT, v STRING, p STRING) PARTITIONED BY (p) {options}")
    spark.sql("INSERT INTO events VALUES (1, 'a', 'x'), (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', null)")
    spark.sql("DELETE FROM events WHERE id = 3")
    spark.sql("UPDATE events SET v = concat(v, '!'), p = 'y' WHERE v = 'a'")
    assert rows(spark, "SELECT * FROM events") == [(1, "a!", "y"), (1, "a!", "y"), (2, "b", "x")]
    spark.sql(
        """MERGE INTO events t USING (SELECT * FROM VALUES (1, 'z'), (9, 'n') AS v(id, v)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)
        WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    )
    expected = [(1, "z", "y"), (1, "z", "y"), (9, "n", None)]
    assert rows(spark, "SELECT * FROM events") == expected
    table = catalog.table("shop.events")
    assert difference(oracle.read(Path(table.path)), table.scan().to_arrow()) is None
    assert "MERGE_CARDINALITY_VIOLATION" in refusal(
        spark,
        "MERGE INTO events t USING (SELECT 9 id UNION ALL SELECT 9) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = ''",
    )
    assert rows(spark, "SELECT * FROM events") == expected


def files_of(spark: SparkSession, name: str) -> set[str]:
    return {path.rpartition("/")[2] for (path,) in rows(spark, f"SELECT file_path FROM `{name}$files`")}


@pytest.mark.parametrize("options", ["'bucket' = '2', 'bucket-key' = 'id'", "'row-tracking.enabled' = 'true'"])
def test_rows_that_cannot_be_changed_are_deleted_by_comparisons(
    spark: SparkSession, catalog: Catalog, options: str
) -> None:
    spark.sql("DROP TABLE IF EXISTS fixed")
    spark.sql(f"CREATE TABLE fixed (id INT, v INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ({options})")
    spark.sql("INSERT INTO fixed VALUES (1, 1, 'a'), (2, 2, 'a'), (3, 3, 'b'), (4, 4, 'b')")
    spark.sql("DELETE FROM fixed WHERE id = 1")
    spark.sql("DELETE FROM fixed WHERE v > 3 AND dt = 'b'")
    assert rows(spark, "SELECT id FROM fixed") == [(2,), (3,)]
    for statement in (
        "DELETE FROM fixed WHERE id % 2 = 1",
        "DELETE FROM fixed WHERE id IN (SELECT 3)",
        "UPDATE fixed SET v = 0",
        "MERGE INTO fixed t USING (SELECT 3 id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        assert f"{statement.split()[0]} is not possible in Spark" in refusal(spark, statement)
    assert rows(spark, "SELECT id FROM fixed") == [(2,), (3,)]
    check_invariants(catalog.table("shop.fixed"))


def test_only_files_with_changed_rows_are_replaced(spark: SparkSession, catalog: Catalog, oracle: Oracle) -> None:
    spark.sql("CREATE TABLE parted (id INT, v STRING)")
    for number in range(3):
        spark.sql(
            f"INSERT INTO parted SELECT /*+ COALESCE(1) */ id, 'old' FROM range({number * 10}, {number * 10 + 10})"
        )
    before = files_of(spark, "parted")
    assert len(before) == 3
    spark.sql("UPDATE parted SET v = 'new' WHERE id % 10 = 3 AND id > 5 AND id < 20")
    after = files_of(spark, "parted")
    assert len(before & after) == 2
    assert rows(spark, "SELECT id FROM parted WHERE v = 'new'") == [(13,)]
    spark.sql(
        "MERGE INTO parted t USING (SELECT explode(array(13, 14, 99)) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND t.id = 14 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'added')"
    )
    assert len(before & files_of(spark, "parted")) == 2
    assert rows(spark, "SELECT * FROM parted WHERE v <> 'old'") == [(13, "merged"), (99, "added")]
    assert rows(spark, "SELECT count(*) FROM parted") == [(30,)]
    snapshot = catalog.table("shop.parted").latest_snapshot
    spark.sql("UPDATE parted SET v = 'x' WHERE length(v) > 100")  # is not pushed down, and changes nothing
    assert catalog.table("shop.parted").latest_snapshot == snapshot
    table = catalog.table("shop.parted")
    assert difference(oracle.read(Path(table.path)), table.scan().to_arrow()) is None


def test_files_keep_their_rows_when_these_are_marked(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE marked (id INT, v STRING) TBLPROPERTIES ('deletion-vectors.enabled' = 'true')")
    spark.sql("INSERT INTO marked SELECT /*+ COALESCE(1) */ id, 'old' FROM range(10)")
    before = files_of(spark, "marked")
    spark.sql("UPDATE marked SET v = concat('new', id) WHERE id % 5 = 2")
    spark.sql("DELETE FROM marked WHERE id IN (SELECT id + 1 FROM marked WHERE v LIKE 'new%')")
    assert before < files_of(spark, "marked")
    assert rows(spark, "SELECT count(*) FROM marked") == [(8,)]
    assert rows(spark, "SELECT * FROM marked WHERE v <> 'old'") == [(2, "new2"), (7, "new7")]


@pytest.fixture
def other_job(spark: SparkSession, catalog: Catalog) -> None:
    """A function `other_job(table, statement)` of SQL, by which another job commits while a statement reads."""
    warehouse = catalog.warehouse

    def commit_meanwhile(name, sql):  # type: ignore[no-untyped-def]  # Spark would take hints for those of Arrow
        import penstock

        penstock.sql(sql, warehouse=warehouse)
        return name

    spark.udf.register("other_job", commit_meanwhile, "string")


@pytest.mark.usefixtures("other_job")
def test_rows_that_another_job_adds_while_files_are_replaced_stay(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE busy (id INT, v STRING)")
    spark.sql("INSERT INTO busy VALUES (1, 'a')")
    insert = "INSERT INTO shop.busy SELECT 2, concat(chr(111), chr(107))"
    spark.sql(f"UPDATE busy SET v = other_job('mine', '{insert}') WHERE id = 1")
    assert rows(spark, "SELECT * FROM busy") == [(1, "mine"), (2, "ok")]


@pytest.mark.usefixtures("other_job")
def test_a_file_that_another_job_replaces_meanwhile_is_a_conflict(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE contested (id INT, v STRING)")
    spark.sql("INSERT INTO contested VALUES (1, 'a')")
    with pytest.raises(PySparkException, match="another job rewrote files with rows that were to be changed"):
        spark.sql(
            "UPDATE contested SET v = other_job('mine', 'UPDATE shop.contested SET id = 7') WHERE id = 1"
        ).collect()
    assert rows(spark, "SELECT * FROM contested") == [(7, "a")]


def test_engines_refuse_what_they_would_ignore(spark: SparkSession) -> None:
    engine = "(id INT, v INT, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1', 'merge-engine' = '{}'{})"
    spark.sql("CREATE TABLE sums " + engine.format("aggregation", ", 'fields.v.aggregate-function' = 'sum'"))
    spark.sql("CREATE TABLE wide " + engine.format("partial-update", ""))
    spark.sql("INSERT INTO sums VALUES (1, 1)")
    spark.sql("INSERT INTO wide VALUES (1, 1)")
    assert "merge engine aggregation" in refusal(spark, "UPDATE sums SET v = 3")
    assert "delet" in refusal(spark, "DELETE FROM wide WHERE id = 1").lower()
    assert "cannot be set to null" in refusal(spark, "UPDATE wide SET v = null")
    spark.sql("UPDATE wide SET v = 5")
    assert rows(spark, "SELECT * FROM wide") == [(1, 5)]


def test_a_commit_between_plan_and_write_is_a_conflict(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "raced", "(1, 'new', 1, 'a')")
    table = catalog.table("shop.raced")

    warehouse = catalog.warehouse

    def commit_meanwhile(value):  # type: ignore[no-untyped-def]  # Spark would take hints for those of Arrow
        import pyarrow as pa

        from penstock.table.catalog.catalog import Catalog

        row = {"id": pa.array([1], pa.int32()), "status": ["other job"], "amount": pa.nulls(1), "dt": ["a"]}
        with Catalog(warehouse).table("shop.raced").writer() as writer:
            writer.write(pa.table(row))
            writer.commit()
        return value

    spark.udf.register("other_job", commit_meanwhile, "string")
    with pytest.raises(PySparkException, match="wrote to a bucket that this job also writes to"):
        spark.sql("UPDATE raced SET status = other_job('mine') WHERE id = 1").collect()
    assert table.refresh().scan().to_arrow()["status"].to_pylist() == ["other job"]


def test_time_travel_and_read_options(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "past", "(1, 'new', 1, 'a')")
    catalog.table("shop.past").create_tag("monday")
    spark.sql("UPDATE past SET status = 'paid'")
    spark.sql("ALTER TABLE past ADD COLUMN extra INT")
    assert rows(spark, "SELECT * FROM past VERSION AS OF 1") == [(1, "new", 1.0, "a")]
    assert rows(spark, "SELECT status FROM past VERSION AS OF 'monday'") == [("new",)]
    assert rows(spark, "SELECT status FROM past TIMESTAMP AS OF current_timestamp()") == [("paid",)]
    assert "no snapshot as old as" in refusal(spark, "SELECT * FROM past TIMESTAMP AS OF '2020-01-01'")
    assert "no tag 'tuesday'" in refusal(spark, "SELECT * FROM past VERSION AS OF 'tuesday'")
    assert rows(spark, "SELECT status FROM past WITH (`scan.snapshot-id` = '1')") == [("new",)]
    kinds = rows(spark, "SELECT * FROM past WITH (`incremental-between` = '1,2')")
    assert kinds == [("+U", 1, "paid", 1.0, "a", None), ("-U", 1, "new", 1.0, "a", None)]
    assert "did you mean scan.snapshot-id?" in refusal(spark, "SELECT * FROM past WITH (`scan.snapshotid` = '1')")
    assert spark.read.option("scan.tag-name", "monday").table("lake.shop.past").columns == [
        "id",
        "status",
        "amount",
        "dt",
    ]


def test_time_travel_by_the_options_of_spark(spark: SparkSession) -> None:
    fresh(spark, "travelled", "(1, 'a', 1, 'x')")
    spark.sql("INSERT INTO travelled VALUES (2, 'b', 2, 'x')")
    assert spark.read.option("versionAsOf", "1").table("travelled").count() == 1
    assert spark.read.option("timestampAsOf", "2999-01-01").table("travelled").count() == 2
    assert "no snapshot as old" in refusal(spark, "SELECT * FROM travelled WITH (`timestampAsOf` = '2001-01-01')")


def test_system_tables_and_branches(spark: SparkSession) -> None:
    fresh(spark, "parts", "(1, 'new', 1, 'a')")
    spark.sql("CALL lake.sys.create_tag(table => 'shop.parts', tag => 't1', snapshot => 1)")
    spark.sql("CALL lake.sys.create_branch('shop.parts', 'b1', 't1')")
    spark.sql("INSERT INTO `parts$branch_b1` VALUES (9, 'b', 1, 'a')")
    assert rows(spark, "SELECT id FROM `parts$branch_b1`") == [(1,), (9,)]
    assert rows(spark, "SELECT id FROM parts") == [(1,)]
    assert rows(spark, "SELECT snapshot_id FROM lake.shop.`parts$snapshots`") == [(1,)]
    assert rows(spark, "SELECT snapshot_id FROM `parts$branch_b1$snapshots` WHERE snapshot_id > 1") == [(2,)]
    assert rows(spark, "SELECT rowkind, id FROM `parts$audit_log`") == [("+I", 1)]
    assert "no system table 'nothing'" in refusal(spark, "SELECT * FROM `parts$nothing`")
    assert "does not support append" in refusal(spark, "INSERT INTO `parts$files` SELECT * FROM `parts$files`")


def test_procedures(spark: SparkSession, catalog: Catalog) -> None:
    fresh(spark, "kept", "(1, 'new', 1, 'a')")
    spark.sql("INSERT INTO kept VALUES (2, 'new', 1, 'a')")
    assert rows(spark, "CALL lake.sys.rollback('shop.kept', '1')") == [("removed snapshot 2",), ("snapshot 1",)]
    assert rows(spark, "SELECT id FROM kept") == [(1,)]
    assert rows(spark, "CALL lake.sys.compact(table => 'lake.shop.kept')")[0][0].startswith("snapshot")
    spark.sql("CALL lake.sys.create_tag(table => 'shop.kept', tag => 'a', snapshot_id => 1, time_retained => '1 d')")
    spark.sql("CALL lake.sys.create_tag(table => 'shop.kept', tag => 'b', snapshot => 1)")
    spark.sql("CALL lake.sys.rename_tag(table => 'shop.kept', tagName => 'b', targetTagName => 'c')")
    assert catalog.table("shop.kept").tags == {"a": 1, "c": 1}
    spark.sql("CALL lake.sys.reset_consumer(table => 'shop.kept', consumerId => 'me', nextSnapshotId => 1)")
    assert catalog.table("shop.kept").consumers == {"me": 1}
    assert "needs the argument 'consumer_id'" in refusal(spark, "CALL lake.sys.reset_consumer(table => 'shop.kept')")
    assert rows(spark, "CALL lake.sys.rollback_to('shop.kept', 'a')")[0][0].startswith("removed snapshot")
    assert "did you mean compact?" in refusal(spark, "CALL lake.sys.compakt('shop.kept')")
    spark.sql("CALL lake.sys.create_tag('kept', 't')")
    assert catalog.table("shop.kept").tags["t"] == 1
    assert "there is no table\n  path: " in refusal(spark, "CALL lake.sys.create_tag('none', 't')")
    for statement in ("SHOW PROCEDURES", "SHOW PROCEDURES IN lake.sys"):
        assert ("lake", ["sys"], "compact") in [(row[0], row[1], row[3]) for row in spark.sql(statement).collect()]


def test_dataframes_write_to_names(spark: SparkSession) -> None:
    fresh(spark, "framed")
    frame = spark.createDataFrame(
        [(1, "df", None, "a"), (2, "df", None, "b")], "id INT, status STRING, amount DECIMAL(10, 2), dt STRING"
    )
    frame.writeTo("lake.shop.framed").append()
    source = spark.createDataFrame([(1, "merged"), (3, "inserted")], "sid INT, s STRING")
    merge = source.mergeInto("lake.shop.framed", expr("id = sid"))
    merge = merge.whenMatched().update({"status": col("s")})
    merge.whenNotMatched().insert(
        {"id": col("sid"), "status": col("s"), "dt": lit("a"), "amount": lit(None).cast("decimal(10, 2)")}
    ).merge()
    assert rows(spark, "SELECT id, status FROM framed") == [(1, "merged"), (2, "df"), (3, "inserted")]
    frame.where("dt = 'a'").writeTo("lake.shop.framed").overwritePartitions()
    assert rows(spark, "SELECT id, status FROM framed") == [(1, "df"), (2, "df")]
    frame.selectExpr("id k", "status").writeTo("lake.shop.made").using("paimon").tableProperty(
        "primary-key", "k"
    ).create()
    assert spark.table("lake.shop.made").count() == 2


def test_a_frame_shows_the_newest_rows_each_time_it_runs(spark: SparkSession) -> None:
    fresh(spark, "seen", "(1, 'new', 1, 'a')")
    frame = spark.table("lake.shop.seen")
    assert frame.count() == 1
    spark.sql("INSERT INTO seen VALUES (2, 'new', 1, 'a')")
    assert frame.count() == 2


def streamed(frame: DataFrame, show: Callable[[], list[tuple[object, ...]]], **target: str) -> list[tuple[object, ...]]:
    writer = frame.writeStream.trigger(availableNow=True)
    if "table" in target:
        query = writer.option("checkpointLocation", target["checkpoint"]).toTable(target["table"])
    else:
        query = writer.format("memory").queryName(target["name"]).start()
    query.awaitTermination()
    return show()


def test_streams_by_name(spark: SparkSession, tmp_path: Path) -> None:
    fresh(spark, "flow", "(1, 'new', 1, 'a')")
    spark.sql("UPDATE flow SET status = 'paid'")
    plain = spark.readStream.table("lake.shop.flow").select("id", "status")
    spark.sql("CREATE TABLE sink (id INT, status STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1')")
    target = {"table": "lake.shop.sink", "checkpoint": str(tmp_path / "checkpoint")}
    assert streamed(plain, lambda: rows(spark, "SELECT * FROM sink"), **target) == [(1, "paid")]
    options = "`rowkind` = 'true', `scan.mode` = 'from-snapshot', `scan.snapshot-id` = '2'"
    kinds = spark.sql(f"SELECT rowkind, id, status FROM STREAM lake.shop.flow WITH ({options})")
    found = streamed(kinds, lambda: rows(spark, "SELECT * FROM kinds"), name="kinds")
    assert found == [("+U", 1, "paid"), ("-U", 1, "new")]


def test_a_stream_does_not_lose_a_column_that_its_target_lacks(spark: SparkSession, tmp_path: Path) -> None:
    fresh(spark, "wide", "(1, 'new', 1, 'a')")
    spark.sql("CREATE TABLE narrow (id INT, status STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1')")
    stream = spark.readStream.table("lake.shop.wide").select("id", "status", "dt")
    target = {"table": "lake.shop.narrow", "checkpoint": str(tmp_path / "checkpoint")}
    with pytest.raises(PySparkException, match="the table has no column 'dt'"):
        streamed(stream, list, **target)
    assert rows(spark, "SELECT * FROM narrow") == []


def test_a_plan_shows_the_filters_that_are_pushed(spark: SparkSession) -> None:
    fresh(spark, "planned", "(1, 'a', 1, 'x')")
    [[plan]] = rows(spark, "EXPLAIN SELECT id FROM planned WHERE dt = 'x' AND status LIKE 'a%'")
    assert "PushedFilters: [" in plan
    assert "EqualTo(dt,x), StringStartsWith(status,a)]" in plan
    assert "amount" not in plan


def test_plans_read_few_columns_and_broadcast_small_tables(spark: SparkSession) -> None:
    fresh(spark, "planned", "(1, 'new', 1, 'a')")
    [[plan]] = rows(spark, "EXPLAIN SELECT p.status FROM planned p JOIN planned q ON p.id = q.id WHERE p.dt = 'a'")
    scans = [line for line in plan.splitlines() if "BatchScan" in line]
    assert all("amount" not in line for line in scans)
    assert len(scans) == 2
    assert "BroadcastHashJoin" in plan
    assert "Filter (dt" not in plan


@pytest.mark.parametrize(
    ("call", "option"),
    [
        ("paimon_incremental_query('orders', 1, 3)", "incremental-between"),
        ("paimon_incremental_between_timestamp('orders', '2026-01-01', '2026-01-02')", "incremental-between-timestamp"),
        ("paimon_incremental_to_auto_tag('orders', '2026-01-02')", "incremental-to-auto-tag"),
    ],
)
def test_functions_for_changes_are_refused_with_the_option_that_reads_them(
    spark: SparkSession, call: str, option: str
) -> None:
    with pytest.raises(AnalysisException, match=f"SELECT . FROM orders WITH .`{option}`"):
        spark.sql(f"SELECT * FROM {call}")


def test_all_threads_of_a_driver_use_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    """A notebook server runs cells in several threads, and a query the function of foreachBatch in one of Spark."""
    penstock.register(spark, catalog="threads", warehouse=tmp_path / "warehouse", options={"local.sync": "false"})
    with ThreadPoolExecutor(1) as thread:
        thread.submit(copy_by_a_stream, spark, tmp_path / "checkpoint").result()
    assert rows(spark, "SELECT id FROM threads.shop.seen") == [(1,)]


def copy_by_a_stream(spark: SparkSession, checkpoint: Path) -> None:
    spark.sql("CREATE DATABASE threads.shop")
    spark.sql("CREATE TABLE threads.shop.orders AS SELECT 1 id")
    spark.sql("CREATE TABLE threads.shop.seen (id INT)")

    def insert(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql("INSERT INTO threads.shop.seen SELECT id FROM batch")

    read = spark.readStream.table("threads.shop.orders").writeStream.foreachBatch(insert)
    read.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
