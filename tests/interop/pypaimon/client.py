"""pypaimon as a second peer: its own environment and process, tables by path, rows as Arrow."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.golden.relations import Type

HERE = Path(__file__).resolve().parent
HOME = HERE.parents[2] / ".cache" / "pypaimon"


class PypaimonRefused(Exception):
    """pypaimon threw. `trace` is its stack trace."""

    def __init__(self, operation: str, message: str, trace: str) -> None:
        super().__init__(f"{operation}: {message}")
        self.message, self.trace = message, trace


def prepare() -> Path:
    """The Python of pypaimon's environment, made when it is not there yet; one process does it, the others wait."""
    python, wanted = HOME / "bin" / "python", HERE / "requirements.txt"
    HOME.parent.mkdir(exist_ok=True)
    with (HOME.parent / "pypaimon.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = HOME / "ready"
        if not ready.exists() or ready.read_text() != wanted.read_text():
            uv = [sys.executable, "-m", "uv"]
            subprocess.run([*uv, "venv", "-q", "--clear", "--python", sys.executable, HOME], check=True)
            subprocess.run([*uv, "pip", "install", "-q", "--python", python, "-r", wanted], check=True)
            ready.write_text(wanted.read_text())
    return python


class Pypaimon:
    """A running pypaimon that answers one question at a time."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path) -> Iterator[Pypaimon]:
        """Lives as long as the block; `folder` takes its log and the rows under way."""
        command = [prepare(), "-W", "ignore", HERE / "serve.py"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with (
            (folder / "pypaimon.log").open("w") as errors,
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment | {"TZ": "UTC"},
                encoding="utf-8",
            ) as process,
        ):
            yield cls(process, folder)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=20)

    def create(
        self,
        warehouse: Path,
        table: str,
        columns: Sequence[tuple[str, Type]],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        catalog: Mapping[str, str] | None = None,
    ) -> Path:
        """Make `database.table`; gives its folder. Types of nested columns carry their field ids."""
        fields = [{"id": place, "name": name, "type": kind} for place, (name, kind) in enumerate(columns)]
        keys = {"primary_keys": list(primary_keys), "partition_keys": list(partition_keys)}
        given = {"warehouse": str(warehouse), "catalog_options": catalog, "options": dict(options or {})}
        self._ask("create", table=table, fields=fields, **given, **keys)
        database, _, name = table.partition(".")
        return warehouse / f"{database}.db" / name

    def read(
        self, path: Path | str, *, options: Mapping[str, str] | None = None, catalog: Mapping[str, str] | None = None
    ) -> pa.Table:
        """Read the table in a folder, or with the options of a catalog, the table with a name."""
        rows = self._folder / "read.arrow"
        self._ask("read", path=str(path), out=str(rows), options=dict(options or {}), catalog_options=catalog)
        with pa.OSFile(str(rows)) as file:
            return pa.ipc.open_file(file).read_all()

    def write(
        self,
        path: Path | str,
        rows: pa.Table,
        *,
        overwrite: Mapping[str, str] | None = None,
        catalog: Mapping[str, str] | None = None,
    ) -> None:
        """Commit rows, all inserts; with `overwrite` in place of that partition ({} is the whole table)."""
        given = self._folder / "write.arrow"
        with pa.OSFile(str(given), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        replaced = None if overwrite is None else dict(overwrite)
        self._ask("write", path=str(path), rows=str(given), overwrite=replaced, catalog_options=catalog)

    def command(self, catalog: Mapping[str, str], method: str, *arguments: Any) -> Any:
        """Call a method of pypaimon's catalog, and return its result if that is JSON."""
        return self._ask("command", catalog_options=catalog, method=method, arguments=list(arguments))["result"]

    def _ask(self, operation: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            log = (self._folder / "pypaimon.log").read_text(errors="replace")
            raise RuntimeError(f"pypaimon's process is gone: {log[-2000:]}")
        if "error" in (found := json.loads(line)):
            raise PypaimonRefused(operation, found["error"], found["trace"])
        return found
