"""Environments that hold the wheel and nothing of the source tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
UV = ROOT / ".venv" / "bin" / "uv"
# The wheel of PySpark that `tests.prepare` builds. The registry has only its source: each environment would build it.
WHEELS = ROOT / ".cache" / "wheels"


def environment_of_wheel(environment: Path, extras: str) -> Path:
    """The wheel of this tree and the newest dependencies that it allows."""
    folder = environment.parent
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, environment], check=True)
    python = environment / "bin" / "python"
    WHEELS.mkdir(parents=True, exist_ok=True)
    install = [UV, "pip", "install", "-q", "--find-links", WHEELS, "--python", python, f"{wheel}[{extras}]"]
    subprocess.run(install, check=True, timeout=800)
    return environment
