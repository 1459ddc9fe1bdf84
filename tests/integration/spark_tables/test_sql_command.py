"""`penstock sql --engine spark`: scripts on a session of Spark, and the places of their errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipelines.commands.main import main
from penstock.table.catalog.catalog import Catalog

SCRIPT = """
CREATE TABLE orders (id INT NOT NULL, status STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1');
INSERT INTO orders VALUES (1, 'new'), (2, 'new');
UPDATE orders SET status = 'paid' WHERE id = 2;
SELECT id, date_format(DATE'2026-01-31', 'yyyyMM') AS month, status FROM orders ORDER BY id;
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    # A session keeps a catalog by its name, so all tests use one warehouse.
    made = Catalog(str(tmp_path_factory.mktemp("warehouse")), {"local.sync": "false"})
    made.create_database("shop")
    return made


def test_a_script_runs_on_spark(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script.sql").write_text(SCRIPT, encoding="utf-8")
    flags = ["--warehouse", catalog.warehouse, "--database", "shop", "--engine", "spark"]
    assert main(["sql", "-f", str(tmp_path / "script.sql"), *flags, "--output", "json"]) == 0
    *_, last = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert last == {"columns": ["id", "month", "status"], "rows": [[1, "202601", "new"], [2, "202601", "paid"]]}
    assert catalog.table("shop.orders").scan(where="status = 'paid'").count() == 1


@pytest.mark.parametrize(
    ("script", "message", "line", "column"),
    [
        ("SELECT 1;\n  FROB shop.t", "FROB", 2, 3),
        ("SELECT 1;\nSELECT *\nFROM nowhere", "TABLE_OR_VIEW_NOT_FOUND", 3, 6),
        ("SELECT 1; SET 'execution.runtime-mode' = 'sometimes'", "it can be batch or streaming", 1, 11),
    ],
)
def test_errors_of_spark_name_the_place(
    spark: SparkSession,
    catalog: Catalog,
    script: str,
    message: str,
    line: int,
    column: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["sql", script, "--warehouse", catalog.warehouse, "--engine", "spark", "--database", "shop"]
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert " ".join(f"line {line} column {column}".split()) in " ".join(shown.split())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--engine", "flink"], "it can be duckdb or spark"),
        (["--master", "local[1]"], "--master has no meaning with --engine duckdb"),
    ],
)
def test_flags_of_another_engine_are_refused(
    tmp_path: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", "SELECT 1", "--warehouse", str(tmp_path), *flags]) == 2
    assert message in capsys.readouterr().err
