"""Statements that change the type of columns, on real servers: whose values are others then, is always known."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pymysql
import pytest

from penstock.ingest.mysql.ddl.ddl_parser import parse_ddl
from penstock.ingest.mysql.ddl.kept_values import rewritten_columns
from penstock.ingest.mysql.ddl.query import Query
from penstock.ingest.mysql.ddl.statements import AlterTableStatement
from tests.integration.mysql.literals import MARIADB_TYPES, MYSQL_TYPES, Draw, bits, datetime, decimal, one_of, text
from tests.integration.mysql.playground import DATABASE, Playground

# What random pairs of types seldom are.
CHOSEN = [
    ("FLOAT", ["1.256"], "DOUBLE(12,1)"),
    ("FLOAT(7,3)", ["1.256"], "FLOAT(7,1)"),
    ("DOUBLE", ["1.256"], "DOUBLE(12,1)"),
    ("FLOAT", ["1.256"], "DOUBLE"),
    ("TINYTEXT CHARACTER SET latin1", ["REPEAT('é', 200)"], "TINYTEXT CHARACTER SET utf8mb4"),
    ("TINYTEXT CHARACTER SET latin1", ["REPEAT('a', 200)"], "TINYTEXT CHARACTER SET utf16"),
    ("TEXT CHARACTER SET latin1", ["REPEAT('é', 40000)"], "TEXT CHARACTER SET utf8mb4"),
    ("VARCHAR(9) CHARACTER SET ascii", ["'[a]~'"], "VARCHAR(9) CHARACTER SET swe7"),
    ("VARCHAR(9) CHARACTER SET latin1", ["X'8190'", "'é'"], "VARCHAR(9) CHARACTER SET utf8mb4"),
    ("VARCHAR(5)", ["'ab   '"], "VARCHAR(2)"),
    ("CHAR(5)", ["'ab'"], "VARCHAR(5)"),
    ("DATE NOT NULL", ["'0000-00-00'"], "DATE"),
    ("DATE", ["'0000-00-00'"], "DATE NOT NULL"),
    ("TIME NOT NULL", ["'25:00:00'"], "TIME"),
    ("TIMESTAMP NULL", ["NULL"], "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP"),
    ("DATETIME", ["NULL", "'0000-00-00'"], "DATETIME(3) NOT NULL"),
    ("INT", ["NULL"], "INT NOT NULL"),
    ("SET('a','b')", ["'a'", "'a,b'"], "SET('A','b')"),
    ("ENUM('a','b')", ["'a'", "'b'"], "ENUM('A','B')"),
    ("ENUM('e','b')", ["'e'"], "ENUM('é','b')"),
    ("ENUM('a','A') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", ["'a'"], "ENUM('A') CHARACTER SET utf8mb4"),
    ("ENUM('a','b')", ["'b'"], "ENUM('b')"),
    ("BLOB", ["X'FF'"], "TEXT"),
    ("BIT(9)", ["b'101'"], "BIT(17)"),
    ("DECIMAL(10,2)", ["-1.25"], "DECIMAL(10,2) UNSIGNED ZEROFILL"),
    ("VARBINARY(3)", ["X'6100'"], "BINARY(4)"),
]
# The column keeps its values, and what is computed from it does not.
COMPUTED = [
    ("DECIMAL(10,2)", "1.5", "CONCAT('x', a)", "DECIMAL(14,4)"),
    ("VARCHAR(9) CHARACTER SET latin1", "'é'", "LENGTH(a)", "VARCHAR(9) CHARACTER SET utf8mb4"),
    ("DATETIME", "'2024-01-01'", "CONCAT('x', a)", "DATETIME(3)"),
    ("FLOAT", "0.1", "CONCAT('x', a)", "DOUBLE"),
    ("ENUM('a','b')", "'b'", "a + 0", "ENUM('c','a','b')"),
]
MORE_TYPES: dict[str, Draw] = {
    "DECIMAL(10,2) UNSIGNED": decimal(10, 2),
    "DECIMAL(12,4)": decimal(12, 4),
    "FLOAT(10,5)": one_of("1.23456", "99999.12345"),
    "VARCHAR(3)": text("ab é", 3),
    "ENUM('b','a','c')": one_of("'a'", "'b'", "''"),
    "SET('b','a')": one_of("'a'", "'a,b'"),
    "DATETIME(1)": datetime(1),
    "BIT(10)": bits(10),
}
Value = object


def normal(value: Value) -> Value:
    """One form for values of different types that are the same: numbers, texts and their bytes, times of any zone."""
    match value:
        case bool() | int() | Decimal():
            return Decimal(value)
        case float():
            return Decimal(repr(value))
        case bytes():
            return value.decode("latin-1")
        case list():
            return ",".join(map(str, value))
        case dt.datetime():
            return value.replace(tzinfo=None)
    return value


def silently_changed(server: Playground, statement: str, mode: str) -> dict[str, tuple[Value, Value]]:
    """Alter the table t, and return the columns that have other values, with an example, but are said to keep them."""
    name = (DATABASE, "t")
    before, rows = server.definitions("t").tables[name], server.snapshot("t").sort_by("id")
    server.run(f"SET sql_mode = '{mode}'")
    try:
        server.run(statement)
    except pymysql.MySQLError:  # these values or types do not go together
        return {}
    finally:
        server.run("SET sql_mode = ''")
    after, now = server.definitions("t").tables[name], server.snapshot("t").sort_by("id")
    query = Query(statement, DATABASE, ansi_quotes=False, backslash_escapes=True, is_strict=bool(mode))
    (parsed,) = parse_ddl(query, mariadb=server.is_mariadb)
    assert isinstance(parsed, AlterTableStatement)
    known = rewritten_columns(before, after, parsed.changes, is_strict=parsed.is_strict)
    found: dict[str, tuple[Value, Value]] = {}
    for column in rows.column_names:
        for old, new in zip(rows[column].to_pylist(), now[column].to_pylist(), strict=True):
            if normal(old) != normal(new) and column not in known:
                found[column] = (old, new)
    return found


@pytest.mark.parametrize("mode", ["", "STRICT_ALL_TABLES"], ids=["lenient", "strict"])
def test_values_that_chosen_statements_change_are_known(server: Playground, mode: str) -> None:
    wrong = {}
    for old, values, new in CHOSEN:
        server.run("DROP TABLE IF EXISTS t", f"CREATE TABLE t (id INT PRIMARY KEY, a {old}) CHARACTER SET utf8mb4")
        for place, value in enumerate(values):
            server.run(f"INSERT INTO t VALUES ({place}, {value})")
        if found := silently_changed(server, f"ALTER TABLE t MODIFY a {new}", mode):
            wrong[old, new] = found
    assert wrong == {}


def test_values_that_are_computed_from_changed_columns_are_known(server: Playground) -> None:
    wrong = {}
    for old, value, expression, new in COMPUTED:
        for way in ("VIRTUAL", "STORED"):
            server.run(
                "DROP TABLE IF EXISTS t",
                f"CREATE TABLE t (id INT PRIMARY KEY, a {old}, g VARCHAR(40) AS ({expression}) {way})",
                f"INSERT INTO t (id, a) VALUES (1, {value})",
            )
            if found := silently_changed(server, f"ALTER TABLE t MODIFY a {new}", ""):
                wrong[old, new, way] = found
    assert wrong == {}


@pytest.mark.parametrize("seed", [1, 2])
def test_values_that_random_statements_change_are_known(server: Playground, seed: int) -> None:
    dice = random.Random(f"types {seed}")
    types = {**(MARIADB_TYPES if server.is_mariadb else MYSQL_TYPES), **MORE_TYPES}
    families: dict[str, list[str]] = {}
    for kind in types:
        families.setdefault(kind[:3].replace("VAR", "CHA").replace("TEX", "CHA"), []).append(kind)
    kinds = dice.sample(list(types), 12)
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(kinds))
    server.run(f"CREATE TABLE o (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4")
    for row in range(12):
        values = ", ".join("NULL" if dice.random() < 0.1 else types[kind](dice) for kind in kinds)
        server.run(f"INSERT IGNORE INTO o VALUES ({row}, {values})")
    wrong = []
    for _ in range(8):
        server.run("DROP TABLE IF EXISTS t", "CREATE TABLE t LIKE o", "INSERT INTO t SELECT * FROM o")
        place = dice.randrange(len(kinds))
        family = families[kinds[place][:3].replace("VAR", "CHA").replace("TEX", "CHA")]
        new = dice.choice(family if dice.random() < 0.7 else list(types))
        required = " NOT NULL" if "NULL" not in new and dice.random() < 0.3 else ""
        clause = f"MODIFY c{place} {new}{required}"
        if dice.random() < 0.2:
            clause = (
                f"CONVERT TO CHARACTER SET {dice.choice(['latin1', 'utf8mb4', 'utf8mb3', 'gbk', 'utf16', 'ascii'])}"
            )
        mode = dice.choice(["", "", "STRICT_ALL_TABLES"])
        if found := silently_changed(server, f"ALTER TABLE t {clause}", mode):
            wrong.append((kinds[place], clause, mode, found))
    assert wrong == []
