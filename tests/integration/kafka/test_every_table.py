"""Tables of every bucket mode, merge engine and changelog producer, made of one topic by one Spark job.

A model has the expected rows, and the changelogs must result in them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job import build
from penstock.pipelines.job.job_run import JobRun
from penstock.pipelines.spark.session import open_session
from tests.integration.kafka.conftest import Broker
from tests.invariants import check_invariants
from tests.shop import Shop, change

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

PARTITIONS = 3
KEYS = range(12)
PRODUCERS = ("none", "input", "lookup", "full-compaction")
BUCKETS = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "4"},
    "vectors": {"bucket": "2", "deletion-vectors.enabled": "true"},
}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"ignore-delete": "true"},
    "aggregation": {
        "fields.q1.aggregate-function": "sum",
        "fields.name.aggregate-function": "last_non_null_value",
        "fields.name.ignore-retract": "true",
        "ignore-delete": "true",
    },
    "first-row": {"ignore-delete": "true"},
}
# Java Paimon has no others, and refuses them as we do.
WITHOUT = {("first-row", "input"), ("first-row", "full-compaction")}
NO_VECTORS = {("first-row", "vectors"), ("full-compaction", "vectors"), ("none", "vectors")}

Row = dict[str, Any]


def kinds_of_tables() -> dict[str, dict[str, str]]:
    """By name of the table, its options."""
    found = {}
    for (engine, more), producer, (mode, buckets) in itertools.product(ENGINES.items(), PRODUCERS, BUCKETS.items()):
        if (engine, producer) in WITHOUT or {(engine, mode), (producer, mode)} & NO_VECTORS:
            continue
        name = f"{engine}_{producer}_{mode}".replace("-", "")
        found[name] = {"merge-engine": engine, "changelog-producer": producer, **buckets, **more}
    found["deduplicate_sequence"] = {"bucket": "2", "sequence.field": "q1"}
    found["postponed"] = {"bucket": "-2", "postpone.default-bucket-num": "2"}
    found["moving"] = {"bucket": "-1"}
    found["append_unaware"] = {"bucket": "-1"}
    found["append_fixed"] = {"bucket": "2", "bucket-key": "id"}
    return found


TABLES = kinds_of_tables()


@dataclass
class Shops:
    """Sends the same kind of changes to every table, and folds them as its merge engine does."""

    broker: Broker
    topic: str
    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in TABLES})
    appended: dict[str, list[Row]] = field(default_factory=lambda: {"append_unaware": [], "append_fixed": []})

    def send(self, round_: int) -> None:
        messages: dict[int, list[str]] = {part: [] for part in range(PARTITIONS)}
        for table in TABLES:
            for key in KEYS:
                changes = self._changes(table, key, round_)
                messages[key % PARTITIONS] += map(without_keys, changes) if table in self.appended else changes
        for part, found in messages.items():
            self.broker.send(self.topic, *found, partition=part)

    def _changes(self, table: str, key: int, round_: int) -> Iterator[str]:
        row = {"id": key, "q1": 10 * round_ + key, "name": f"part{(key + round_) % 3}"}
        if table.startswith("partialupdate") and round_ == 1:
            row["name"] = None
        if table == "deduplicate_sequence":
            row["q1"] = -row["q1"]  # what comes later is older
        held = self.tables[table].get(key)
        never = ("aggregation", "append", "deduplicate_sequence")
        if key % 4 == 3 and round_ == 2 and held is not None and not table.startswith(never):
            yield change("DELETE", table, held)
            self._deleted(table, key)
        elif held is None or table.startswith(("partialupdate", "aggregation", "firstrow")):
            yield change("INSERT", table, row)
            self._put(table, key, row)
        else:
            yield change("UPDATE", table, row, old=[held])
            self._put(table, key, row)

    def _put(self, table: str, key: int, row: Row) -> None:
        rows = self.tables[table]
        held = rows.get(key, {})
        if table in self.appended:
            self.appended[table].append(row)
        if table.startswith("firstrow") and held:
            return
        if table.startswith(("partialupdate", "aggregation")):
            summed = row["q1"] + held.get("q1", 0) if table.startswith("aggregation") else row["q1"]
            row = held | {name: value for name, value in row.items() if value is not None} | {"q1": summed}
        if table == "deduplicate_sequence" and held and held["q1"] > row["q1"]:
            return
        rows[key] = row

    def _deleted(self, table: str, key: int) -> None:
        if not table.startswith(("partialupdate", "firstrow")):
            del self.tables[table][key]

    def rows(self, table: str) -> list[Row]:
        found = self.appended[table] if table in self.appended else list(self.tables[table].values())
        return sorted(found, key=lambda row: (row["id"], row["q1"]))


def without_keys(message: str) -> str:
    return message.replace('"pkNames": ["id"]', '"pkNames": null')


def spec(shop: Shop, broker: Broker, topic: str) -> PipelineSpec:
    source = {
        "type": "kafka",
        "topic": [topic],
        "properties": broker.properties,
        "value.format": "canal-json",
        "startup": {"mode": "earliest-offset"},
    }
    sink = {
        "table-options": {},
        "per-table": {f"ods.{name}": options for name, options in TABLES.items()},
        "multiple-table-partition-keys": {"moving": ["name"]},
        "sync-primary-keys-from-source-schema": "true",
        "no-primary-key": "append",
    }
    made = shop.spec(sink=sink)
    return made.model_validate({**made.model_dump(by_alias=True), "source": source})


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session("every-table", master="local[2,2]")
    yield session
    session.stop()


def test_each_kind_of_table_has_the_result_of_its_changes(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    shop, shops = Shop(tmp_path), Shops(broker, broker.topic(partitions=PARTITIONS))
    for round_ in range(4):
        shops.send(round_)
        JobRun(build.job(spec(shop, broker, shops.topic)), spark).run()
    shop.table("postponed").compact(full=False)
    for name in TABLES:
        rows = sorted(shop.table(name).scan().to_arrow().to_pylist(), key=lambda row: (row["id"], row["q1"]))
        assert rows == shops.rows(name), name
        # With vectors rows show once they are compacted, and the input before that.
        check_invariants(shop.table(name), excused={"I4"} if "input_vectors" in name else set())
    assert {bucket for _, bucket in shop.buckets("deduplicate_none_dynamic")} > {0, 1}
    assert len({partition for partition, _ in shop.buckets("moving")}) == 3
