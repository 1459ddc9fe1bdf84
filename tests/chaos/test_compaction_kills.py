"""A compaction on a standalone master with two workers: a worker killed, and a writer that commits beside it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from tests import waiting
from tests.chaos import cluster
from tests.chaos.driver import kill_session
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BUCKETS, ROWS = 6, 40_000


def new_table(folder: Path, name: str) -> Table:
    catalog = Catalog(str(folder), {"local.sync": "false"})
    if "shop" not in catalog.databases():
        catalog.create_database("shop")
    options = {"bucket": str(BUCKETS), "write-only": "true", "num-sorted-run.compaction-trigger": "3"}
    return catalog.create_table(f"shop.{name}", [("id", "INT NOT NULL"), ("v", "STRING")], ["id"], [], options)


def add(table: Table, turn: int, rows: int) -> None:
    chance = random.Random(turn)
    ids = chance.sample(range(2 * rows), rows)
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array(ids, pa.int32()), "v": [f"{turn}-{number}" for number in ids]}))
        writer.commit()


def compacted(table: Table) -> bool:
    assert table.latest_snapshot is not None
    return not any(entry.file.level == 0 for entry in live_entries(table.store, table.latest_snapshot))


@contextmanager
def command(spark: cluster.Cluster, log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    settings = [word for setting in cluster.SETTINGS for word in ("--spark-conf", setting)]
    line = [
        sys.executable,
        "-m",
        "penstock.pipelines.commands.main",
        *words,
        "--json",
        "--master",
        spark.url,
        *settings,
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with (log.with_suffix(".out")).open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen(line, env=environment, stdout=out, stderr=err, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_session(process.pid)
            process.wait()


def until(condition: Callable[[], object], process: subprocess.Popen[bytes], log: Path) -> None:
    def is_so() -> object:
        assert process.poll() is None, log.read_text()[-3000:]
        return condition()

    waiting.until(is_so, lambda: log.read_text()[-3000:])


def test_a_lost_worker_and_a_busy_writer_do_not_disturb_compactions(tmp_path: Path, oracle: Oracle) -> None:
    table = new_table(tmp_path / "lake", "orders")
    for turn in range(4):
        add(table, turn, ROWS)
    rows = table.scan().to_arrow().sort_by("id")
    place = ["--warehouse", str(tmp_path / "lake"), "--database", "shop", "--table", "orders"]
    files = len(list(Path(table.path).rglob("bucket-*/*")))
    with cluster.running(tmp_path / "cluster") as spark:
        log = tmp_path / "compact.log"
        with command(spark, log, "compact", *place, "--parallelism", str(BUCKETS)) as job:
            # The first bucket is written, and others are under way.
            until(lambda: len(list(Path(table.path).rglob("bucket-*/*"))) > files, job, log)
            spark.kill_worker(0)
            assert job.wait(240) == 0, log.read_text()[-3000:]
        assert json.loads(log.with_suffix(".out").read_text()) == {"snapshots": [5]}
        assert compacted(table)
        assert table.scan().to_arrow().sort_by("id") == rows
        check_invariants(table)

        log = tmp_path / "watch.log"
        with command(spark, log, "compact", *place, "--watch", "--interval", "100 ms") as job:
            for turn in range(4, 10):
                add(table, turn, 2_000)
            until(lambda: compacted(table), job, log)
            job.send_signal(signal.SIGTERM)
            assert job.wait(240) == 0, log.read_text()[-3000:]
    expected = {**dict(zip(*rows.to_pydict().values(), strict=True))}
    for turn in range(4, 10):
        chance = random.Random(turn)
        expected |= {number: f"{turn}-{number}" for number in chance.sample(range(4_000), 2_000)}
    assert dict(zip(*table.scan().to_arrow().to_pydict().values(), strict=True)) == expected
    assert difference(oracle.read(table.path), table.scan().to_arrow()) is None
    check_invariants(table)
