"""The verb of a statement, which decides whether the binlog's text is looked at."""

from __future__ import annotations

import pytest

from penstock.ingest.mysql.binlog.query_event import parse_query
from penstock.ingest.mysql.ddl.alter_changes import RenameColumnClause, SetComment
from penstock.ingest.mysql.ddl.ddl_parser import parse_ddl
from penstock.ingest.mysql.ddl.query import Query
from penstock.ingest.mysql.ddl.statements import AlterTableStatement


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


def test_names_may_be_in_brackets_in_the_mode_mssql() -> None:
    sql = "ALTER TABLE [a]] t] COMMENT '[x]', RENAME COLUMN [b] TO `c`"
    session = b"\1" + (0x400).to_bytes(8, "little")
    body = bytes(8) + b"\1" + bytes(2) + len(session).to_bytes(2, "little") + session + b"d\0" + sql.encode()
    [statement] = parse_ddl(parse_query(body), mariadb=True)
    assert statement == AlterTableStatement(
        ("d", "a] t"), (SetComment("[x]"), RenameColumnClause("b", "c")), is_strict=False
    )


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("d.2024_orders", ("d", "2024_orders")),
        ("d.12", ("d", "12")),
        ("d.1e5", ("d", "1e5")),
        ("d.0x1", ("d", "0x1")),
        ("1d . 2b", ("1d", "2b")),
        ("0b1x", ("e", "0b1x")),
        ("0xaz", ("e", "0xaz")),
        (".x", ("e", "x")),
    ],
)
def test_names_that_look_like_numbers_are_names(written: str, name: tuple[str, str]) -> None:
    sql = f"ALTER TABLE {written} ALTER a SET DEFAULT .5, RENAME COLUMN a TO b, ALTER c SET DEFAULT 1.5"
    [statement] = parse_ddl(Query(sql, "e", ansi_quotes=False, backslash_escapes=True), mariadb=True)
    assert statement == AlterTableStatement(name, (RenameColumnClause("a", "b"),))


@pytest.mark.parametrize("sql", ["", "-- ALTER TABLE t", "/* ALTER", "'ALTER' TABLE", "`ALTER`"])
def test_a_text_without_a_verb_has_none(sql: str) -> None:
    assert not Query(sql, "d", ansi_quotes=False, backslash_escapes=True).verb
