"""The image and the compose file, where Docker is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ["docker", "compose", "--file", str(ROOT / "docker" / "compose.yaml")]


@pytest.fixture(scope="module")
def running() -> Iterator[None]:
    for needed in (["docker", "info"], ["docker", "compose", "version"]):
        if subprocess.run(needed, capture_output=True, check=False).returncode != 0:
            pytest.skip(f"CANNOT RUN HERE: {' '.join(needed)} fails, so the image and the compose file are not tried")
    subprocess.run([*COMPOSE, "up", "--build", "--detach"], check=True, timeout=900)
    yield
    subprocess.run([*COMPOSE, "down", "--volumes"], check=True, timeout=120)


def run_penstock(*words: str) -> subprocess.CompletedProcess[str]:
    command = [*COMPOSE, "exec", "-T", "pipeline", "penstock", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_pipeline_writes_mysql_into_tables(running: None) -> None:
    deadline = time.monotonic() + 240
    query = ("sql", "select count(*) as n from ods.orders", "--warehouse", "/lake/warehouse")
    while "3" not in (output := run_penstock(*query)).stdout:
        assert time.monotonic() < deadline, output.stderr
        time.sleep(5)
    assert "ods.customers" in run_penstock("status", "shop.yaml").stdout


def test_the_image_runs_the_demo(running: None) -> None:
    done = subprocess.run(
        ["docker", "run", "--rm", "penstock", "penstock", "demo", "--spark", "always"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "Time travel" in done.stdout
