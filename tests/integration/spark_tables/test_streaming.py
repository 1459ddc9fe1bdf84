"""Tables followed by Spark: each change once, over restarts too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock.table.catalog.catalog import Catalog
from penstock.table.errors import SnapshotMissing
from penstock.table.handle import Table
from penstock.table.schema.changes import AddColumn, RenameColumn
from tests.integration.spark_tables.shop import add, error_message, orders

pytestmark = pytest.mark.spark
Batches = list[list[tuple[object, ...]]]


def follow(spark: SparkSession, table: Table, checkpoint: Path, fails: bool = False, **options: str) -> Batches:
    batches: Batches = []

    def take(batch: DataFrame, number: int) -> None:
        if fails:
            raise RuntimeError("the power went")
        batches.append(sorted(tuple(row) for row in batch.collect()))

    stream = spark.readStream.format("penstock").options(**options).load(table.path)
    run(stream, checkpoint, take)
    return [batch for batch in batches if batch]


def collected(stream: DataFrame, checkpoint: Path) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    run(stream, checkpoint, lambda batch, _: found.extend(tuple(row) for row in batch.collect()))
    return sorted(found, key=str)


def run(stream: DataFrame, checkpoint: Path, take: Callable[[DataFrame, int], None]) -> None:
    query = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.foreachBatch(take).start().awaitTermination()


def test_a_stream_returns_the_table_then_its_changes_and_resumes_from_its_checkpoint(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = orders(catalog, {"bucket": "1", "changelog-producer": "input"})
    add(table, (1, "a", 1))
    add(table, (1, "b", 1))
    kinds = {"rowkind": "true"}
    assert follow(registered, table, tmp_path / "c", **kinds) == [[("+I", 1, "b", 1)]]
    add(table, (1, "b", 1), (2, "c", 1), kinds=["-D", "+I"])
    assert follow(registered, table, tmp_path / "c", **kinds) == [[("+I", 2, "c", 1), ("-D", 1, "b", 1)]]
    assert follow(registered, table, tmp_path / "c", **kinds) == []
    # Without the column of kinds: the new rows only.
    assert follow(registered, table, tmp_path / "d", **{"scan.snapshot-id": "3"}) == [[(2, "c", 1)]]


def test_a_stream_begins_at_the_configured_position(registered: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = orders(catalog, {"bucket": "1", "changelog-producer": "input"})
    for key in (1, 2, 3):
        add(table, (key, "a", 1))
    table.create_tag("first", 1)
    millis = str(table.snapshots[1].time_millis)
    for number, (ids, options) in enumerate(
        (
            ([1, 2, 3], {"scan.mode": "latest-full"}),
            ([], {"scan.mode": "latest"}),
            ([2, 3], {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}),
            ([1, 2, 3], {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}),
            ([2, 3], {"scan.timestamp-millis": millis}),
            ([1, 2, 3], {"scan.tag-name": "first"}),
        )
    ):
        found = follow(registered, table, tmp_path / str(number), **options)
        assert sorted(row[0] for batch in found for row in batch) == ids, options


def test_a_stream_begins_with_the_columns_that_were_altered_after_the_last_commit(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    [_, renamed, _] = table.schema.names
    catalog.alter_table(table.name, [RenameColumn(renamed, "old"), AddColumn(renamed, "DOUBLE")])
    assert follow(registered, table, tmp_path) == [[(1, "a", 1, None)]]


def test_a_failed_first_batch_is_read_again_unchanged(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    with pytest.raises(StreamingQueryException, match="the power went"):
        follow(registered, table, tmp_path, fails=True)
    add(table, (1, "b", 1), (2, "b", 2))
    # Before Spark 4.2 this trigger runs one batch, so the second one is that of the next start.
    found = follow(registered, table, tmp_path) + follow(registered, table, tmp_path)
    assert found == [[(1, "a", 1)], [(1, "b", 1), (2, "b", 2)]]


def test_batches_are_limited_by_whole_snapshots(registered: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = orders(catalog)
    for number in range(3):
        add(table, (number, "a", 1), (number + 10, "b", 1))
    options = {"scan.snapshot-id": "1", "read.stream.maxRowsPerTrigger": "3"}
    assert [len(batch) for batch in follow(registered, table, tmp_path, **options)] == [4, 2]


def test_a_stream_without_checkpoint_resumes_at_its_consumer(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    options = {"consumer-id": "reader"}
    assert follow(registered, table, tmp_path / "one", **options) == [[(1, "a", 1)]]
    assert table.consumers == {"reader": 2}
    add(table, (2, "b", 1))
    assert follow(registered, table, tmp_path / "two", **options) == [[(2, "b", 1)]]


def test_a_stream_stops_when_a_snapshot_has_expired_before_it_was_read(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    follow(registered, table, tmp_path)
    for number in range(3):
        add(table, (number, "b", 1))
    table.expire_snapshots(retain_max=1, retain_min=1)
    with pytest.raises(StreamingQueryException) as caught:
        follow(registered, table, tmp_path)
    assert error_message(caught.value, SnapshotMissing)


def test_a_time_before_the_first_snapshot_begins_a_stream_at_the_first(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = orders(catalog)
    add(table, (1, "a", 1))
    stream = registered.readStream.format("penstock").option("scan.timestamp-millis", "1000").load(table.path)
    assert collected(stream, tmp_path) == [(1, "a", 1)]
    with pytest.raises(PySparkException) as caught:
        registered.read.format("penstock").option("scan.timestamp-millis", "1000").load(table.path).collect()
    assert error_message(caught.value, SnapshotMissing)


def test_a_consumer_continues_after_its_last_batch_without_a_checkpoint(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = catalog.create_table("shop.log", [("id", "INT"), ("name", "STRING"), ("q", "INT")])
    for number in (1, 2):
        add(table, (number, "a", number))
        options = {"consumer-id": "reader", "scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
        stream = registered.readStream.format("penstock").options(**options).load(table.path)
        assert collected(stream, tmp_path / str(number)) == [(number, "a", number)]
        assert table.refresh().consumers == {"reader": number + 1}


def test_the_audit_log_streams_and_contains_overwrites_of_append_tables_on_demand(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = catalog.create_table("shop.log", [("id", "INT"), ("name", "STRING"), ("q", "INT")])
    add(table, (1, "a", 1))
    with table.refresh().overwrite() as writer:
        writer.write(pa.Table.from_pylist([{"id": 2, "name": "b", "q": 2}], schema=table.schema))
    read = registered.readStream.format("penstock").option("scan.snapshot-id", "1")
    assert collected(read.load(f"{table.path}$audit_log"), tmp_path / "a") == [("+I", 1, "a", 1)]
    reader = read.option("streaming-read-append-overwrite", "true")
    assert collected(reader.load(table.path), tmp_path / "b") == [(1, "a", 1), (2, "b", 2)]


def test_the_binlog_streams_updates_as_one_row_and_other_system_tables_are_refused(
    registered: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    columns = [("id", "INT NOT NULL"), ("name", "STRING"), ("q", "INT")]
    table = catalog.create_table("shop.logged", columns, primary_keys=["id"], options=options)
    rows = [{"id": 1, "name": name, "q": 1} for name in ("a", "a", "b")]
    with table.writer() as writer:
        writer.write(pa.Table.from_pylist(rows, schema=table.schema), ["+I", "-U", "+U"])
        writer.commit()
    read = registered.readStream.format("penstock").option("scan.snapshot-id", "1")
    binlog = collected(read.load(f"{table.path}$binlog"), tmp_path / "binlog")
    assert binlog == [("+I", [1], ["a"], [1]), ("+U", [1, 1], ["a", "b"], [1, 1])]
    for system in ("ro", "files"):
        with pytest.raises(Exception, match=f"logged.{system} cannot be read as a stream"):
            collected(registered.readStream.format("penstock").load(f"{table.path}${system}"), tmp_path / system)
