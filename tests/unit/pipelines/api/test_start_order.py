"""Which runs start Spark at once."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipelines.api import start_order
from penstock.pipelines.api.start_order import may_run_here, seems_to_need_spark
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.here import note_as_spark_does, run
from tests.shop import Shop, insert


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    run(shop.spec())
    note_as_spark_does(tmp_path / "checkpoint")
    return shop


def needs_spark(spec: PipelineSpec, *, runs_here: bool = True) -> bool:
    return seems_to_need_spark(spec, runs_here=runs_here)


@pytest.mark.parametrize("until", ["caught-up", "forever"])
def test_a_run_with_few_rows_to_read_runs_here(until: str, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not needs_spark(shop.spec(pipeline={"until": until}))
    assert needs_spark(shop.spec(pipeline={"until": until, "resnapshot": True}))
    assert needs_spark(shop.spec(pipeline={"until": until, "reset": ["ods.orders"]}))
    shop.put("2.json", insert("orders", {"id": 2}))
    assert not needs_spark(shop.spec(pipeline={"until": until}))
    monkeypatch.setattr(start_order, "TIMES_SMALL", 0)
    assert needs_spark(shop.spec(pipeline={"until": until}))


def test_the_source_of_a_new_pipeline_is_not_queried(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.inbox.rmdir() if shop.inbox.exists() else None
    assert not needs_spark(shop.spec())
    assert needs_spark(shop.spec(), runs_here=False)


def test_with_executors_elsewhere_only_a_bounded_run_that_finds_nothing_needs_no_spark(shop: Shop) -> None:
    assert not needs_spark(shop.spec(), runs_here=False)
    assert needs_spark(shop.spec(pipeline={"until": "forever"}), runs_here=False)
    shop.put("2.json", insert("orders", {"id": 2}))
    assert needs_spark(shop.spec(), runs_here=False)


@pytest.mark.parametrize(
    ("spark", "master", "settings", "here"),
    [
        ("when-needed", None, {}, True),
        ("when-needed", "local[4]", {}, True),
        ("when-needed", None, {"spark.driver.memory": "4g"}, True),
        ("when-needed", "spark://a:7077", {}, False),
        ("when-needed", None, {"spark.master": "yarn"}, False),
        ("always", None, {}, False),
    ],
)
def test_batches_run_here_only_if_the_executors_would_be_here_too(
    spark: str, master: str | None, settings: dict[str, str], here: bool, tmp_path: Path
) -> None:
    assert may_run_here(Shop(tmp_path).spec(pipeline={"spark": spark}), master, settings) == here


def test_an_error_is_left_to_the_run(shop: Shop) -> None:
    shop.inbox.rename(shop.folder / "away")
    spec = shop.spec()  # makes the folder again
    shop.inbox.rmdir()
    assert needs_spark(spec)


def test_the_source_is_not_queried_beside_another_driver(shop: Shop) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        heard = 4_000_000_000_000
        driver = {"state": "running", "pid": other.pid, "host": socket.gethostname(), "heard_millis": heard}
        CheckpointFolder(f"{shop.folder}/checkpoint").put_status(driver)
        shop.put("2.json", insert("orders", {"id": 2}))
        assert needs_spark(shop.spec())
        other.kill()
    assert not (shop.folder / "checkpoint/files/2.json").exists()  # the other driver's to write


def test_the_question_leaves_no_trace(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """A source that notes what it finds would not find it new when the run asks."""
    shop.put("2.json", insert("orders", {"id": 2}))
    caplog.set_level(logging.INFO)
    before = contents(shop.folder / "checkpoint")
    assert not needs_spark(shop.spec())
    assert contents(shop.folder / "checkpoint") == before
    assert not caplog.messages
    assert logging.getLogger("penstock.ingest").level == logging.NOTSET


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_the_question_imports_neither_spark_nor_what_reads_and_writes_tables(shop: Shop) -> None:
    """What it imports delays the start of Spark in runs that find something."""
    (shop.folder / "shop.yaml").write_text(
        f"pipeline: {{name: shop, checkpoint: {shop.folder}/checkpoint, until: caught-up}}\n"
        f"source: {{type: files, path: {shop.inbox}, value.format: canal-json}}\n"
        f"sink: {{catalog: {{warehouse: {shop.folder}/warehouse}}, database: ods}}\n"
    )
    code = f"""
import sys
from pathlib import Path
from penstock.pipelines.api.start_order import seems_to_need_spark
from penstock.pipelines.config import yaml_file
assert not seems_to_need_spark(yaml_file.load(Path({str(shop.folder / "shop.yaml")!r})), runs_here=True)
print(*sorted(sys.modules))
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heavy = {"pyspark", "pandas", "fastavro", "penstock.table.handle", "penstock.table.merge", "penstock.table.write"}
    assert not heavy & set(done.stdout.split())
