"""Tables read by Spark: the rows the table's own scan gives."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.errors import SnapshotMissing
from penstock.table.handle import Table
from tests.integration.spark_tables.shop import ORDERS, add, error_message, orders

pytestmark = pytest.mark.spark


def load(spark: SparkSession, table: Table, suffix: str = "", **options: str) -> DataFrame:
    named = {key.replace("_", "-").replace("scan-", "scan."): value for key, value in options.items()}
    return spark.read.format("penstock").options(**named).load(table.path + suffix)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def rows_with_kinds(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def test_format_is_found_by_its_name(spark: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    assert rows(load(spark.newSession(), table)) == rows_with_kinds(table.scan().to_arrow())


def test_a_read_returns_the_rows_of_a_scan_in_every_type(registered: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table(
        "shop.all",
        [
            ("id", "BIGINT NOT NULL"),
            ("b", "BOOLEAN"),
            ("t", "TINYINT"),
            ("d", "DECIMAL(12, 3)"),
            ("f", "DOUBLE"),
            ("s", "STRING"),
            ("y", "BYTES"),
            ("day", "DATE"),
            ("ts0", "TIMESTAMP(0)"),
            ("ts3", "TIMESTAMP(3)"),
            ("ts9", "TIMESTAMP(9)"),
            ("ltz", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
            ("xs", "ARRAY<INT>"),
            ("m", "MAP<STRING, INT>"),
            ("r", "ROW<a INT, b STRING>"),
        ],
        primary_keys=["id"],
        options={"bucket": "2"},
    )
    moment = dt.datetime(2026, 1, 2, 3, 4, 5)
    full = {
        "id": 1, "b": True, "t": -3, "d": Decimal("1.250"), "f": 0.5, "s": "ä", "y": b"\x00\x01",
        "day": dt.date(2026, 1, 2), "ts0": moment, "ts3": moment.replace(microsecond=7000),
        "ts9": moment.replace(microsecond=7), "ltz": moment.replace(tzinfo=dt.UTC), "xs": [1, None],
        "m": [("k", 1)], "r": {"a": 1, "b": "x"},
    }  # fmt: skip
    with table.writer() as writer:
        writer.write(pa.Table.from_pylist([full, {"id": 2}], schema=table.schema))
        writer.commit()
    first, second = load(registered, table).orderBy("id").collect()
    assert first.asDict(recursive=True) == full | {
        "m": {"k": 1},
        "ltz": first.ltz,
        "y": bytearray(b"\x00\x01"),
    }
    assert first.ltz.astimezone(dt.UTC) == full["ltz"]
    assert set(second) == {2, None}


def test_filters_are_pushed_down_to_files(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog, dict.fromkeys(["bucket"], "4"))
    add(table, *((number, f"n{number}", number % 7) for number in range(100)))
    frame = load(registered, table).where("id = 42 and name is not null")
    assert rows(frame) == [(42, "n42", 0)]
    assert frame.rdd.getNumPartitions() == len(table.scan(where=pc.field("id") == 42).plan().splits) == 1
    assert "Filter (" not in frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize(
    "where",
    [
        "q not in (1, 2)",
        "q is null or id < 2",
        "not (q <=> 1)",
        "name like 'a%' and name <> 'ab'",
        "q in (1, null)",
        "x > 1",
        "ts = timestamp_ntz'2026-01-01 00:00:00.000500'",
        "ts >= timestamp_ntz'2026-01-01 00:00:01'",
        "d = 1.5",
    ],
)
def test_filters_have_the_semantics_of_spark(registered: SparkSession, catalog: Catalog, where: str) -> None:
    names = [
        ("id", "INT NOT NULL"), ("q", "INT"), ("name", "STRING"), ("x", "DOUBLE"), ("ts", "TIMESTAMP(3)"),
        ("d", "DECIMAL(10, 2)"),
    ]  # fmt: skip
    table = catalog.create_table("shop.f", names)
    at = dt.datetime(2026, 1, 1)
    data = [
        (1, 1, "a", 1.5, at, Decimal("1.50")),
        (2, None, None, float("nan"), None, None),
        (3, 3, "ab", None, at + dt.timedelta(seconds=1), Decimal(2)),
        (4, 2, "b", -1.0, at, Decimal("1.51")),
    ]
    with table.writer() as writer:
        writer.write(pa.table([pa.array(c, f.type) for c, f in zip(zip(*data, strict=True), table.schema, strict=True)],
                              schema=table.schema))  # fmt: skip
        writer.commit()
    plain = load(registered, table).coalesce(1).cache()
    try:
        assert rows(load(registered, table).where(where).select("id")) == rows(plain.where(where).select("id"))
    finally:
        plain.unpersist()


def test_a_user_schema_reads_only_its_columns(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog)
    add(table, (1, "a", 5))
    frame = registered.read.format("penstock").schema("q int").load(table.path)
    assert rows(frame) == [(5,)]


def test_reads_support_time_travel(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    table.create_tag("first")
    millis = table.snapshots[0].time_millis
    add(table, (1, "b", 2), (2, "c", 3))
    assert len(rows(load(registered, table))) == 2
    for options in ({"scan_snapshot_id": "1"}, {"scan_tag_name": "first"}, {"scan_timestamp_millis": str(millis)}):
        assert rows(load(registered, table, **options)) == [(1, "a", 1)]
    with pytest.raises(PySparkException) as caught:
        load(registered, table, scan_snapshot_id="9").collect()
    assert "snapshot 9 does not exist" in error_message(caught.value, SnapshotMissing)


def test_reads_use_the_snapshot_of_each_option(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog, {"bucket": "1", "write-only": "true"})
    add(table, (1, "a", 1))
    add(table, (2, "b", 1))
    table.compact(full=True)
    add(table.refresh(), (3, "c", 1))
    table = table.refresh()
    table.create_tag("second", 2)
    table.create_tag("2026-01-01", 1)
    table.create_tag("2026-01-02", 2)
    millis = [snapshot.time_millis for snapshot in table.snapshots]
    for ids, options in (
        ([1, 2], {"scan.version": "second"}),
        ([1], {"scan.version": "1"}),
        ([1, 2], {"scan.mode": "compacted-full"}),
        ([1], {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}),
        ([1], {"scan.mode": "from-timestamp", "scan.timestamp-millis": str(millis[0])}),
        ([2, 3], {"incremental-between-timestamp": f"{millis[0]},{millis[-1]}"}),
        ([2, 3], {"incremental-between": "1,4", "incremental-between-scan-mode": "diff"}),
        ([2], {"incremental-between": "1,2", "incremental-between-scan-mode": "delta"}),
        ([2], {"incremental-to-auto-tag": "2026-01-02"}),
    ):
        found = registered.read.format("penstock").options(**options).load(table.path).select("id").collect()
        assert sorted(row.id for row in found) == ids, options


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("scan.snapshott-id", "did you mean scan.snapshot-id?"),
        ("versionAsOf", "did you mean scan.version?"),
        ("continuous.discovery-interval", "processingTime"),
        ("scan.bounded", "availableNow"),
        ("streaming.read.snapshot.delay", "processingTime"),
        ("consumer.mode", "exactly-once"),
        ("read.stream.maxFilesPerTrigger", "maxRowsPerTrigger"),
        ("batch-scan-mode", "remove it"),
        ("query-auth.enabled", "permissions"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(
    registered: SparkSession, catalog: Catalog, option: str, hint: str
) -> None:
    table = orders(catalog)
    with pytest.raises(PySparkException) as caught:
        registered.read.format("penstock").option(option, "1").load(table.path)
    assert hint in error_message(caught.value, ConfigError)


def test_incremental_reads_contain_the_row_kinds(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog, {"bucket": "2", "changelog-producer": "input"})
    add(table, (1, "a", 1), (2, "b", 1))
    add(table, (1, "a", 1), (2, "c", 2), kinds=["-D", "+U"])
    frame = load(registered, table, incremental_between="1,2")
    assert rows(frame) == rows_with_kinds(table.changes(1, 2)) == [("+U", 2, "c", 2), ("-D", 1, "a", 1)]
    assert rows(frame.where("rowkind = '-D' and id = 1")) == [("-D", 1, "a", 1)]


def test_differences_of_tags_are_read(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    table.create_tag("t1")
    add(table, (2, "b", 1))
    table.create_tag("t2")
    assert [row[1:] for row in rows(load(registered, table, incremental_between="t1,t2"))] == [(2, "b", 1)]


def test_branches_and_system_tables_are_read_by_the_path(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    table.create_tag("t")
    branch = table.create_branch("b", "t")
    add(branch, (2, "b", 1))
    assert len(rows(load(registered, table, "$branch_b"))) == len(rows(load(registered, table, branch="b"))) == 2
    shown = load(registered, table, "$snapshots").select("snapshot_id", "commit_kind")
    assert rows(shown) == [(1, "APPEND")]
    assert load(registered, table, "$branch_b$snapshots").count() == branch.system("snapshots").num_rows


def test_empty_table_has_its_columns_and_no_rows(registered: SparkSession, catalog: Catalog) -> None:
    frame = load(registered, orders(catalog))
    assert frame.columns == [name for name, _ in ORDERS]
    assert rows(frame) == []


def test_changes_read_without_kinds_are_inserted_rows(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog, {"bucket": "1", "changelog-producer": "input"})
    add(table, (1, "a", 1), (2, "b", 2))
    add(table, (1, "c", 1), (2, "b", 2), kinds=["+U", "-D"])
    for options in ({"incremental-between": "1,2"}, {"incremental-between": "1,2", "rowkind": "true"}):
        read = registered.read.format("penstock").options(**options)
        assert rows(read.schema("id int, name string").load(table.path)) == [(1, "c")]


def test_options_on_system_tables_are_refused_or_applied(registered: SparkSession, catalog: Catalog) -> None:
    table = orders(catalog, {"bucket": "1", "changelog-producer": "input"})
    add(table, (1, "a", 1))
    add(table, (1, "b", 1), kinds=["+U"])
    read = registered.read.format("penstock")
    with pytest.raises(PySparkException) as caught:
        read.option("scan.snapshot-id", "1").load(f"{table.path}$snapshots").collect()
    assert "always shows the present state of the table" in error_message(caught.value, ConfigError)
    assert rows(read.option("scan.snapshot-id", "1").load(f"{table.path}$audit_log")) == [("+I", 1, "a", 1)]
    assert read.option("scan.snapshot-id", "1").load(f"{table.path}$files").count() == 1
    between = registered.read.format("penstock").option("incremental-between", "1,2").load(f"{table.path}$audit_log")
    assert rows(between) == [("+U", 1, "b", 1)]
