"""A peer in a process of its own: one JSON object a line on stdin, one JSON answer a line on stdout."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

CACHE = Path(__file__).resolve().parents[2] / ".cache"


class PeerRefused(Exception):
    """The peer threw. `trace` is its stack trace."""

    def __init__(self, operation: str, message: str, trace: str) -> None:
        super().__init__(f"{operation}: {message}")
        self.message, self.trace = message, trace


def prepared_environment(name: str, requirements: Path) -> Path:
    """Return the Python of an environment, which the first process makes while the others wait."""
    home = CACHE / name
    python = home / "bin" / "python"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = home / "ready"
        if not ready.exists() or ready.read_text() != requirements.read_text():
            uv = [sys.executable, "-m", "uv"]
            subprocess.run([*uv, "venv", "-q", "--clear", "--python", sys.executable, home], check=True)
            subprocess.run([*uv, "pip", "install", "-q", "--python", python, "-r", requirements], check=True)
            ready.write_text(requirements.read_text())
    return python


class PeerProcess:
    """A running peer that answers one question at a time."""

    name: ClassVar[str]
    refusal: ClassVar[type[PeerRefused]] = PeerRefused

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder

    @classmethod
    @contextlib.contextmanager
    def running(cls, command: Sequence[str | Path], folder: Path, **environment: str) -> Iterator[Self]:
        """Start the peer for as long as the block; `folder` takes its log and the rows under way."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with (
            (folder / f"{cls.name}.log").open("w") as errors,
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=kept | {"TZ": "UTC"} | environment,
                encoding="utf-8",
            ) as process,
        ):
            yield cls(process, folder)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=240)

    def _ask(self, operation: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            log = (self._folder / f"{self.name}.log").read_text(errors="replace")
            raise RuntimeError(f"the process of {self.name} is gone: {log[-2000:]}")
        if "error" in (found := json.loads(line)):
            raise self.refusal(operation, found["error"], found["trace"])
        return found

    def _ask_for_rows(self, operation: str, **arguments: Any) -> pa.Table:
        rows = self._folder / "read.arrow"
        self._ask(operation, out=str(rows), **arguments)
        with pa.OSFile(str(rows)) as file:
            return pa.ipc.open_file(file).read_all()

    def _give_rows(self, operation: str, rows: pa.Table, **arguments: Any) -> None:
        given = self._folder / "write.arrow"
        with pa.OSFile(str(given), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        self._ask(operation, rows=str(given), **arguments)
