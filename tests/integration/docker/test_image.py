"""The image built without Docker, and the demo run in it, where Debian's buildah and debootstrap are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1500)]

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ("buildah", "debootstrap")


def test_the_image_runs_the_demo_as_its_user(tmp_path: Path) -> None:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"CANNOT RUN HERE: {', '.join(missing) or 'root'} is not there, so the image is not built")
    command = "id -un && penstock demo --spark always"
    done = subprocess.run(
        [ROOT / "docker" / "buildah.sh", tmp_path / "image", "sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=1400,
        check=False,
    )
    shutil.rmtree(tmp_path / "image", ignore_errors=True)  # some gigabytes
    assert done.returncode == 0, done.stderr[-3000:]
    assert "\npenstock\n" in f"\n{done.stdout}"
    assert "Time travel" in done.stdout
