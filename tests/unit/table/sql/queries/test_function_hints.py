"""Functions of Flink and Spark that DuckDB lacks: the hint is an expression that runs."""

from __future__ import annotations

import duckdb
import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.queries.function_hints import FORMS, INSTEAD, function_hint

_ROW = """
    (SELECT '2026-01-31' AS a, 'x' AS b, '{"key": 1}' AS j, TIMESTAMP '2026-01-31 10:00:00' AS t,
            t AS begins, t AS ends, 7 AS n, [1] AS l)
"""


@pytest.mark.parametrize("name", INSTEAD)
def test_what_a_hint_says_runs(name: str) -> None:
    assert duckdb.sql(f"SELECT {INSTEAD[name]} FROM {_ROW}").fetchall()


@pytest.mark.parametrize("form", FORMS.values())
def test_the_form_of_a_hint_runs(form: str) -> None:
    query = form.replace("FROM t", "") if form.startswith("SELECT") else f"SELECT {form}"
    assert duckdb.sql(f"{query} FROM {_ROW}").fetchall()


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT date_format(TIMESTAMP '2026-01-31 10:00:00', 'yyyy')", "write  strftime(t, '%Y-%m-%d %H:%M:%S')"),
        ("SELECT DATEDIFF(DATE '2026-01-31', DATE '2026-01-01')", "write  date_diff('day', begins, ends)"),
        ("SELECT no_such_function(1)", "--engine spark has those of Spark"),
        ("SELECT MAP['a', 1]", "write  MAP {"),
        ("SELECT map('it''s', 1)", "write  MAP {"),
        ("SELECT ARRAY(1, 2)", "write  [a, b]"),
        ("SELECT struct(1 AS a)", "write  {'key': a}"),
        ("SELECT 'a' RLIKE 'b'", "write  regexp_matches"),
        ("SELECT 5 DIV 2", "write  n // 2"),
        ("SELECT 1 <=> 1", "write  a IS NOT DISTINCT FROM b"),
        ("SELECT * FROM (SELECT 1) t LATERAL VIEW explode([1]) x AS y", "unnest(l)"),
        ("SELECT startswith('ab', 'a')", "write  starts_with("),
        ("SELECT TIMESTAMP_NTZ '2026-01-31 10:00:00'", "write  TIMESTAMP '"),
        ("SELECT CAST('2026-01-31' AS TIMESTAMP_NTZ)", "write  TIMESTAMP '"),
        ("SELECT TIMESTAMP_LTZ '2026-01-31 10:00:00'", "write  TIMESTAMPTZ"),
        ("SELECT to_timestamp('2026-01-31 10:00:00')", "write  CAST(a AS TIMESTAMP)"),
        ("SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))", "time_bucket"),
    ],
)
def test_errors_about_functions_have_an_expression_instead(tmp_path: object, query: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused, Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(query))
    assert hint in (refused.value.hint or "")
    assert "Did you mean" not in refused.value.message


@pytest.mark.parametrize(("column", "hint"), [("__paimon_file_path", "t$files"), ("_ROW_ID", "t$row_tracking")])
def test_columns_that_paimon_adds_to_queries_are_named(tmp_path: object, column: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused, Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(f"CREATE DATABASE d; CREATE TABLE d.t (id INT); SELECT id, {column} FROM d.t"))
    assert hint in (refused.value.hint or "")


def test_a_form_inside_of_a_text_is_no_reason_for_a_hint() -> None:
    message = 'Parser Error: syntax error at or near "FRM"'
    assert function_hint(message, "SELECT 'a DIV b' FRM t") is None
    assert function_hint('Binder Error: column "x" not found', "SELECT x, a DIV b FROM t") is None


def test_a_type_with_members_is_no_reason_for_a_hint() -> None:
    message = 'Parser Error: syntax error at or near "FRM"'
    assert function_hint(message, "SELECT CAST(s AS STRUCT(a INT, b STRUCT(`c` INT))) FRM t") is None
    assert function_hint(message, "SELECT STRUCT(a AS b) FROM t") == "write  {'key': a}"
    assert function_hint(message, "SELECT STRUCT(a, b) FROM t") == "write  {'key': a}"


def test_other_errors_get_no_hint_about_functions() -> None:
    assert function_hint("Binder Error: Referenced column x not found", "SELECT x FROM t") is None
