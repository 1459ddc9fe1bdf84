"""The layers of docs/examples, filled batch by batch, killed in between, and computed again by DuckDB."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.layers import LAYERS, ROOT, Warehouse


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
