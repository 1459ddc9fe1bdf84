"""The work before and around batches: existing tables, tables left out, empty commits, watermarks."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError, SchemaConflict, SourceError
from penstock.ingest.source import Range
from penstock.pipelines.config import yaml_file
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.watermarks import SourceWatermark
from penstock.pipelines.job import build
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.range_report import RangeReport, TableReport
from penstock.table.schema.new_schema import create_schema
from tests.here import run
from tests.shop import Shop, insert
from tests.waiting import at_most


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def typed(table: str, type_: str, **row: object) -> str:
    """An insert whose column `v` is declared as `type_`."""
    message = json.loads(insert(table, row))
    message["mysqlType"]["v"] = type_
    return json.dumps(message)


def test_an_incompatible_type_change_stops_the_job_without_the_flag(shop: Shop) -> None:
    shop.put("1.json", typed("orders", "date", id=1, v="2026-01-01"))
    run(shop.spec())
    shop.put("2.json", typed("orders", "blob", id=2, v="x"), insert("users", {"id": 1}))
    with pytest.raises(SchemaConflict, match="Cannot convert field v"):
        run(shop.spec())


def test_an_incompatible_table_is_left_out_and_the_others_continue(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.put("1.json", typed("orders", "date", id=1, v="2026-01-01"))
    run(shop.spec())
    sink = {"ignore-incompatible": True}
    shop.put("2.json", typed("orders", "blob", id=2, v="x"), insert("users", {"id": 1}))
    shop.put("3.json", typed("orders", "blob", id=3, v="y"), insert("users", {"id": 2}))
    reports: list[BatchReport] = []
    run(
        shop.spec(sink=sink, pipeline={"max-batch": {"rows": 2}}),
        on_batch=lambda _, report: reports.append(report),
    )
    assert (shop.ids("orders"), shop.ids("users")) == ([1], [1, 2])
    assert "table_left_out table=ods.orders" in caplog.text
    assert sum(range_.filtered for range_ in reports[-1].ranges) == 1
    assert shop.files("orders") == {file.name for file in shop.live("orders")}


def test_times_for_a_column_of_instants_are_refused_with_a_cast_that_converts_them(shop: Shop) -> None:
    """Flink CDC makes such a column of MySQL's TIMESTAMP."""
    catalog = penstock.Catalog(str(shop.folder / "warehouse"))
    catalog.create_database("ods")
    catalog.create_table("ods.orders", [("id", "INT NOT NULL"), ("v", "TIMESTAMP_LTZ(0)")], primary_keys=["id"])
    shop.put("1.json", typed("orders", "timestamp", id=1, v="2026-01-01 12:00:00"))
    with pytest.raises(SchemaConflict) as caught:
        run(shop.spec())
    projection = "*, CAST(v AS TIMESTAMP_LTZ(0)) AS v"
    assert f"projection: '{projection}'" in str(caught.value)
    run(shop.spec(transform=[{"source-table": "shop.orders", "projection": projection}]))
    assert [str(row["v"]) for row in shop.rows("orders")] == ["2026-01-01 12:00:00+00:00"]


def test_a_table_is_not_left_in_the_middle_of_a_run(shop: Shop) -> None:
    shop.put("1.json", typed("orders", "date", id=1, v="2026-01-01"))
    shop.put("2.json", typed("orders", "blob", id=2, v="x"))
    with pytest.raises(SchemaConflict):
        run(shop.spec(sink={"ignore-incompatible": True}, pipeline={"max-batch": {"rows": 1}}))


def test_a_table_whose_key_the_source_lacks_is_incompatible_and_both_sides_are_shown(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "k"}))
    run(shop.spec(sink={"table": "t", "primary-keys": ["name"]}))
    shop.put("2.json", insert("orders", {"id": 2, "q1": 1}))
    with pytest.raises(SchemaConflict, match="Incompatible schema found") as caught:
        run(shop.spec(sink={"table": "t"}))
    assert "fields are: id BIGINT, name VARCHAR(20) NOT NULL" in str(caught.value)
    assert "fields are: id bigint, q1 int" in str(caught.value)


def test_keys_that_differ_from_the_existing_table_are_refused(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1, "name": "k"}))
    run(shop.spec(sink={"table": "t"}))
    with pytest.raises(ConfigError, match=r"Specified primary keys \[name\] are not equal"):
        run(shop.spec(sink={"table": "t", "primary-keys": ["name"]}))


def test_a_restart_applies_mutable_options_to_existing_tables(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}))
    run(shop.spec(sink={"table": "t", "table-options": {"bucket": "1"}}))
    options = {"bucket": "2", "merge-engine": "first-row", "snapshot.num-retained.max": "17"}
    run(shop.spec(sink={"table": "t", "table-options": options}))
    assert shop.table("t").options.get("snapshot.num-retained.max") == "17"
    assert shop.table("t").options["bucket"] == "1"
    assert "merge-engine" not in shop.table("t").options


