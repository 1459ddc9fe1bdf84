"""The verb of a statement, which decides whether the binlog's text is looked at."""

from __future__ import annotations

import pytest

from penstock.ingest.mysql.binlog.query import Query


@pytest.mark.parametrize(
    "before",
    [
        "",
        " \n(",
        "/* a comment */ ",
        "/*Migration 42*/",
        "/*MIGRATION: add the column*/ ",
        "/*!50000 */ ",
        "/*M! */ /*!*/",
        "/*!50000 ",
        "/*M!100100 ",
        "--\n",
        "-- a comment\n-- another\r\n",
        "--\tMigration\n",
        "# Migration\n/**/",
        "/*!50000 */ -- x\n /* y */",
        "SET STATEMENT lock_wait_timeout = 5 FOR /*Migration*/ ",
    ],
)
def test_comments_before_a_statement_hide_nothing_of_it(before: str) -> None:
    query = Query(before + "ALTER TABLE t ADD c INT", "d", ansi_quotes=False, backslash_escapes=True)
    assert (query.verb, query.words[-4].word) == ("ALTER", "T")


@pytest.mark.parametrize("sql", ["", "-- ALTER TABLE t", "/* ALTER", "'ALTER' TABLE", "`ALTER`"])
def test_a_text_without_a_verb_has_none(sql: str) -> None:
    assert not Query(sql, "d", ansi_quotes=False, backslash_escapes=True).verb
