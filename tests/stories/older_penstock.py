"""An older version of Penstock as a peer: a process that runs its sources, from a commit of this repository.

`penstock_serve.py` runs with the older sources and their tests first on the path, and performs the steps of stories
with them. It shows what an upgrade, and a way back, mean for tables that both versions have written.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from tests.interop.peer_process import CACHE, PeerProcess, PeerRefused
from tests.simulation.story import Step

ROOT = Path(__file__).resolve().parents[2]
# The newest commit of `main` before tables were divided by statements of SQL. The first release takes its place.
COMMIT = "a70ef551"
SERVE = Path(__file__).resolve().parent / "penstock_serve.py"


class OlderRefused(PeerRefused):
    """The older version raised an error. `trace` is its stack trace."""


def sources() -> Path | None:
    """Return the folder of the older sources, None if this clone does not have their commit."""
    home = CACHE / f"penstock-{COMMIT}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "penstock-older.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            packed = subprocess.run(["git", "-C", ROOT, "archive", COMMIT], capture_output=True, check=False)
            if packed.returncode:
                return None
            half = home.with_suffix(".half")
            with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
                archive.extractall(half, filter="data")
            (half / ".build").mkdir()
            (half / ".build" / "penstock").symlink_to("..")
            half.rename(home)
    return home


class OlderPenstock(PeerProcess):
    """A running older version."""

    name, refusal = "older-penstock", OlderRefused

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path) -> Iterator[Self | None]:
        """Start it, or return None if this clone does not have its commit."""
        older = sources()
        if older is None:
            yield None
            return
        path = f"{older}:{older / '.build'}"
        with cls.running([sys.executable, "-W", "ignore", SERVE], folder, PYTHONPATH=path) as peer:
            yield peer

    def perform(self, path: Path, step: Step, number: int) -> None:
        self._ask("perform", path=str(path), step=json.dumps(step), number=number)

    def read(self, path: Path) -> pa.Table:
        return self._ask_for_rows("read", path=str(path))

    def version(self) -> Any:
        """Return the folder that the process runs from."""
        return self._ask("version")["folder"]
