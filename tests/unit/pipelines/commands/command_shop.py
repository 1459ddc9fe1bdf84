"""A warehouse with one table, and its command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.pipelines.commands.main import main

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "STRING"), ("price", "DECIMAL(10, 2)")]


class Shop:
    """A warehouse with one table of three commits, and its command line."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.warehouse, self._capsys = str(folder), capsys
        self.catalog = penstock.Catalog(self.warehouse)
        self.catalog.create_database("shop")
        self.make("orders")

    def make(self, name: str, commits: int = 3) -> None:
        made = self.catalog.create_table(
            f"shop.{name}", COLUMNS, ["dt", "id"], ["dt"], {"bucket": "1", "write-only": "true"}, "what was ordered"
        )
        for number in range(1, commits + 1):
            with made.writer(commit_user="etl") as writer:
                writer.write(self.rows(number))
                writer.commit(number)

    @staticmethod
    def rows(number: int) -> Any:
        import pyarrow as pa

        return pa.table({"dt": ["a", "b"], "id": [number, number], "v": [f"a{number}", f"b{number}"]})

    @property
    def orders(self) -> penstock.Table:
        return self.catalog.table("shop.orders")

    def run(self, command: str, *flags: str, table: str | None = "orders", expect: int = 0) -> str:
        place = ["--warehouse", self.warehouse, "--database", "shop", *(["--table", table] if table else [])]
        return self.words(command, *place, *flags, expect=expect)

    def words(self, *words: str, expect: int = 0) -> str:
        code = main(words)
        output = self._capsys.readouterr()
        assert code == expect, output.err
        return output.out if expect == 0 else output.err

    def json(self, command: str, *flags: str, table: str | None = "orders") -> Any:
        return json.loads(self.run(command, *flags, "--json", table=table))

    def values(self) -> list[str]:
        return sorted(self.orders.scan(columns=["v"]).to_arrow()["v"].to_pylist())
