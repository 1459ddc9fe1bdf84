"""Which runs look for news before they start Spark."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipelines.api.start_order import seems_caught_up
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


def test_a_bounded_run_that_has_caught_up_waits_with_spark(shop: Shop) -> None:
    assert seems_caught_up(shop.spec())
    assert not seems_caught_up(shop.spec(pipeline={"until": "forever"}))
    assert not seems_caught_up(shop.spec(pipeline={"resnapshot": True}))
    assert not seems_caught_up(shop.spec(pipeline={"reset": ["ods.orders"]}))
    shop.put("2.json", insert("orders", {"id": 2}))
    assert not seems_caught_up(shop.spec())


def test_an_error_is_left_to_the_run(shop: Shop) -> None:
    shop.inbox.rename(shop.folder / "away")
    spec = shop.spec()  # makes the folder again
    shop.inbox.rmdir()
    assert not seems_caught_up(spec)


def test_the_source_is_not_queried_beside_another_driver(shop: Shop) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        heard = 4_000_000_000_000
        driver = {"state": "running", "pid": other.pid, "host": socket.gethostname(), "heard_millis": heard}
        CheckpointFolder(f"{shop.folder}/checkpoint").put_status(driver)
        shop.put("2.json", insert("orders", {"id": 2}))
        assert not seems_caught_up(shop.spec())
        other.kill()
    assert not (shop.folder / "checkpoint/files/2.json").exists()  # the other driver's to write


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
from penstock.pipelines.api.start_order import seems_caught_up
from penstock.pipelines.config import yaml_file
assert seems_caught_up(yaml_file.load(Path({str(shop.folder / "shop.yaml")!r})))
print(*sorted(sys.modules))
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heavy = {"pyspark", "pandas", "fastavro", "penstock.table.handle", "penstock.table.merge", "penstock.table.write"}
    assert not heavy & set(done.stdout.split())
