"""Changes of columns: which of them keep the values of older rows."""

from __future__ import annotations

import pytest

from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.ddl.kept_values import keeps_values
from penstock.ingest.mysql.ddl.query import Query
from penstock.ingest.mysql.definition import MySqlColumn, parse_type
from penstock.ingest.mysql.values.rules import ValueRules

FILE = "binlog.000001"


def column(text: str, charset: str | None = None, *, nullable: bool = True) -> MySqlColumn:
    return MySqlColumn("a", parse_type(text), nullable, charset)


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("int", "bigint", True),
        ("int unsigned", "bigint", True),
        ("int unsigned", "int", False),
        ("int", "int unsigned", False),
        ("int", "smallint", False),
        ("int", "decimal(20,0)", False),
        ("float", "double", True),
        ("double", "float", False),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(10,4)", False),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("datetime", "datetime(3)", True),
        ("datetime(3)", "datetime", False),
        ("datetime", "timestamp", False),
        ("date", "datetime", False),
        ("bit(3)", "bit(8)", True),
        ("bit(8)", "bit(3)", False),
        ("bit(9)", "bit(16)", True),
        ("bit(9)", "bit(17)", False),
        ("bit(1)", "bit(2)", False),
        ("blob", "text", False),
        ("binary(3)", "binary(5)", False),
        ("binary(3)", "varbinary(3)", True),
        ("varbinary(300)", "tinyblob", False),
        ("varbinary(200)", "tinyblob", True),
        ("blob", "mediumblob", True),
        ("blob", "varbinary(9)", False),
        ("json", "int", False),
        ("year", "year", True),
    ],
)
def test_a_type_that_is_wider_keeps_values(before: str, after: str, kept: bool) -> None:
    assert keeps_values(column(before), column(after)) is kept


@pytest.mark.parametrize(
    ("before", "after", "all_texts", "time_texts"),
    [
        ("decimal(10,2)", "decimal(12,4)", False, True),
        ("decimal(10,2)", "decimal(12,2)", True, True),
        ("datetime", "datetime(3)", True, True),
        ("datetime(3)", "datetime(4)", False, True),
        ("timestamp", "timestamp(6)", True, True),
        ("time", "time(1)", False, False),
        ("float", "double", False, True),
        ("int", "bigint", True, True),
    ],
)
def test_a_wider_type_may_give_older_values_another_text(
    before: str, after: str, all_texts: bool, time_texts: bool
) -> None:
    for rules, kept in ((ValueRules("text", "text"), all_texts), (ValueRules(time="text"), time_texts)):
        assert keeps_values(column(before), column(after), spelled=rules.spelled) is kept


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (("varchar(5)", "latin1"), ("varchar(9)", "utf8mb4"), True),
        (("varchar(5)", "utf8mb4"), ("varchar(5)", "latin1"), False),
        (("varchar(5)", "ascii"), ("varchar(5)", "greek"), True),
        (("varchar(5)", "latin1"), ("varchar(5)", "utf8mb3"), True),
        (("varchar(5)", "utf8mb4"), ("varchar(5)", "utf8mb3"), False),
        (("varchar(63)", "utf8mb4"), ("tinytext", "utf8mb4"), True),
        (("varchar(64)", "utf8mb4"), ("tinytext", "utf8mb4"), False),
        (("char(5)", "utf8mb4"), ("varchar(5)", "utf8mb4"), True),
        (("varchar(5)", "ascii"), ("varchar(5)", "swe7"), False),
        (("text", "utf8mb3"), ("text", "utf8mb4"), True),
        (("text", "latin1"), ("text", "utf8mb4"), False),
        (("text", "latin1"), ("mediumtext", "utf8mb4"), True),
        (("longtext", "latin1"), ("longtext", "utf8mb4"), True),
        (("text", "utf8mb4"), ("text", "utf16"), False),
        (("text", "ascii"), ("text", "latin1"), True),
        (("text", "ascii"), ("text", "ucs2"), False),
        (("varchar(5)", "utf8mb4"), ("char(5)", "utf8mb4"), False),
        (("text", "utf8mb4"), ("varchar(500)", "utf8mb4"), False),
        (("varchar(5)", "utf8mb4"), ("varbinary(20)", None), False),
        (("enum('a','b')", "latin1"), ("enum('b','c','a')", "utf8mb4"), True),
        (("enum('a','b')", "utf8mb4"), ("enum('a')", "utf8mb4"), False),
        (("enum('a','b')", "utf8mb4"), ("varchar(5)", "utf8mb4"), False),
        (("set('a','b')", "utf8mb4"), ("set('a','c','b')", "utf8mb4"), True),
        (("set('a','b')", "utf8mb4"), ("set('b','a')", "utf8mb4"), False),
    ],
)
def test_a_text_keeps_its_characters(before: tuple[str, str | None], after: tuple[str, str | None], kept: bool) -> None:
    assert keeps_values(column(*before), column(*after)) is kept


