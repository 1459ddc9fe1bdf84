"""Two tables whose names differ in case only, in one statement: DuckDB would read one of them for both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter

KEY = "(id INT, PRIMARY KEY (id) NOT ENFORCED)"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Interpreter]:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    catalog.create_database("D")
    with Interpreter(catalog, "d") as made:
        for name in ("a", "A", "D.a"):
            list(made.run(f"CREATE TABLE {name} {KEY}"))
        list(made.run("INSERT INTO a VALUES (1), (2), (3); INSERT INTO A VALUES (2), (9); INSERT INTO D.a VALUES (7)"))
        yield made


def ids(lake: Interpreter, query: str) -> list[int]:
    *_, found = lake.run(query)
    return sorted(row["id"] for row in found.to_pylist())


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM a WHERE id IN (SELECT id FROM A)",
        "DELETE FROM a WHERE id IN (SELECT id FROM D.a)",
        "MERGE INTO a USING A AS s ON a.id = s.id WHEN MATCHED THEN DELETE",
        "INSERT INTO a SELECT a.id FROM a JOIN A AS other ON a.id = other.id",
        "SELECT x.id FROM a AS x JOIN A AS y ON x.id = y.id",
    ],
)
def test_a_statement_on_both_is_refused(lake: Interpreter, statement: str) -> None:
    with pytest.raises(ConfigError, match="differ in upper and lower case only"):
        list(lake.run(statement))
    assert (ids(lake, "SELECT id FROM a"), ids(lake, "SELECT id FROM A")) == ([1, 2, 3], [2, 9])


def test_a_view_of_one_of_them_and_the_other_are_refused(lake: Interpreter) -> None:
    list(lake.run("CREATE TEMPORARY VIEW v AS SELECT id FROM a"))
    with pytest.raises(ConfigError, match="differ in upper and lower case only"):
        list(lake.run("SELECT v.id FROM v JOIN A AS y ON v.id = y.id"))
    assert ids(lake, "SELECT id FROM v") == [1, 2, 3]


def test_statements_on_one_of_them_are_right(lake: Interpreter) -> None:
    list(lake.run("DELETE FROM a WHERE id = 2; DELETE FROM A WHERE id > 2; INSERT INTO D.a SELECT id + 10 FROM a"))
    assert ids(lake, "SELECT id FROM a") == [1, 3]
    assert ids(lake, "SELECT id FROM A") == [2]
    assert ids(lake, "SELECT id FROM D.a") == [7, 11, 13]
    assert ids(lake, "SELECT id FROM `D`.a UNION ALL SELECT id FROM D.a") == [7, 7, 11, 11, 13, 13]


def test_a_view_of_one_of_them_leaves_statements_on_the_other_right(lake: Interpreter) -> None:
    list(lake.run("CREATE TEMPORARY VIEW v AS SELECT id FROM a; DELETE FROM A WHERE id = 2"))
    assert ids(lake, "SELECT id FROM A") == [9]
    list(lake.run("CREATE TEMPORARY VIEW w AS SELECT id FROM A; INSERT INTO A VALUES (4); DELETE FROM a WHERE id = 1"))
    assert ids(lake, "SELECT id FROM v") == [2, 3]
    assert ids(lake, "SELECT id FROM w") == [4, 9]
    with pytest.raises(ConfigError, match="differ in upper and lower case only"):
        list(lake.run("SELECT id FROM v UNION ALL SELECT id FROM w"))
    list(lake.run("DROP TEMPORARY VIEW v; CREATE TEMPORARY VIEW v AS SELECT id + 10 AS id FROM w"))
    assert ids(lake, "SELECT id FROM v UNION ALL SELECT id FROM w") == [4, 9, 14, 19]


def test_letters_beyond_ascii_have_a_case_in_duckdb(lake: Interpreter) -> None:
    for number, name in enumerate(("`é`", "`É`")):
        list(lake.run(f"CREATE TABLE {name} {KEY}; INSERT INTO {name} VALUES ({number})"))
    assert ids(lake, "SELECT id FROM `é` UNION ALL SELECT id FROM `É`") == [0, 1]
