"""`penstock run` gets SIGTERM while it starts: it ends as a run does that gets SIGTERM later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipelines.spark.session_settings import package_home
from tests.servers.launch import free_port
from tests.shop import Shop, insert

FILES = "{type: files, path: inbox, value.format: canal-json}"
# Sends SIGTERM to itself at the first import of this module, and then runs the command.
EARLY = """
import os, signal, sys
class Sends:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r} and sys.meta_path.remove(self) is None:
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Sends())
from penstock.pipelines.commands.main import main
sys.exit(main())
"""


def stopped_at(at: str, folder: Path, source: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "shop.yaml").write_text(
        "pipeline: {name: shop, checkpoint: checkpoint}\n"
        f"source: {source}\n"
        "sink: {catalog: {warehouse: warehouse}, database: ods}\n"
    )
    words = [sys.executable, "-W", "ignore", "-c", EARLY.format(at=at), "run", "shop.yaml", *flags]
    environment = os.environ | {"PYTHONPATH": package_home()}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=280)


@pytest.mark.parametrize(
    "at", ["penstock.pipelines.commands.run", "penstock.pipelines.config.yaml_file", "penstock.pipelines.job.build"]
)
@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--until-caught-up",), 13)])
def test_sigterm_during_the_start_ends_a_run_in_order(
    at: str, flags: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}))
    ended = stopped_at(at, tmp_path, FILES, *flags)
    assert ended.returncode == code, ended.stderr
    assert ("error: the run was stopped before it had caught up" in ended.stderr) == bool(flags)
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "warehouse/ods.db/orders/snapshot").exists()


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--until-caught-up",), 13)])
def test_sigterm_during_the_start_ends_the_wait_for_a_source_that_is_away(
    flags: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    servers = f"properties: {{bootstrap.servers: '127.0.0.1:{free_port()}'}}"
    source = f"{{type: kafka, topic: t, value.format: canal-json, {servers}}}"
    ended = stopped_at("penstock.pipelines.job.build", tmp_path, source, *flags)
    assert ended.returncode == code, ended.stderr


@pytest.mark.spark
def test_sigterm_for_all_processes_while_spark_starts_ends_a_run_in_order(tmp_path: Path) -> None:
    """A supervisor stops the JVM together with the driver."""
    (tmp_path / "shop.yaml").write_text(
        "pipeline: {name: shop, checkpoint: checkpoint, spark: always}\n"
        f"source: {FILES}\n"
        "sink: {catalog: {warehouse: warehouse}, database: ods}\n"
    )
    Shop(tmp_path).put("1.json", insert("orders", {"id": 1}))
    words = [sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", "run", "shop.yaml"]
    environment = os.environ | {"PYTHONPATH": package_home()}
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("Running Spark version" in line or "event=starting_spark" in line for line in lines)
        os.killpg(process.pid, signal.SIGTERM)
        rest = list(lines)
        assert process.wait(240) == 0, "".join(rest)[-3000:]
    assert not any("Traceback" in line for line in rest)
