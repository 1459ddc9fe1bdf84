"""pypaimon as a second peer: its own environment and process, tables by path, rows as Arrow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from tests.golden.relations import Type
from tests.interop.peer_process import PeerProcess, PeerRefused, prepared_environment

HERE = Path(__file__).resolve().parent


class PypaimonRefused(PeerRefused):
    """pypaimon threw. `trace` is its stack trace."""


def prepare() -> Path:
    """Return the Python of pypaimon's environment, made when it is not there yet."""
    return prepared_environment("pypaimon", HERE / "requirements.txt")


class Pypaimon(PeerProcess):
    """A running pypaimon."""

    name, refusal = "pypaimon", PypaimonRefused

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path) -> Iterator[Self]:
        with cls.running([prepare(), "-W", "ignore", HERE / "serve.py"], folder) as peer:
            yield peer

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
        return self._ask_for_rows("read", path=str(path), options=dict(options or {}), catalog_options=catalog)

    def write(
        self,
        path: Path | str,
        rows: pa.Table,
        *,
        overwrite: Mapping[str, str] | None = None,
        catalog: Mapping[str, str] | None = None,
    ) -> None:
        """Commit rows, all inserts; with `overwrite` in place of that partition ({} is the whole table)."""
        replaced = None if overwrite is None else dict(overwrite)
        self._give_rows("write", rows, path=str(path), overwrite=replaced, catalog_options=catalog)

    def command(self, catalog: Mapping[str, str], method: str, *arguments: Any) -> Any:
        """Call a method of pypaimon's catalog, and return its result if that is JSON."""
        return self._ask("command", catalog_options=catalog, method=method, arguments=list(arguments))["result"]
