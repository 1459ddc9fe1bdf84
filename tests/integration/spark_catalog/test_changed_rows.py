"""UPDATE, DELETE and MERGE by names in Spark SQL: rows, buckets, files and conflicts."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from penstock.table.catalog.catalog import Catalog
from penstock.table.values.hashing import bucket_rows
from penstock.table.values.types import parse_type
from tests.golden.relations import difference
from tests.integration.spark_catalog.statements import fresh, refusal, rows
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def changes(catalog: Catalog, name: str) -> list[tuple[object, ...]]:
    """The rows of the newest snapshot, with their kinds."""
    table = catalog.table(name)
    latest = table.latest_snapshot
    assert latest is not None
    found = table.changes(latest.id - 1, latest.id).to_pylist()
    return sorted((row["rowkind"], row["id"], row["status"]) for row in found)


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


@pytest.mark.usefixtures("other_job")
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])
def test_an_overwrite_does_not_delete_what_another_job_commits_after_it_has_read(spark: SparkSession, key: str) -> None:
    name = f"itself{len(key)}"
    spark.sql(f"CREATE TABLE {name} (id INT NOT NULL, v STRING{key})")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    insert = f"other_job('mine', 'INSERT INTO shop.{name} SELECT 2, concat(chr(111), chr(107))')"
    queries = [
        f"SELECT id, {insert} FROM {name}",
        f"SELECT id, {insert} FROM (VALUES (1)) AS s(id) WHERE id IN (SELECT id FROM lake.shop.{name})",
        f"SELECT 1, {insert} WHERE (SELECT max(id) FROM {name}) = 1",
    ]
    for query in queries:
        with pytest.raises(PySparkException, match="another job changed a partition while it was being rewritten"):
            spark.sql(f"INSERT OVERWRITE {name} {query}").collect()
        assert rows(spark, f"SELECT * FROM {name}") == [(1, "a"), (2, "ok")]
        spark.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} WHERE id = 1")
        assert rows(spark, f"SELECT * FROM {name}") == [(1, "a")]
    # As in Paimon: what is read there is not what another job has committed.
    spark.sql(f"INSERT OVERWRITE {name} SELECT id, {insert} FROM {name} VERSION AS OF 1")
    assert rows(spark, f"SELECT * FROM {name}") == [(1, "mine")]


def test_an_overwrite_with_rows_of_another_branch_is_not_one_of_itself(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE branched (id INT NOT NULL)")
    spark.sql("INSERT INTO branched VALUES (1)")
    spark.sql("CALL lake.sys.create_tag(table => 'shop.branched', tag => 'x')")
    spark.sql("CALL lake.sys.create_branch(table => 'shop.branched', branch => 'b', tag => 'x')")
    for number in (2, 3):
        spark.sql(f"INSERT INTO `branched$branch_b` VALUES ({number})")
    # The newest snapshot of the branch is not one of the table.
    spark.sql("INSERT OVERWRITE branched SELECT * FROM branched WITH ('branch' = 'b') WHERE id > 1")
    assert rows(spark, "SELECT * FROM branched") == [(2,), (3,)]
    spark.sql("INSERT OVERWRITE `branched$branch_b` SELECT id FROM branched WITH ('branch' = 'b') WHERE id = 1")
    spark.sql("INSERT INTO branched VALUES (4)")
    spark.sql("INSERT OVERWRITE branched SELECT id FROM `branched$branch_b` WITH ('branch' = 'main') WHERE id > 2")
    assert rows(spark, "SELECT * FROM `branched$branch_b`") == [(1,)]
    assert rows(spark, "SELECT * FROM branched") == [(3,), (4,)]


@pytest.mark.usefixtures("other_job")
def test_a_merge_finds_rows_of_another_job_that_it_would_replace_by_its_own(spark: SparkSession) -> None:
    """The table is empty first, and Spark makes an append of a MERGE that only inserts."""
    spark.sql("CREATE TABLE first (id INT, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('write-only' = 'true')")
    for number, clause in ((1, ""), (2, ""), (3, "WHEN MATCHED THEN UPDATE SET * ")):
        insert = f"other_job('mine', 'INSERT INTO shop.first SELECT {number}, concat(chr(111), chr(107))')"
        merge = f"MERGE INTO first t USING (SELECT {number} AS id, {insert} AS v) s ON t.id = s.id {clause}"
        with pytest.raises(PySparkException, match="wrote to a bucket that this job also writes to"):
            spark.sql(f"{merge}WHEN NOT MATCHED THEN INSERT *").collect()
    assert rows(spark, "SELECT * FROM first") == [(1, "ok"), (2, "ok"), (3, "ok")]


@pytest.mark.usefixtures("other_job")
def test_an_insert_of_missing_rows_is_no_merge(spark: SparkSession) -> None:
    """It adds its rows beside those of other jobs, as in Paimon, also where rows wait for a compaction."""
    spark.sql("CREATE TABLE missing (id INT, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('write-only' = 'true')")
    spark.sql("CREATE TABLE waiting LIKE missing TBLPROPERTIES ('merge-engine' = 'first-row', 'write-only' = 'true')")
    insert = "other_job('mine', 'INSERT INTO shop.missing SELECT 2, concat(chr(111), chr(107))')"
    for number, condition in ((3, "NOT IN (SELECT id FROM {})"), (4, "> (SELECT max(id) FROM {})")):
        for table in ("missing", "waiting"):
            spark.sql(f"INSERT INTO {table} SELECT {number}, {insert} WHERE {number} {condition.format(table)}")
        spark.sql("INSERT INTO waiting SELECT s.* FROM missing s LEFT ANTI JOIN waiting t ON s.id = t.id")
    assert rows(spark, "SELECT * FROM missing") == [(2, "ok"), (3, "mine"), (4, "mine")]


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


@pytest.mark.parametrize("write_only", ["false", "true"])
def test_a_commit_between_plan_and_write_is_a_conflict(spark: SparkSession, catalog: Catalog, write_only: str) -> None:
    fresh(spark, "raced", "(1, 'new', 1, 'a')")
    spark.sql(f"ALTER TABLE raced SET TBLPROPERTIES ('write-only' = '{write_only}')")
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


def test_an_overwrite_by_path_of_its_own_rows_names_the_snapshot_that_it_read(
    spark: SparkSession, catalog: Catalog
) -> None:
    """A format in Python does not see which tables the query of a write reads."""
    fresh(spark, "by_path", "(1, 'new', 1, 'a')", "(2, 'new', 2, 'a')")
    table = catalog.table("shop.by_path")
    for attempt in (1, 2):
        base = table.refresh().latest_snapshot
        assert base is not None
        read = spark.read.format("penstock").option("scan.snapshot-id", base.id).load(table.path)
        write = read.withColumn("amount", expr("amount + 1")).write.format("penstock").mode("overwrite")
        if attempt == 1:
            spark.sql("INSERT INTO by_path VALUES (3, 'new', 3, 'a')")
            with pytest.raises(PySparkException, match="another job changed"):
                write.option("base-snapshot", base.id).save(table.path)
        else:
            write.option("base-snapshot", base.id).save(table.path)
    assert rows(spark, "SELECT id, amount FROM by_path ORDER BY id") == [(1, 2.0), (2, 3.0), (3, 4.0)]


@pytest.mark.usefixtures("other_job")
def test_an_overwrite_by_path_says_what_it_may_not_have_read(
    spark: SparkSession, catalog: Catalog, request: pytest.FixtureRequest
) -> None:
    # The process that commits may be one that an earlier test started, so it writes to where pytest captures all tests.
    capture = request.config.pluginmanager.getplugin("capturemanager")
    spark.sql("CREATE TABLE unread (id INT, v STRING)")
    spark.sql("INSERT INTO unread VALUES (1, 'a')")
    path = catalog.table("shop.unread").path
    read = spark.read.format("penstock").load(path)
    insert = "INSERT INTO shop.unread SELECT 2, concat(chr(111), chr(107))"
    read.selectExpr("id", f"other_job('mine', '{insert}') AS v").write.format("penstock").mode("overwrite").save(path)
    assert rows(spark, "SELECT * FROM unread") == [(1, "mine")]
    printed: list[str] = []

    def is_warned() -> bool:
        printed.append(capture.read_global_capture().err)
        return "event=rows_of_others_replaced" in "".join(printed)

    until(is_warned, "the warning of the process that commits")
