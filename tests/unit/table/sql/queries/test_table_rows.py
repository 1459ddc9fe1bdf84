"""Queries on random tables: with filters pushed into the scan, the rows are those of a filter of all rows.

DuckDB has the whole table in its own format as the judge, and runs the same queries on it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter
from tests.random_tables.conditions import Column, Conditions
from tests.random_tables.tables import Limits, random_table

pytestmark = pytest.mark.slow

FIRST = int(os.environ.get("PENSTOCK_FILTER_SEED", "1"))
TABLES = range(FIRST, FIRST + int(os.environ.get("PENSTOCK_FILTER_TABLES", "8")))
QUERIES = int(os.environ.get("PENSTOCK_FILTER_QUERIES", "40"))


def judge_of(table: pa.Table) -> duckdb.DuckDBPyConnection:
    """Return a session of DuckDB in which `t` has these rows, without any scan of ours."""
    judge = duckdb.connect()
    judge.execute("SET TimeZone = 'UTC'")
    judge.register("given", table)
    judge.execute("CREATE TABLE t AS SELECT * FROM given")
    return judge


def columns_of(judge: duckdb.DuckDBPyConnection) -> list[Column]:
    """The columns, and members of their structures, with literals of the values that they have."""
    described = judge.execute("DESCRIBE t").fetchall()
    paths = [(f'"{name}"', type_) for name, type_, *_ in described]
    for name, type_, *_ in described:
        if type_.startswith("STRUCT"):
            inner = judge.execute(f'DESCRIBE SELECT unnest("{name}") FROM t').fetchall()
            paths += [(f'"{name}"."{member}"', kind) for member, kind, *_ in inner]
    found = []
    for path, type_ in paths:
        texts = judge.execute(
            f"SELECT DISTINCT CAST({path} AS VARCHAR) v FROM t WHERE v IS NOT NULL ORDER BY v"
        ).fetchall()
        literals = ["CAST('{}' AS {})".format(text.replace("'", "''"), type_) for (text,) in texts]
        if literals:
            found.append(Column(path, type_, literals))
    return found


def query(choice: random.Random, columns: list[Column]) -> str:
    """One of the forms in which DuckDB gives filters to a scan."""
    where, column = Conditions(columns).one(choice), choice.choice(columns)
    shown = ", ".join(column.name for column in choice.sample(columns, choice.randint(1, min(3, len(columns)))))
    return choice.choice(
        [
            f"SELECT {shown} FROM t WHERE {where}",
            f"SELECT * FROM t WHERE {where}",
            f"SELECT count(*) FROM t WHERE {where}",
            f"SELECT count({column.name}), min({column.name}), max({column.name}) FROM t WHERE {where}",
            f"SELECT {column.name} FROM t WHERE {column.name} IN (SELECT {column.name} FROM t WHERE {where})",
            f"SELECT {column.name} FROM t WHERE {where} ORDER BY 1 {choice.choice(['', 'DESC'])} LIMIT 3",
            f"SELECT a.{column.name} FROM t a JOIN (SELECT DISTINCT {column.name} AS k FROM t WHERE {where}) b"
            f" ON a.{column.name} = b.k",
        ]
    )


def shown(rows: pa.Table) -> list[str]:
    # The two zeros are equal, so that either of them may be the least of a column.
    return sorted(repr(tuple(row.values())).replace("-0.0", "0.0") for row in rows.to_pylist())


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = Catalog(str(tmp_path), {"local.sync": "false"})
    catalog.create_database("d")
    return catalog


@pytest.mark.parametrize("seed", TABLES)
def test_a_pushed_filter_keeps_the_rows_of_a_filter_of_all_rows(catalog: Catalog, seed: int) -> None:
    table = random_table(catalog, "d.t", seed, Limits())
    interpreter = Interpreter(catalog)
    for _ in interpreter.run("USE d"):
        pass
    judge, choice = judge_of(table.scan().to_arrow()), random.Random(seed)
    columns = columns_of(judge)
    for _ in range(QUERIES if columns else 0):
        sql = query(choice, columns)
        try:
            expected = judge.sql(sql).to_arrow_table()
        except duckdb.Error:
            continue  # such as a number that is too large for a type
        try:
            found = list(interpreter.run(sql))[-1]
        except PenstockError as error:
            raise AssertionError(f"seed {seed}: {sql}") from error
        assert shown(found) == shown(expected), f"seed {seed}: {sql}"