def test_eager_init_creates_a_snapshot_of_every_table_with_every_batch(shop: Shop) -> None:
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    shop.put("2.json", insert("orders", {"id": 2}))
    run(shop.spec(sink={"eager-init": True}, pipeline={"max-batch": {"rows": 1}}))
    run(shop.spec(sink={"eager-init": True}))
    assert (shop.snapshots("orders"), shop.snapshots("users")) == (2, 2)
    shop.put("3.json", insert("orders", {"id": 3}))
    run(shop.spec(sink={"eager-init": True}))
    assert (shop.snapshots("orders"), shop.snapshots("users")) == (3, 3)
    assert shop.ids("users") == [1]


def test_forced_snapshots_are_made_only_of_tables_of_the_pipeline(shop: Shop) -> None:
    forced = {"bucket": "1", "commit.force-create-snapshot": "true"}
    shop.put("1.json", insert("orders", {"id": 1}), insert("users", {"id": 1}))
    run(shop.spec(sink={"table-options": forced}))
    shop.warehouse.created("ods.other", create_schema([("id", "BIGINT")], options={**forced, "bucket": "-1"}, now=1))
    shop.put("2.json", insert("orders", {"id": 2}))
    run(shop.spec(sink={"table-options": forced}))
    assert (shop.snapshots("orders"), shop.snapshots("users"), shop.snapshots("other")) == (2, 2, 0)


def test_a_snapshot_has_a_watermark_if_tags_need_it(shop: Shop) -> None:
    options = {"bucket": "1", "tag.automatic-creation": "watermark", "tag.creation-period": "daily"}
    shop.put("1.json", insert("orders", {"id": 1}))
    run(shop.spec(sink={"table-options": options}))
    latest = shop.table("orders").latest_snapshot
    assert latest is not None
    assert latest.watermark == 1_700_000_000_001 - 1


def test_a_file_that_was_read_does_not_delay_the_watermark(shop: Shop) -> None:
    options = {"bucket": "1", "tag.automatic-creation": "watermark", "tag.creation-period": "daily"}
    for number in (1, 2, 3):
        message = json.loads(insert("orders", {"id": number}))
        shop.put(f"{number}.json", json.dumps(message | {"ts": number * 1_000_000}))
    run(shop.spec(sink={"table-options": options}, pipeline={"max-batch": {"bytes": 1}}, source={"order": "name"}))
    marks = shop.table("orders").system("snapshots")["watermark"].to_pylist()
    assert marks == [999_999, 1_999_999, 2_999_999]


def seen(place: str, newest: int) -> RangeReport:
    return RangeReport(Range(0, place, 0, 1), tables={"t": TableReport(newest=newest)})


def test_the_slowest_partition_decides_the_watermark_until_it_is_idle() -> None:
    marks = SourceWatermark()
    assert marks.at(0) is None
    marks.see(BatchReport([seen("a/0", 100), seen("a/1", 50)]), now=1000)
    assert marks.at(1000) == 49
    marks.see(BatchReport([seen("a/0", 300)]), now=9000)
    assert (marks.at(9000), marks.at(9000, idle=5000)) == (49, 299)
    passing = SourceWatermark(passes_places=True)
    for newest in (100, 300, 200):
        passing.see(BatchReport([seen(f"log at {newest}", newest)]), now=1000)
    assert passing.at(1000) == 299


@pytest.fixture
def listener() -> Iterator[int]:
    """The port of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def kafka_spec(folder: Path, servers: str) -> PipelineSpec:
    return yaml_file.read(f"""
source:
  type: kafka
  properties: {{bootstrap.servers: "{servers}"}}
  topic: t
  value.format: json
  startup: {{mode: earliest-offset}}
sink: {{catalog: {{warehouse: {folder}/w}}, database: ods}}
""")


@pytest.mark.parametrize("servers", ["no.such.host.invalid:9092, SASL_SSL://other.invalid:1", "127.0.0.1:1"])
def test_a_new_pipeline_without_a_broker_ends_before_a_jvm_is_started(tmp_path: Path, servers: str) -> None:
    with at_most(60), pytest.raises(SourceError, match="no Kafka broker can be reached") as caught:
        build.ready(kafka_spec(tmp_path, servers))
    assert caught.value.retryable
    assert caught.value.facts["brokers"] == servers
    assert servers.split(",")[0] in str(caught.value.facts["reason"])


def test_one_broker_of_several_is_enough_to_start(tmp_path: Path, listener: int) -> None:
    build.ready(kafka_spec(tmp_path, f"no.such.host.invalid:9092,127.0.0.1:{listener}"))


def test_a_broker_with_an_invalid_port_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'kafka:90x2' in .* is not an address"):
        build.ready(kafka_spec(tmp_path, "kafka:90x2"))
