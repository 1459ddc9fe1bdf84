"""pypaimon-rust as a third peer: its own environment and process, tables by path, rows as Arrow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyarrow as pa

from tests.interop.peer_process import PeerProcess, PeerRefused, prepared_environment

HERE = Path(__file__).resolve().parent


class RustRefused(PeerRefused):
    """pypaimon-rust threw, or a part of it in Rust panicked. `trace` is its stack trace."""


def prepare() -> Path:
    """Return the Python of pypaimon-rust's environment, made when it is not there yet."""
    return prepared_environment("pypaimon-rust", HERE / "requirements.txt")


class PypaimonRust(PeerProcess):
    """A running pypaimon-rust."""

    name, refusal = "pypaimon-rust", RustRefused

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path) -> Iterator[Self]:
        with cls.running([prepare(), "-W", "ignore", HERE / "serve.py"], folder) as peer:
            yield peer

    def read(self, path: Path) -> pa.Table:
        """Return the rows of the table in a folder of a warehouse."""
        return self._ask_for_rows("read", path=str(path))

    def write(self, path: Path, rows: pa.Table) -> None:
        """Commit rows, all inserts."""
        self._give_rows("write", rows, path=str(path))
