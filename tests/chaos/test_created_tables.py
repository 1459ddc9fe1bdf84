"""CREATE TABLE AS and REPLACE TABLE AS of Spark, whose driver is killed while they write rows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.table.catalog.catalog import Catalog
from tests.chaos.driver import kill_session

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 1000
# Runs each statement in a thread of its own. With a folder to wait in, the second half of the rows of a statement
# writes a file with the name of its table there, and never ends.
SESSION = f"""
import sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import penstock
from penstock.pipelines.spark.session import open_session

warehouse, waits, *statements = sys.argv[1:]

def pause(number, table):
    if waits and number >= {ROWS // 2}:
        (Path(waits) / table).touch()
        time.sleep(600)
    return number

spark = open_session("created", master="local[4]")
spark.udf.register("pause", pause, "bigint")
penstock.register(spark, catalog="lake", warehouse=warehouse, options={{"local.sync": "false"}})
list(ThreadPoolExecutor(2).map(spark.sql, statements))
spark.stop()
"""
COPY = f"CREATE TABLE IF NOT EXISTS lake.shop.copied AS SELECT pause(id, 'copied') id FROM range(0, {ROWS}, 1, 2)"
REPLACE = f"CREATE OR REPLACE TABLE lake.shop.kept AS SELECT pause(id, 'kept') id FROM range(0, {ROWS}, 1, 2)"


def session(warehouse: Path, waits: str, log: Path) -> subprocess.Popen[bytes]:
    """Start the statements in a session of processes of its own."""
    command = [sys.executable, "-c", SESSION, str(warehouse), waits, COPY, REPLACE]
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, env=dict(os.environ), start_new_session=True)


def numbers(catalog: Catalog, name: str) -> list[int]:
    return sorted(catalog.table(f"shop.{name}").scan().to_arrow().column("id").to_pylist())


def test_a_killed_driver_leaves_no_half_table_and_the_statement_can_be_run_again(tmp_path: Path) -> None:
    catalog, waits = Catalog(str(tmp_path / "warehouse"), {"local.sync": "false"}), tmp_path / "waits"
    catalog.create_database("shop")
    with catalog.create_table("shop.kept", [("id", "BIGINT")]).writer() as writer:
        writer.write(pa.table({"id": pa.array([-1], pa.int64())}))
        writer.commit()
    waits.mkdir()
    log = tmp_path / "log"
    first = session(tmp_path / "warehouse", str(waits), log)
    try:
        while {wait.name for wait in waits.iterdir()} != {"copied", "kept"}:
            assert first.poll() is None, log.read_text()[-3000:]
            time.sleep(0.1)
    finally:
        if first.poll() is None:
            kill_session(first.pid)
        first.wait()

    left = [name for name in catalog.tables("shop") if name != "kept"]
    assert [name.partition("_new_")[0] for name in left] == ["copied", "kept"]
    assert all("_new_" in name and numbers(catalog, name) == [] for name in left)
    assert numbers(catalog, "kept") == [-1]

    second = session(tmp_path / "warehouse", "", log)
    assert second.wait(400) == 0, log.read_text()[-3000:]
    assert numbers(catalog, "copied") == numbers(catalog, "kept") == list(range(ROWS))
    # What the dead driver left has names of its own, and is in nobody's way.
    assert sorted(catalog.tables("shop")) == sorted(["copied", "kept", *left])
