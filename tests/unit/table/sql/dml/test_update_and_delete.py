"""SET of UPDATE and MERGE names columns of the table, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter

KEY = ", PRIMARY KEY (id) NOT ENFORCED"
ROWS = [{"id": 1, "v": 1, "s": {"v": 2, "w": "x"}}]
MERGE = "MERGE INTO t USING (SELECT 1 AS id, 9 AS v) AS s0 ON t.id = s0.id WHEN MATCHED THEN UPDATE SET "


@pytest.fixture(params=["", KEY])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Interpreter:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    made = Interpreter(catalog, "d")
    columns = f"id INT, v INT, s STRUCT<v: INT, w: STRING>{request.param}"
    list(made.run(f"CREATE TABLE t ({columns}); INSERT INTO t VALUES (1, 1, {{'v': 2, 'w': 'x'}})"))
    return made


def rows(lake: Interpreter) -> list[dict[str, object]]:
    (found,) = lake.run("SELECT * FROM t")
    listed: list[dict[str, object]] = found.to_pylist()
    return listed


@pytest.mark.parametrize("statement", ["UPDATE t SET s.v = 5", f"{MERGE}s.v = 5", f"{MERGE}s0.v = 5"])
def test_a_name_of_another_place_does_not_set_the_column_of_the_same_name(lake: Interpreter, statement: str) -> None:
    with pytest.raises(ConfigError, match="is not a column of the table that is changed") as refused:
        list(lake.run(statement))
    assert "with the whole struct" in str(refused.value.hint)
    assert refused.value.facts["column"] > 1
    assert rows(lake) == ROWS


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET t.v = 5",
        "UPDATE d.t SET D.t.v = 5",
        "UPDATE d.t AS x SET x.v = 5",
        "UPDATE d.t AS x SET t.v = 5",
        f"{MERGE}t.v = 5",
        "MERGE INTO t AS x USING (SELECT 1 AS id) AS y ON x.id = y.id WHEN MATCHED THEN UPDATE SET X.v = 5",
    ],
)
def test_a_column_is_set_behind_its_table_or_the_alias(lake: Interpreter, statement: str) -> None:
    list(lake.run(statement))
    assert rows(lake) == [{**ROWS[0], "v": 5}]


def test_a_struct_is_set_with_fields_of_the_old_one(lake: Interpreter) -> None:
    list(lake.run("UPDATE t SET s = {'v': s.v + 1, 'w': s.w}"))
    assert rows(lake) == [{**ROWS[0], "s": {"v": 3, "w": "x"}}]
