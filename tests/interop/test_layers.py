"""The layers of docs/examples, read by Java Paimon."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle
from tests.layers import Warehouse

TABLES = ("dim/users", "dwd/orders", "dws/cities", "dwd/wide_orders")


@pytest.mark.parametrize("form", ["pipelines", "sql"])
def test_java_reads_the_layers(oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr("penstock.pipelines.mapping.lookups.sleep", lambda _: None)
    lake = Warehouse(tmp_path, 3)
    for _ in range(2):
        lake.change()
        if form == "sql":
            lake.run_sql()
        else:
            lake.run()
    for table in TABLES:
        database, _, name = table.partition("/")
        path = tmp_path / "warehouse" / f"{database}.db" / name
        assert difference(oracle.read(path), penstock.open_table(str(path)).scan().to_arrow()) is None
