"""The layers of docs/examples, filled batch by batch, killed in between, and computed again by DuckDB."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock
from tests.layers import LAYERS, ROOT, Warehouse

LAYER_TABLES = ("dim.users", "dwd.orders", "dws.cities", "dwd.wide_orders")


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.pipelines.mapping.lookups.sleep", lambda _: None)


@pytest.mark.slow
@pytest.mark.usefixtures("no_waits")
def test_the_layers_are_what_duckdb_computes(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path, 1)
    for _ in range(3):
        lake.change()
        lake.run()
        lake.check()


@pytest.mark.slow
@pytest.mark.usefixtures("no_waits")
def test_the_sql_scripts_make_the_same_layers_as_the_pipeline_files(tmp_path: Path) -> None:
    lakes = [Warehouse(tmp_path / name, 3) for name in ("pipelines", "sql")]
    for number in range(3):
        for lake in lakes:
            lake.change()
            for name in LAYER_TABLES if number == 1 else ():
                lake.catalog.alter_table(name, [penstock.AddColumn("added_later", "STRING")])
        lakes[0].run()
        lakes[1].run_sql()
        lakes[1].check()
        for table in LAYER_TABLES:
            first, other = (sorted(map(repr, lake.rows(table).to_pylist())) for lake in lakes)
            assert first == other != [], table


@pytest.mark.slow
@pytest.mark.usefixtures("no_waits")
def test_layers_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path, 2)
    code = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from penstock.pipelines.config.yaml_file import read
from penstock.pipelines.mapping import lookups
from tests.here import run
lookups.sleep = lambda _: None
print("ready", flush=True)
while True:
    for name in {LAYERS!r}:
        run(read((Path({str(tmp_path)!r}) / f"{{name}}.yaml").read_text()))
"""
    for _ in range(3):
        lake.change()
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(lake.chance.uniform(0.1, 2.0))
            os.kill(process.pid, signal.SIGKILL)
    lake.run()
    lake.check()


@pytest.mark.slow
@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize("seed", [4, 5])
def test_a_batch_that_is_repeated_after_its_dimension_has_changed_looks_at_the_snapshot_of_its_plan(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Warehouse(tmp_path, seed)
    lake.change()
    lake.run("dim-users")
    with monkeypatch.context() as patched:
        patched.setattr("penstock.pipelines.driver.commit.Commits.commit", _fail)
        with pytest.raises(ConnectionError):
            lake.run("dwd-orders")
    lake.change()
    lake.run()
    lake.check()


def _fail(*_: object) -> None:
    raise ConnectionError("the store is away")
