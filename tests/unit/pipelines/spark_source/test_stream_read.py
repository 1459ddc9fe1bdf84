"""Streams of tables under versions of Spark that do not pass the start of a batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from penstock.errors import ConfigError
from penstock.ingest.spark_admission import ReadAllAvailable, RememberedStart
from penstock.pipelines.spark import versions
from penstock.pipelines.spark_source import stream_read
from penstock.pipelines.spark_source.stream_read import Offset, ReaderWithoutStart, TableStreamReader, stream_reader
from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.table.catalog.catalog import Catalog
from penstock.table.errors import SnapshotReplaced
from penstock.table.handle import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = Catalog(str(tmp_path), {"local.sync": "false"})
    catalog.create_database("shop")
    return catalog.create_table("shop.orders", [("id", "INT NOT NULL")], ["id"], options={"bucket": "1"})


def add(table: Table, number: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([number], pa.int32())}))
        writer.commit()


def started(table: Table, **options: str) -> RememberedStart:
    """Return the reader of a query that starts, again or for the first time."""
    given = {"path": table.path, **options}
    return RememberedStart(ReaderWithoutStart(given, spark_schema(table.schema)), lambda: None)


def rows(reader: RememberedStart, start: Offset, end: Offset) -> list[int]:
    found: list[int] = []
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            found += batch.column("id").to_pylist()
    return found


@pytest.mark.parametrize("mode", ["latest", "latest-full", "from-snapshot"])
def test_a_query_that_restarts_twice_reads_each_row_once(table: Table, mode: str) -> None:
    add(table, 1)
    begin = {"scan.mode": mode, **({"scan.snapshot-id": "1"} if mode == "from-snapshot" else {})}
    first = started(table, **begin)
    # The order of Spark's calls. Its first batch is run even if it is empty.
    end = first.latestOffset()
    found = rows(first, first.initialOffset(), end)
    for number in (2, 4):
        add(table, number)
        add(table, number + 1)
        start, again = end, started(table, **begin)
        end = again.latestOffset()
        found += rows(again, start, end)
        start, end = end, again.latestOffset()
        assert end == start
    assert found == [number for number in range(1, 6) if number > 1 or mode != "latest"]


def test_a_first_batch_that_was_planned_but_not_done_is_read_again(table: Table) -> None:
    add(table, 1)
    end = started(table).latestOffset()
    add(table, 2)
    again = started(table)
    assert rows(again, again.initialOffset(), end) == [1]
    assert rows(again, end, again.latestOffset()) == [2]


@pytest.fixture
def old_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "pyspark_version", lambda: "4.0.5")
    monkeypatch.setattr(stream_read, "PASSES_START", False)


@pytest.mark.parametrize(("option", "value"), [("read.stream.maxRowsPerTrigger", "3"), ("consumer-id", "me")])
def test_options_that_need_the_start_are_refused(old_spark: None, table: Table, option: str, value: str) -> None:
    schema = spark_schema(table.schema)
    assert isinstance(stream_reader({"path": table.path}, schema), RememberedStart)
    with pytest.raises(ConfigError, match=rf"{option} needs Spark 4\.2 or newer"):
        stream_reader({"path": table.path, option: value}, schema)
    assert table.consumers == {}


def test_the_newest_spark_has_the_plain_reader(table: Table) -> None:
    reader = stream_reader({"path": table.path, "consumer-id": "me"}, spark_schema(table.schema))
    assert type(reader) is TableStreamReader


def test_a_partition_without_a_value_has_no_rows(table: Table) -> None:
    reader = TableStreamReader({"path": table.path}, spark_schema(table.schema))
    assert list(reader.read(InputPartition(None))) == []


def rolled_back(table: Table) -> Table:
    table.rollback_to(1)
    return table


def created_again(table: Table) -> Table:
    catalog = Catalog(table.path.rpartition("/shop.db")[0], {"local.sync": "false"})
    catalog.drop_table("shop.orders")
    return catalog.create_table("shop.orders", [("id", "INT NOT NULL")], ["id"], options={"bucket": "1"})


@pytest.mark.parametrize("replace", [rolled_back, created_again])
def test_a_stream_does_not_continue_in_another_history(table: Table, replace: Callable[[Table], Table]) -> None:
    for number in range(3):
        add(table, number)
    reader, schema = TableStreamReader({"path": table.path}, spark_schema(table.schema)), spark_schema(table.schema)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    table = replace(table)
    while (table.refresh().store.snapshots.latest_id() or 0) < 5:
        add(table, 10 + (table.store.snapshots.latest_id() or 0))
    again = TableStreamReader({"path": table.path}, schema)
    with pytest.raises(SnapshotReplaced, match="snapshot 3 was replaced after this query had read it") as caught:
        again.latestOffset(end, ReadAllAvailable())
    assert "new checkpoint" in str(caught.value)
    # Spark 4.0 and 4.1, and a batch that was planned before: only its rows are asked for.
    with pytest.raises(SnapshotReplaced):
        again.partitions(end, {**end, "next": 6, "mark": 0})
    with pytest.raises(SnapshotReplaced):
        again.partitions({**end, "begins": 1, "mark": 0}, end)


def test_a_table_that_was_created_again_is_noticed_after_its_snapshots_expired(table: Table) -> None:
    for number in range(3):
        add(table, number)
    reader, schema = TableStreamReader({"path": table.path}, spark_schema(table.schema)), spark_schema(table.schema)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    table = created_again(table)
    for number in range(5):
        add(table, number)
    table.expire_snapshots(retain_max=3, retain_min=1)
    assert table.store.snapshots.earliest_id() == end["next"]
    with pytest.raises(SnapshotReplaced, match="snapshot 3 was replaced after this query had read it"):
        TableStreamReader({"path": table.path}, schema).latestOffset(end, ReadAllAvailable())


def test_a_stream_continues_after_an_expired_snapshot_and_from_older_checkpoints(table: Table) -> None:
    for number in range(3):
        add(table, number)
    reader = TableStreamReader({"path": table.path}, spark_schema(table.schema))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    add(table, 3)
    table.expire_snapshots(retain_max=1, retain_min=1)
    for start in (end, {name: number for name, number in end.items() if name not in {"mark", "created"}}):
        assert reader.latestOffset(start, ReadAllAvailable())["next"] == 5
