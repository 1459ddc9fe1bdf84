"""Values of columns with lengths and fields: what does not fit inside of an array, a map or a struct is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter

COLUMNS = """id INT, s STRUCT<a: INT, b: VARCHAR(2), `c d`: ARRAY<STRUCT<e: VARCHAR(2)>>>, l ARRAY<VARCHAR(2)>,
    m MAP<VARCHAR(2), VARBINARY(2)>, i STRUCT<a: INT, n: STRUCT<x: INT>>, j ARRAY<STRUCT<x: INT>>"""


@pytest.fixture(params=["", ", PRIMARY KEY (id) NOT ENFORCED"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Interpreter:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    made = Interpreter(catalog, "d")
    list(made.run(f"CREATE TABLE t ({COLUMNS}{request.param}); INSERT INTO t (id, s) VALUES (1, {{'a': 1, 'b': 'x'}})"))
    return made


def test_values_of_the_right_length_inside_of_others_are_stored(lake: Interpreter) -> None:
    values = "{'a': 1, 'b': 'ab', 'c d': [{'e': 'é'}, NULL]}, ['ab', NULL], MAP {'ab': 'x'::BLOB, 'c': NULL}"
    list(lake.run(f"INSERT INTO t (id, s, l, m) VALUES (2, {values}), (3, NULL, NULL, NULL), (4, NULL, [], MAP {{}})"))
    (found,) = lake.run("SELECT s, l, m FROM t WHERE id > 1 ORDER BY id")
    assert [list(row.values()) for row in found.to_pylist()] == [
        [{"a": 1, "b": "ab", "c d": [{"e": "é"}, None]}, ["ab", None], [("ab", b"x"), ("c", None)]],
        [None, None, None],
        [None, [], []],
    ]


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("INSERT INTO t (id, s) VALUES (1, {'a': 1, 'b': 'abc'})", "'s.b', which is VARCHAR"),
        ("INSERT INTO t (id, s) VALUES (1, {'c d': [{'e': 'abc'}]})", "'s.c d.element.e', which is VARCHAR"),
        ("INSERT INTO t (id, l) VALUES (1, ['ab', 'abc'])", "'l.element', which is VARCHAR"),
        ("INSERT INTO t (id, m) VALUES (1, MAP {'abc': NULL})", "'m.key', which is VARCHAR"),
        ("INSERT INTO t (id, m) VALUES (1, MAP {'a': 'abc'::BLOB})", "'m.value', which is VARBINARY"),
        ("UPDATE t SET s.b = 'abc'", "'s.b', which is VARCHAR"),
        ("MERGE INTO t USING (SELECT 1 AS k) u ON k = id WHEN MATCHED THEN UPDATE SET l = ['abc']", "'l.element'"),
    ],
)
def test_values_that_are_too_long_inside_of_others_are_refused(lake: Interpreter, statement: str, column: str) -> None:
    with pytest.raises(ConfigError, match=f"too long for the column {column}"):
        list(lake.run(statement))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 2, {'a': 1, 'q': 5}, NULL", "the struct 'i' has no field 'q'"),
        ("VALUES (2, {'a': 1, 'n': {'x': 1, 'y': 2}}, NULL)", "the struct 'i.n' has no field 'y'"),
        ("SELECT 2, NULL, [{'x': 1, 'z': 2}]", "the struct 'j.element' has no field 'z'"),
    ],
)
def test_fields_that_the_table_does_not_have_are_refused(lake: Interpreter, query: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list(lake.run(f"INSERT INTO t (id, i, j) {query}"))
    list(
        lake.run(
            "INSERT INTO t (id, i, j) SELECT 2, {'A': 1}, [{'x': 1}]; INSERT INTO t (id, i) SELECT 3, row(7, NULL)"
        )
    )
    (found,) = lake.run("SELECT i.a FROM t WHERE id > 1 ORDER BY id")
    assert found.column("a").to_pylist() == [1, 7]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE t SET i = {'a': 1, 'q': 5}", "the struct 'i' has no field 'q'"),
        ("UPDATE t AS x SET i.n = {'x': 1, 'y': 2} WHERE x.id = 1", "the struct 'i.n' has no field 'y'"),
        ("{merge} WHEN MATCHED THEN UPDATE SET i = u.i", "the struct 'i' has no field 'x'"),
        ("{merge} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, j) VALUES (u.id, [u.i])", "'j.element'"),
        ("{merge} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET i = {'a': 1, 'q': 5}", "the struct 'i' has no field 'q'"),
    ],
)
def test_changes_with_fields_that_the_table_does_not_have_are_refused(
    lake: Interpreter, statement: str, message: str
) -> None:
    merge = "MERGE INTO t USING (SELECT 2 AS id, {'a': 1, 'x': 2, 'q': 5} AS i) AS u ON t.id = u.id"
    with pytest.raises(ConfigError, match=message):
        list(lake.run(statement.replace("{merge}", merge)))
    list(lake.run("UPDATE t SET i = {'n': {'x': 7}, 'A': id}, j = NULL WHERE id = 1"))
    (found,) = lake.run("SELECT i, j FROM t")
    assert found.to_pylist() == [{"i": {"a": 1, "n": {"x": 7}}, "j": None}]
