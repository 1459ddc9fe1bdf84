"""DuckDB as a reader of Iceberg metadata, in an environment of its own: its extension needs an exact release."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

HERE = Path(__file__).resolve().parent
HOME = HERE.parents[2] / ".cache" / "duckdb-iceberg"


def prepare() -> Path:
    """The Python of the environment, made when it is not there yet; one process does it, the others wait."""
    python, wanted = HOME / "bin" / "python", HERE / "requirements.txt"
    HOME.parent.mkdir(exist_ok=True)
    with (HOME.parent / "duckdb-iceberg.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = HOME / "ready"
        if not ready.exists() or ready.read_text() != wanted.read_text():
            uv = [sys.executable, "-m", "uv"]
            subprocess.run([*uv, "venv", "-q", "--clear", "--python", sys.executable, HOME], check=True)
            subprocess.run([*uv, "pip", "install", "-q", "--python", python, "-r", wanted], check=True)
            ready.write_text(wanted.read_text())
    return python


class DuckDBRefused(Exception):
    """DuckDB refused a query."""


class DuckDBIceberg:
    """A running DuckDB that answers one query at a time."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path) -> Iterator[DuckDBIceberg]:
        """Lives as long as the block; `folder` takes the rows under way."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with subprocess.Popen(
            [prepare(), HERE / "serve.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
        ) as process:
            yield cls(process, folder)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=20)

    def query(self, sql: str) -> pa.Table:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        out = self._folder / "rows.arrow"
        self._process.stdin.write(json.dumps({"query": sql, "out": str(out)}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise DuckDBRefused(answer["error"])
        return pa.ipc.open_file(out.read_bytes()).read_all()

    def rows(self, folder: str, snapshot: int | None = None) -> pa.Table:
        """The rows of the table with this folder `metadata`, as of a snapshot."""
        version = "" if snapshot is None else f", snapshot_from_id => {snapshot}"
        return self.query(f"SELECT * FROM iceberg_scan('{folder.removesuffix('/metadata')}'{version})")
