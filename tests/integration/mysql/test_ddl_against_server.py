"""Random DDL, carried forward by us and by a real server: after every statement it accepts, both must agree."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pymysql
import pytest

from penstock.ingest.mysql.ddl.ddl_parser import parse_ddl
from penstock.ingest.mysql.ddl.query import Query
from penstock.ingest.mysql.ddl.tables import Tables
from penstock.ingest.mysql.definition import TableDefinition
from penstock.ingest.mysql.server.catalog import definitions
from penstock.ingest.mysql.server.connection import connected
from tests.integration.mysql.playground import DATABASE, Playground

TABLES = ["a", "b", "_a_gho", "odd name", "t.dot", "select", "表"]
COLUMNS = ["id", "x", "y", "key", "the col", "`quo`` te`", "after", "FIRST", "列", "Comment", "dot.ted", "unique"]
TYPES = """
INT; INTEGER(5) UNSIGNED; TINYINT(1); BOOL; BIGINT(20) UNSIGNED ZEROFILL; MIDDLEINT; INT2; INT8 SIGNED
DEC(9,3); NUMERIC; FIXED(5); DECIMAL(10, 2) UNSIGNED; FLOAT(30); FLOAT(7,3); DOUBLE PRECISION; REAL; BIT; BIT(9)
CHAR; CHAR(5) BINARY; CHARACTER VARYING(7); NATIONAL CHAR(3); NVARCHAR(4); NATIONAL VARCHAR(6); NCHAR(2); CHAR(4) BYTE
VARCHAR(30) CHARACTER SET latin1; VARCHAR(30) COLLATE utf8mb4_bin; VARCHAR(9) CHARSET binary; VARCHAR(5) ASCII
TEXT; TEXT(300); TEXT CHARACTER SET gbk; LONG; LONG VARCHAR; LONG VARBINARY; TINYTEXT; MEDIUMTEXT; LONGTEXT
BLOB(70000); TINYBLOB; BINARY(4); VARBINARY(17); DATE; TIME(3); DATETIME(6); TIMESTAMP NULL; TIMESTAMP(2) NULL; YEAR
YEAR(4); ENUM('a','b,)','it''s','\\\\'); SET('x','y') CHARACTER SET latin1; JSON; GEOMETRY; POINT; GEOMETRYCOLLECTION
"""
TYPES = [kind.strip() for line in TYPES.strip().splitlines() for kind in line.split(";")]
ATTRIBUTES = ["", "", "NULL", "NOT NULL", "COMMENT 'c; with ( first, after x'", "DEFAULT NULL", 'COMMENT "it\'s"']
ATTRIBUTES += ["/* a comment, FIRST */", "NULL COMMENT 'ä'"]
KEYS = ["PRIMARY KEY", "NOT NULL PRIMARY KEY COMMENT 'k'", ""]


def name_of(column: str) -> str:
    return column if column.startswith("`") else f"`{column}`"


def table_name(name: str, dice: random.Random) -> str:
    return f"`{DATABASE}` . `{name}`" if dice.random() < 0.3 else f"`{name}`"


class Writer:
    def __init__(self, seed: int, *, mariadb: bool) -> None:
        self.dice = random.Random(seed)
        self.mariadb = mariadb

    def column(self) -> str:
        return name_of(self.dice.choice(COLUMNS))

    def definition(self, name: str | None = None) -> str:
        kind = self.dice.choice(TYPES)
        return f"{name or self.column()} {kind} {self.dice.choice(ATTRIBUTES)}"

    def position(self) -> str:
        return self.dice.choice(["", "", "FIRST", f"AFTER {self.column()}"])

    def exists(self, words: str) -> str:
        return words if self.mariadb and self.dice.random() < 0.2 else ""

    def clause(self) -> str:
        dice = self.dice
        word = dice.choice(["COLUMN", ""])
        return dice.choice(
            [
                f"ADD {word} {self.exists('IF NOT EXISTS')} {self.definition()} {self.position()}",
                f"add {word} ({self.definition()}, {self.definition()})",
                f"MODIFY {word} {self.exists('IF EXISTS')} {self.definition()} {self.position()}",
                f"CHANGE {word} {self.column()} {self.definition()} {self.position()}",
                f"CHANGE {word} `x` {self.definition('`y`')}, CHANGE `y` {self.definition('`x`')}",
                f"DROP {word} {self.exists('IF EXISTS')} {self.column()}",
                f"RENAME COLUMN {self.column()} TO {self.column()}",
                f"ADD INDEX i{dice.randint(0, 99)} (`id`)",
                f"ADD UNIQUE KEY `u{dice.randint(0, 99)}` (`id`)",
                "ALTER COLUMN `x` SET DEFAULT 5",
                "ALTER `y` DROP DEFAULT",
                "COMMENT = 'the; table, ADD z INT'",
                "ENGINE=InnoDB",
                "DEFAULT CHARSET latin1",
                "CHARACTER SET = utf8mb4 COLLATE utf8mb4_bin",
                f"CONVERT TO CHARACTER SET {dice.choice(['latin1', 'utf8mb4', 'gbk'])}",
                "ORDER BY `id`",
                "DROP PRIMARY KEY, ADD PRIMARY KEY (`id`)",
            ]
        )

    def statement(self) -> str:
        dice = self.dice
        first, two, three = (table_name(name, dice) for name in dice.sample(TABLES, 3))
        kind = dice.random()
        if kind < 0.62:
            clauses = ", ".join(self.clause() for _ in range(dice.choice([1, 1, 2, 4])))
            return f"{dice.choice(['ALTER TABLE', '/* x */ alter table', '/*!40000 ALTER*/ TABLE'])} {first} {clauses}"
        if kind < 0.8:
            names = dice.sample([name for name in COLUMNS if name != "id"], dice.randint(1, 5))
            columns = [f"`id` {dice.choice(['INT', 'BIGINT'])} {dice.choice(KEYS)}"]
            columns += [self.definition(name_of(name)) for name in names]
            extra = dice.choice(["", ", KEY (`id`)", ", CONSTRAINT c1 CHECK (`id` > 0)", ", UNIQUE `uu` (`id`)"])
            options = dice.choice(
                ["", "CHARSET=latin1", "ENGINE=InnoDB DEFAULT CHARACTER SET gbk COMMENT 'x, y'", "COLLATE utf8mb4_bin"]
            )
            unless = dice.choice(["", "IF NOT EXISTS "])
            return f"CREATE TABLE {unless}{first} ({', '.join(columns)}{extra}) {options}"
        if kind < 0.86:
            return f"CREATE TABLE {first} LIKE {two}"
        if kind < 0.93:
            return dice.choice(
                [
                    f"RENAME TABLE {first} TO {two}",
                    f"RENAME TABLE {first} TO {three}, {two} TO {first}",
                    f"ALTER TABLE {first} RENAME {dice.choice(['TO', 'AS', ''])} {two}",
                ]
            )
        return dice.choice([f"DROP TABLE IF EXISTS {first}, {two}", f"DROP TABLE {first}", f"TRUNCATE {first}"])


def server_s(server: Playground) -> dict[tuple[str, str], TableDefinition]:
    with connected(server.address) as connection:
        return definitions(connection, [(DATABASE, row[0]) for row in server.rows("SHOW TABLES")])


def facts(table: TableDefinition) -> Iterator[tuple[object, ...]]:
    for column in table.columns:
        yield column.name, str(column.type), column.type.labels, column.nullable, column.charset, column.comment


def check_equal(server: Playground, tables: Tables, sql: str) -> None:
    """Apply a statement that the server has executed, and compare all tables with the server's."""
    query = Query(sql, DATABASE, ansi_quotes=False, backslash_escapes=True)
    for statement in parse_ddl(query, mariadb=server.is_mariadb):
        changes = tables.apply(statement)
        assert not [change for change in changes if change.kind == "unclear"], sql
    theirs = server_s(server)
    assert tables.known.keys() == theirs.keys(), sql
    for name, table in theirs.items():
        assert list(facts(tables.known[name])) == list(facts(table)), sql
        assert tables.known[name].primary_key == table.primary_key, sql
        assert tables.known[name].comment == table.comment, sql


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_history_and_server_have_equal_tables_after_every_statement(server: Playground, seed: int) -> None:
    writer = Writer(seed, mariadb=server.is_mariadb)
    tables = Tables(charsets={DATABASE: "utf8mb4"})
    accepted = 0
    for _ in range(160):
        sql = writer.statement()
        try:
            server.run(sql)
        except pymysql.MySQLError:
            continue
        accepted += 1
        check_equal(server, tables, sql)
    assert accepted > 40


def test_names_that_look_like_numbers_are_those_of_the_server(server: Playground) -> None:
    tables = Tables(charsets={DATABASE: "utf8mb4"})
    names = [f"{DATABASE}.2024_orders", f"{DATABASE}.12", f"{DATABASE}.1e5", f"{DATABASE}.0x1", "0b1x", "0xaz", "1e"]
    for name in [*names, *([".x"] if server.is_mariadb else [])]:
        for sql in (f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"ALTER TABLE {name} ADD 1a DECIMAL(2, 1) DEFAULT .5"):
            server.run(sql)
            check_equal(server, tables, sql)
