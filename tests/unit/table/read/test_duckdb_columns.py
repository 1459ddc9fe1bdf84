"""Columns whose names differ only in case: DuckDB takes them for one another, so what needs one of them is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.sql.interpreter import Interpreter

pytestmark = pytest.mark.slow

NEED_ONE_OF_THEM = [
    "SELECT B FROM t",
    "SELECT b FROM t",
    "SELECT * FROM t",
    "SELECT k FROM t WHERE B = 3",
    "SELECT count(*) FROM t WHERE B + 1 = 4",
    "SELECT B FROM t VERSION AS OF 1",
    "CREATE TABLE u AS SELECT * FROM t",
    "UPDATE t SET B = B + 1",
    "UPDATE t SET v = 0 WHERE b = 2",
    "DELETE FROM t WHERE B = 3",
    "MERGE INTO t USING (SELECT 1 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET B = t.B + 1",
    "SET 'execution.runtime-mode' = 'streaming'; SELECT B FROM t",
]


@pytest.fixture(params=["keyed", "without a key"])
def interpreter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Interpreter]:
    key = ", PRIMARY KEY (k) NOT ENFORCED" if request.param == "keyed" else ""
    with Interpreter(penstock.Catalog(tmp_path, {"local.sync": "false"})) as opened:
        run(
            opened, f"CREATE DATABASE d; USE d; CREATE TABLE t (k INT, b INT, v INT, B INT{key}) WITH ('bucket' = '-1')"
        )
        run(opened, "INSERT INTO t VALUES (1, 2, 10, 3), (2, 4, 20, 5)")
        yield opened


def run(interpreter: Interpreter, script: str) -> list[dict[str, Any]]:
    *_, result = interpreter.run(script)
    return result.to_pylist()  # type: ignore[no-any-return]  # Arrow has no types


def test_what_needs_one_of_them_is_refused(interpreter: Interpreter) -> None:
    for statement in NEED_ONE_OF_THEM:
        with pytest.raises(ConfigError, match="does not distinguish the columns 'b', 'B'") as refused:
            run(interpreter, statement)
        assert "RENAME COLUMN" in str(refused.value), statement


def test_other_columns_are_read(interpreter: Interpreter) -> None:
    assert run(interpreter, "SELECT k, v FROM t WHERE v > 10") == [{"k": 2, "v": 20}]
    assert run(interpreter, "SELECT count(*) AS n FROM t") == [{"n": 2}]
    run(interpreter, "INSERT INTO t (k, B) VALUES (3, 7)")
    run(interpreter, "ALTER TABLE t RENAME COLUMN B TO c")
    assert run(interpreter, "SELECT k, c FROM t WHERE c > 3 ORDER BY k") == [{"k": 2, "c": 5}, {"k": 3, "c": 7}]


def test_scans_distinguish_them_except_in_conditions_as_text(interpreter: Interpreter, tmp_path: Path) -> None:
    table = penstock.open_table(str(tmp_path / "d.db" / "t"))
    assert table.scan(columns=["k"], where=pc.field("B") == 3).to_arrow().to_pylist() == [{"k": 1}]
    assert table.scan(columns=["k"], where="v = 20").to_arrow().to_pylist() == [{"k": 2}]
    for refused in (lambda: table.scan(where="B = 3").to_arrow(), lambda: table.scan().to_duckdb("t")):
        with pytest.raises(ConfigError, match="does not distinguish the columns"):
            refused()
    [(total,)] = table.scan(columns=["B"]).to_duckdb("t").sql("SELECT sum(B) FROM t").fetchall()
    assert total == 8
