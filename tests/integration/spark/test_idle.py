"""`penstock run` in its own process: it starts a JVM only for batches that need Spark, and continues after either."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from penstock.ingest.source import SMALL_BYTES, TIMES_SMALL
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.integration.spark.test_running import environment, words
from tests.shop import Shop, insert

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    for file, spark in (("shop", "when-needed"), ("spark", "always")):
        (tmp_path / f"{file}.yaml").write_text(
            f"pipeline: {{name: shop, checkpoint: {tmp_path}/checkpoint, until: caught-up, spark: {spark}}}\n"
            f"source: {{type: files, path: {shop.inbox}, value.format: canal-json}}\n"
            f"sink:\n"
            f"  catalog: {{warehouse: {tmp_path}/warehouse}}\n"
            f"  database: ods\n"
            f"  table-options: {{bucket: '1'}}\n"
        )
    return shop


def run_by_spark(shop: Shop, file: str = "spark.yaml") -> object:
    """Run with Spark. Return what was read."""
    done = subprocess.run(
        words("run", file, "--json"), cwd=shop.folder, env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"WARN" not in done.stderr
    found = json.loads(done.stdout)
    assert found["spark"]
    return found["records"]


def run_without_java(shop: Shop) -> subprocess.CompletedProcess[str]:
    """Run where a JVM only leaves a trace that it was started."""
    home = shop.folder / "no-java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\nMODULES="jdk.incubator.vector"\n')
    (home / "bin/java").write_text(f"#!/bin/sh\ntouch {shop.folder}/jvm-started\nexit 1\n")
    (home / "bin/java").chmod(0o755)
    variables = environment() | {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(shop.folder / "cache")}
    return subprocess.run(
        words("run", "shop.yaml"), cwd=shop.folder, env=variables, capture_output=True, text=True, check=False
    )


def test_only_a_run_that_needs_spark_starts_it_and_each_continues_after_the_other(shop: Shop) -> None:
    trace, checkpoint = shop.folder / "jvm-started", CheckpointFolder(f"{shop.folder}/checkpoint")

    def run_here(*ids: int) -> str:
        done = run_without_java(shop)
        assert done.returncode == 0, done.stderr
        assert not trace.exists()
        assert "spark" not in done.stderr
        assert shop.ids("orders") == list(ids)
        return done.stderr

    shop.put("1.json", insert("orders", {"id": 1}))
    assert "event=ended pipeline=shop batch=0 records=1" in run_here(1)
    assert "event=ended pipeline=shop batch=none records=0" in run_here(1)
    status = checkpoint.status()
    assert status is not None
    assert (status["state"], status["tables"]) == ("stopped", {})
    shop.put("2.json", insert("orders", {"id": 2}))
    assert run_by_spark(shop) == {"ods.orders": 1}
    shop.put("3.json", insert("orders", {"id": 3}))
    assert "event=ended pipeline=shop batch=2 records=1" in run_here(1, 2, 3)
    # As after a kill between the commit of a table and the note of it.
    number = checkpoint.batches.last_planned
    (shop.folder / f"checkpoint/commits/{number}").unlink()
    run_here(1, 2, 3)
    assert shop.snapshots("orders") == 3
    (shop.folder / f"checkpoint/commits/{number}").unlink()
    assert run_by_spark(shop) == {"ods.orders": 1}  # read again, and not written again
    assert shop.snapshots("orders") == 3
    assert "event=ended pipeline=shop batch=none records=0" in run_here(1, 2, 3)
    # A batch that is too large for this process.
    weight = TIMES_SMALL * SMALL_BYTES // 100
    shop.put("4.json", *(insert("orders", {"id": id_ % 5}) + " " * weight for id_ in range(101)))
    assert run_without_java(shop).returncode != 0
    assert trace.exists()
    assert run_by_spark(shop, "shop.yaml") == {"ods.orders": 101}
    assert shop.ids("orders") == [0, 1, 2, 3, 4]