def test_a_strict_session_fails_instead_of_changing_some_values() -> None:
    for before, after in (
        (column("int"), column("tinyint")),
        (column("int"), column("int", nullable=False)),
        (column("enum('a','b')", "utf8mb4"), column("enum('a')", "utf8mb4")),
    ):
        assert not keeps_values(before, after)
        assert keeps_values(before, after, is_strict=True)
    assert keeps_values(column("text", "latin1"), column("text", "utf8mb4"), is_strict=True)
    assert not keeps_values(column("decimal(10,2)"), column("decimal(10,1)"), is_strict=True)


@pytest.mark.parametrize("kind", ["enum", "set"])
def test_a_strict_session_gives_values_a_label_that_is_equal_in_its_collation(kind: str) -> None:
    before = column(f"{kind}('a','b')", "utf8mb4")
    assert not keeps_values(before, column(f"{kind}('A','b')", "utf8mb4"), is_strict=True)
    assert not keeps_values(column(f"{kind}('a','A')", "utf8mb4"), column(f"{kind}('A')", "utf8mb4"), is_strict=True)
    assert keeps_values(before, column(f"{kind}('b')", "utf8mb4"), is_strict=True)


@pytest.mark.parametrize("kind", ["date", "time", "datetime(3)", "timestamp"])
def test_nulls_of_dates_and_times_are_not_only_nulls(kind: str) -> None:
    may, may_not = column(kind), column(kind, nullable=False)
    for is_strict in (False, True):
        assert not keeps_values(may, may_not, is_strict=is_strict)
        assert not keeps_values(may_not, may, is_strict=is_strict)


@pytest.mark.parametrize(
    ("statement", "rewritten"),
    [
        ("ALTER TABLE t MODIFY a INT", ("a",)),
        ("ALTER IGNORE TABLE t MODIFY a INT", ("a",)),
        ("ALTER TABLE t CHANGE a z INT NOT NULL", ("z",)),
        ("ALTER TABLE t CHANGE A z BIGINT", ()),
        ("ALTER TABLE t MODIFY c DECIMAL(9,2) UNSIGNED", ("c",)),
        ("ALTER TABLE t MODIFY a BIGINT UNSIGNED", ("a",)),
        ("ALTER TABLE t MODIFY F DOUBLE(9, 1)", ("F",)),
        ("ALTER TABLE t MODIFY f DOUBLE NOT NULL DEFAULT (1)", ("f",)),
        ("ALTER TABLE t MODIFY f DOUBLE", ()),
        ("ALTER TABLE t MODIFY f FLOAT(9, 1)", ()),
        ("ALTER TABLE t DROP a, ADD A INT", ("A",)),
        ("ALTER TABLE t DROP COLUMN IF EXISTS z, ADD z INT", ()),
        ("ALTER TABLE t RENAME COLUMN a TO z, ADD a INT", ("a",)),
        ("ALTER TABLE t CHANGE a z BIGINT, ADD A INT DEFAULT 7, DROP b", ("A",)),
        ("ALTER TABLE t MODIFY b VARCHAR(20) AS (CONCAT(a, 'x'))", ("b",)),
        ("ALTER TABLE t CONVERT TO CHARACTER SET latin1", ("b",)),
        ("ALTER TABLE t DEFAULT CHARACTER SET latin1", ()),
        ("ALTER TABLE t MODIFY a BIGINT DEFAULT 7 FIRST, COMMENT 'seven'", ()),
    ],
)
def test_a_statement_shows_which_columns_have_other_values(statement: str, rewritten: tuple[str, ...]) -> None:
    history = SchemaHistory()
    made = "CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, b VARCHAR(9), c DECIMAL(9,2), f FLOAT) CHARACTER SET utf8mb4"
    for place, sql in enumerate((made, statement)):
        changes = history.apply(Query(sql, "shop", ansi_quotes=False, backslash_escapes=True), FILE, place)
    assert changes[-1].rewritten_columns == rewritten
    assert not changes[-1].rewrites_key


@pytest.mark.parametrize(
    ("statement", "rewritten"),
    [
        ("ALTER TABLE t MODIFY a BIGINT", ("x", "y")),
        ("ALTER TABLE t MODIFY a SMALLINT, CHANGE x z INT AS (a + 1)", ("a", "z", "y")),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", ("x", "y")),
        ("ALTER TABLE t MODIFY a BIGINT, DROP COLUMN x, ADD x INT AS (a)", ("x", "y")),
        ("ALTER TABLE t MODIFY a INT COMMENT 'seven', ADD n INT, DROP COLUMN c", ()),
        ("ALTER TABLE t ADD z INT AS (a)", ()),
    ],
)
def test_columns_that_are_computed_from_others_have_other_values_too(
    statement: str, rewritten: tuple[str, ...]
) -> None:
    history = SchemaHistory()
    columns = "id INT PRIMARY KEY, a INT, x INT AS (a + 0), b VARCHAR(9), c INT, y INT AS (LENGTH(b)) STORED"
    made = f"CREATE TABLE t ({columns})"
    history.apply(Query(f"{made} CHARACTER SET latin1", "shop", ansi_quotes=False, backslash_escapes=True), FILE, 1)
    restored = SchemaHistory()
    restored.restore(DefinitionVersion.from_json(version.to_json()) for version in history.versions["shop", "t"])
    changes = restored.apply(Query(statement, "shop", ansi_quotes=False, backslash_escapes=True), FILE, 2)
    assert changes[-1].rewritten_columns == rewritten
