"""Functions of Flink and Spark that DuckDB lacks: the hint is an expression that runs."""

from __future__ import annotations

import duckdb
import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.queries.function_hints import INSTEAD, function_hint

_ROW = """
    (SELECT '2026-01-31' AS a, 'x' AS b, '{"key": 1}' AS j, TIMESTAMP '2026-01-31 10:00:00' AS t,
            t AS begins, t AS ends, 7 AS n, [1] AS l)
"""


@pytest.mark.parametrize("name", INSTEAD)
def test_what_a_hint_says_runs(name: str) -> None:
    assert duckdb.sql(f"SELECT {INSTEAD[name]} FROM {_ROW}").fetchall()


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT date_format(TIMESTAMP '2026-01-31 10:00:00', 'yyyy')", "write  strftime(t, '%Y-%m-%d %H:%M:%S')"),
        ("SELECT DATEDIFF(DATE '2026-01-31', DATE '2026-01-01')", "write  date_diff('day', begins, ends)"),
        ("SELECT no_such_function(1)", "--engine spark has those of Spark"),
        ("SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))", "time_bucket"),
    ],
)
def test_errors_about_functions_have_an_expression_instead(tmp_path: object, query: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused, Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(query))
    assert hint in (refused.value.hint or "")
    assert "Did you mean" not in refused.value.message


def test_other_errors_get_no_hint_about_functions() -> None:
    assert function_hint("Binder Error: Referenced column x not found", "SELECT x FROM t") is None
