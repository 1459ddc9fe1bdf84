"""A Kafka pipeline with tables that are committed seldom, under Spark: killed again and again, and then drained."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from penstock.table.meta.store import TableMissing
from tests.integration.kafka.conftest import Broker
from tests.integration.spark.test_running import environment, json_output, running, until, words
from tests.shop import Shop, insert

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

TABLES = ("orders", "slow_audit", "slow_log")


def described(shop: Shop, broker: Broker, topic: str, freshness: str = "6s") -> None:
    """Write the pipeline file. Rows that come twice are seen, as the tables have no keys."""
    key = f", freshness: {freshness}" if freshness else ""
    (shop.folder / "shop.yaml").write_text(
        f"pipeline: {{name: shop, trigger: 500ms, checkpoint: {shop.folder}/checkpoint}}\n"
        f"source:\n"
        f"  type: kafka\n"
        f"  topic: [{topic}]\n"
        f"  properties: {{bootstrap.servers: '127.0.0.1:{broker.port}'}}\n"
        f"  value.format: canal-json\n"
        f"  startup: {{mode: earliest-offset}}\n"
        f"route:\n"
        f"  - {{source-table: shop.slow_.*, sink-table: 'ods.{{table}}'{key}}}\n"
        f"sink:\n"
        f"  catalog: {{warehouse: {shop.folder}/warehouse}}\n"
        f"  database: ods\n"
        f"  sync-primary-keys-from-source-schema: false\n"
    )


def ids(shop: Shop, table: str) -> list[int]:
    try:
        return shop.ids(table)
    except TableMissing:
        return []


def has_all(shop: Shop, table: str, last: int) -> bool:
    return ids(shop, table) == list(range(1, last + 1))


def deferred_of(shop: Shop) -> list[tuple[str, int]]:
    status = json_output(shop.folder, "status", "shop.yaml")
    return [(interval["freshness"], interval["deferred"]) for interval in status["freshness"]]


def drained(shop: Shop) -> None:
    done = subprocess.run(
        words("run", "shop.yaml", "--until-caught-up"),
        cwd=shop.folder,
        env=environment(),
        capture_output=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the driver, its JVM and its workers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_tables_with_a_freshness_have_each_row_once_after_kills(broker: Broker, tmp_path: Path, *, night: bool) -> None:
    shop, dice, topic = Shop(tmp_path), random.Random(7), broker.topic(partitions=2)
    described(shop, broker, topic)
    wanted: dict[str, list[int]] = {table: [] for table in TABLES}
    for death in range(12 if night else 2):
        with running(shop.folder, "run", "shop.yaml") as process:
            before = len(wanted["orders"])
            lives_until = None
            while lives_until is None or time.monotonic() < lives_until:
                for table in TABLES:
                    wanted[table].append(len(wanted[table]))
                    note = {"note": "x"} if dice.random() < 0.05 else {}
                    row = {"id": wanted[table][-1], **note}
                    broker.send(topic, insert(table, row), partition=dice.randrange(2))
                assert process.poll() is None, (shop.folder / "log").read_text()[-3000:]
                if lives_until is None and len(ids(shop, "orders")) > before:
                    # Long enough for a commit of the slow tables, and to die at any moment of it.
                    lives_until = time.monotonic() + dice.uniform(2, 12)
                time.sleep(0.05)
            kill(process)
        if death == 0:
            broker.add_partition(topic, 3)
    drained(shop)
    assert {table: ids(shop, table) for table in TABLES} == wanted


def test_a_freshness_is_shown_and_can_be_removed(broker: Broker, tmp_path: Path) -> None:
    shop, topic = Shop(tmp_path), broker.topic()
    described(shop, broker, topic, "1h")
    broker.send(topic, insert("orders", {"id": 1}), insert("slow_log", {"id": 1}))
    with running(shop.folder, "run", "shop.yaml") as process:
        until(lambda: ids(shop, "slow_log") == [1], process, shop.folder)
        # Each row is sent after the commit of the row before it, so that each one needs a commit.
        for last in range(2, 6):
            broker.send(topic, insert("orders", {"id": last}), insert("slow_log", {"id": last}))
            until(partial(has_all, shop, "orders", last), process, shop.folder)
        assert ids(shop, "slow_log") == [1]
        assert (shop.snapshots("orders"), shop.snapshots("slow_log")) == (5, 1)
        # The note of a batch is written behind its commits.
        until(lambda: deferred_of(shop) == [("1h", 8)], process, shop.folder)
        status = json_output(shop.folder, "status", "shop.yaml")
        tables = {table["table"]: table for table in status["tables"]}
        assert (tables["ods.orders"]["freshness"], tables["ods.slow_log"]["freshness"]) == (None, "1h")
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 0, (shop.folder / "log").read_text()[-3000:]
    assert ids(shop, "slow_log") == [1]
    plan = json_output(shop.folder, "plan", "shop.yaml")
    assert {table["table"]: table["freshness"] for table in plan["tables"]} == {
        "ods.orders": None,
        "ods.slow_log": "1h",
    }
    described(shop, broker, topic, "")
    with running(shop.folder, "run", "shop.yaml") as process:
        until(lambda: ids(shop, "slow_log") == [1, 2, 3, 4, 5], process, shop.folder)
    assert ids(shop, "orders") == [1, 2, 3, 4, 5]


def test_a_short_retention_is_a_warning_of_the_check(broker: Broker, tmp_path: Path) -> None:
    shop, topic = Shop(tmp_path), broker.topic(**{"retention.ms": "1000000"})
    broker.send(topic, insert("orders", {"id": 1}))
    described(shop, broker, topic, "10m")
    found = json_output(shop.folder, "check", "shop.yaml")
    warned = [finding["message"] for finding in found["findings"] if finding["level"] == "warning"]
    assert [warning for warning in warned if "keeps records for 1000 s" in warning and topic in warning], found
    described(shop, broker, topic, "1m")
    found = json_output(shop.folder, "check", "shop.yaml")
    assert not [finding for finding in found["findings"] if "keeps records" in finding["message"]]
