"""DuckDB as a reader of Iceberg metadata, in an environment of its own: its extension needs an exact release."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyarrow as pa

from tests.interop.peer_process import PeerProcess, PeerRefused, prepared_environment

HERE = Path(__file__).resolve().parent


def prepare() -> Path:
    """Return the Python of the environment, made when it is not there yet."""
    return prepared_environment("duckdb-iceberg", HERE / "requirements.txt")


class DuckDBRefused(PeerRefused):
    """DuckDB refused a query."""


class DuckDBIceberg(PeerProcess):
    """A running DuckDB that answers one query at a time."""

    name, refusal = "duckdb-iceberg", DuckDBRefused

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path) -> Iterator[Self]:
        with cls.running([prepare(), HERE / "serve.py"], folder) as peer:
            yield peer

    def query(self, sql: str) -> pa.Table:
        return self._ask_for_rows("query", query=sql)

    def rows(self, folder: str, snapshot: int | None = None) -> pa.Table:
        """The rows of the table with this folder `metadata`, as of a snapshot."""
        version = "" if snapshot is None else f", snapshot_from_id => {snapshot}"
        return self.query(f"SELECT * FROM iceberg_scan('{folder.removesuffix('/metadata')}'{version})")
