"""`penstock run` in its own process with nothing new: it ends without a JVM, and does all else that a run does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.integration.spark.test_running import environment, words
from tests.shop import Shop, insert

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    (tmp_path / "shop.yaml").write_text(
        f"pipeline: {{name: shop, checkpoint: {tmp_path}/checkpoint, until: caught-up}}\n"
        f"source: {{type: files, path: {shop.inbox}, value.format: canal-json}}\n"
        f"sink:\n"
        f"  catalog: {{warehouse: {tmp_path}/warehouse}}\n"
        f"  database: ods\n"
        f"  table-options: {{bucket: '1'}}\n"
    )
    return shop


def records(shop: Shop) -> object:
    """Run with Spark. Return what was read."""
    done = subprocess.run(
        words("run", "shop.yaml", "--json"), cwd=shop.folder, env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)["records"]


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


def test_only_a_run_that_has_something_to_do_starts_spark(shop: Shop) -> None:
    trace, checkpoint = shop.folder / "jvm-started", CheckpointFolder(f"{shop.folder}/checkpoint")
    shop.put("1.json", insert("orders", {"id": 1}))
    assert records(shop) == {"ods.orders": 1}
    idle = run_without_java(shop)
    assert idle.returncode == 0, idle.stderr
    assert not trace.exists()
    assert "event=ended pipeline=shop batch=None records=0" in idle.stderr
    assert "spark" not in idle.stderr
    status = checkpoint.status()
    assert status is not None
    assert (status["state"], status["tables"]) == ("stopped", {})
    # As after a kill between the commit of a table and Spark's note of it.
    number = checkpoint.last_planned
    (shop.folder / f"checkpoint/commits/{number}").rename(shop.folder / "commit")
    assert run_without_java(shop).returncode != 0
    assert trace.exists()
    (shop.folder / "commit").rename(shop.folder / f"checkpoint/commits/{number}")
    trace.unlink()
    shop.put("2.json", insert("orders", {"id": 2}))
    assert run_without_java(shop).returncode != 0
    assert trace.exists()
    assert records(shop) == {"ods.orders": 1}
    assert shop.ids("orders") == [1, 2]
