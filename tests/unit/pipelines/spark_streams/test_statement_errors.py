"""Errors of Spark for statements of a script: their place, and what to write instead."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from penstock.pipelines.spark_streams.statement_errors import statement_error
from penstock.table.sql.grammar.scripts import script_parts

PARSE = "[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601 (line 1, pos 16)"
COMMAND = "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] ANALYZE TABLE is not supported for v2 tables. SQLSTATE: 0A000"


@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        ("ANALYZE TABLE o COMPUTE STATISTICS", COMMAND, "CALL sys.analyze('db.t')"),
        ("CREATE TABLE z (id INT) WITH ('bucket' = '1')", PARSE, "TBLPROPERTIES ('key' = 'value')"),
        ("ALTER TABLE o DROP TAG 'x'", PARSE, "DELETE TAG 'x'"),
        ("ALTER TABLE o MODIFY a BIGINT", PARSE, "ALTER COLUMN"),
        ("ALTER TABLE o SET ('a' = 'b')", PARSE, "SET or UNSET TBLPROPERTIES"),
        ("CREATE CATALOG c WITH ('type' = 'paimon')", PARSE, "the catalog lake"),
        ("SET 'a' = 'b'", "[INVALID_SET_SYNTAX] Expected format is 'SET'", "without quotes"),
        ("SELECT * FROM o /*+ OPTION('a' = 'b') */", PARSE, "OPTIONS('key' = 'value')"),
    ],
)
def test_a_statement_that_runs_only_without_spark_has_a_hint(statement: str, message: str, hint: str) -> None:
    (part,) = script_parts(statement)
    error = statement_error(part, PySparkException(message))
    assert hint in str(error.hint)
    assert "without --engine spark" in str(error.hint)


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("CREATE VIEW v AS SELECT 1", "CREATE TEMPORARY VIEW"),
        ("create or replace view d.v as select 1", "CREATE TEMPORARY VIEW"),
        ("SHOW VIEWS IN d", "the name of a temporary view"),
        ("DROP VIEW d.v", "without a database"),
    ],
)
def test_permanent_views_have_a_hint(statement: str, hint: str) -> None:
    (part,) = script_parts(statement)
    said = "[MISSING_CATALOG_ABILITY.VIEWS] Catalog lake does not support views. SQLSTATE: 0A000"
    error = statement_error(part, PySparkException(said))
    assert hint in str(error.hint)
    assert "without --engine spark" not in str(error.hint)


def test_an_error_of_a_table_is_shown_without_the_sentence_of_spark() -> None:
    (part,) = script_parts("SELECT * FROM t")
    said = "[PYTHON_DATA_SOURCE_ERROR] Failed to create: penstock.errors.ConfigError: 'x' is not a number\n  option: o"
    assert statement_error(part, PySparkException(said)).message == "Spark refused the statement: 'x' is not a number"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT FROM", PARSE),
        ("ALTER TABLE o SET ('a' = 'b')", "the table has no option\n  to repair: leave it out"),
    ],
)
def test_other_errors_are_those_of_spark(statement: str, message: str) -> None:
    _, part = script_parts(f"SELECT 1;\n{statement}")
    error = statement_error(part, PySparkException(message))
    assert error.hint is None
    assert error.facts["line"] == 2
