"""Values that INSERT, UPDATE and MERGE store in columns of other types, the same in all three."""

from __future__ import annotations

from datetime import date, datetime, time
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter

COLUMNS = {
    "bo": "BOOLEAN",
    "i": "INT",
    "g": "BIGINT",
    "f": "DOUBLE",
    "c": "STRING",
    "d": "DATE",
    "t": "TIME",
    "ts": "TIMESTAMP(6)",
}
KEYS = {"append": "", "keyed": ", PRIMARY KEY (id) NOT ENFORCED"}
STATEMENTS = {
    "insert": "INSERT INTO t (id, {column}) SELECT 1, {value}",
    "values": "INSERT INTO t (id, {column}) VALUES (1, {value})",
    "update": "UPDATE t SET {column} = {value}",
    "merge": "MERGE INTO t USING (SELECT 1 AS k) AS s ON k = id WHEN MATCHED THEN UPDATE SET {column} = {value}",
    "merged": "MERGE INTO t USING (SELECT 2 AS id, {value} AS {column}) AS s ON s.id = t.id "
    "WHEN NOT MATCHED THEN INSERT (id, {column}) VALUES (id, {column})",
}
AT = "2024-02-29 12:00"
STORED = [
    ("bo", "'true'", True),
    ("bo", "'False'", False),
    ("bo", "NULL", None),
    ("bo", "5 <> 0", True),
    ("i", "'12'", 12),
    ("i", "'1e2'", 100),
    ("i", "1.5", 2),  # as DuckDB rounds it; Spark and Flink cut it off
    ("i", "true", 1),
    ("g", "'9223372036854775807'", 2**63 - 1),
    ("f", "'1.5'", 1.5),
    ("f", "3", 3.0),
    ("c", "1.5", "1.5"),
    ("c", "DATE '2024-02-29'", "2024-02-29"),
    ("d", "'2024-02-29'", date(2024, 2, 29)),
    ("d", f"TIMESTAMP '{AT}'", date(2024, 2, 29)),
    ("t", "'12:30:00'", time(12, 30)),
    ("ts", f"'{AT}'", datetime(2024, 2, 29, 12)),
    ("ts", "'2024-02-29T12:00:00Z'", datetime(2024, 2, 29, 12)),
    ("ts", "DATE '2024-02-29'", datetime(2024, 2, 29)),
]
REFUSED = [
    ("bo", "'yes'"),
    ("bo", "'t'"),
    ("bo", "'1'"),
    ("bo", "5"),
    ("bo", "1.5"),
    ("bo", "CAST(0 AS DOUBLE)"),
    ("i", "'1.9'"),
    ("g", "'1.5e0'"),
    ("d", f"'{AT}'"),
    ("d", "'2024-02-29T00:00:00'"),
    ("t", "'2024-02-29'"),
    ("t", f"'{AT}'"),
    ("ts", f"'{AT}:00+02:00'"),
]
# DuckDB has no cast, or refuses the value.
IMPOSSIBLE = [("bo", "'abc'"), ("bo", "DATE '2024-02-29'"), ("i", "'abc'"), ("i", "DATE '2024-02-29'"), ("d", "1")]


@pytest.fixture(params=KEYS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Interpreter:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    made = Interpreter(catalog, "d")
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    list(made.run(f"CREATE TABLE t (id INT, {columns}{KEYS[request.param]}); INSERT INTO t (id) VALUES (1)"))
    return made


@pytest.mark.parametrize("statement", STATEMENTS)
def test_values_that_fit_are_stored(lake: Interpreter, statement: str) -> None:
    for column, value, stored in STORED:
        list(lake.run("INSERT OVERWRITE t (id) VALUES (1)"))
        list(lake.run(STATEMENTS[statement].format(column=column, value=value)))
        (found,) = lake.run(f"SELECT {column} FROM t ORDER BY {column} IS NULL, id LIMIT 1")
        assert found.to_pylist() == [{column: stored}], (column, value)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_values_that_would_be_stored_in_part_are_refused(lake: Interpreter, statement: str) -> None:
    for column, value in REFUSED:
        with pytest.raises(ConfigError, match=rf"the column '{column}', which is \w+") as refused:
            list(lake.run(STATEMENTS[statement].format(column=column, value=value)))
        assert refused.value.hint
    for column, value in IMPOSSIBLE:
        with pytest.raises(ConfigError):
            list(lake.run(STATEMENTS[statement].format(column=column, value=value)))
    (found,) = lake.run("SELECT * EXCLUDE (id) FROM t")
    assert found.to_pylist() == [dict.fromkeys(COLUMNS)]


@pytest.fixture
def nested(tmp_path: Path) -> Interpreter:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    made = Interpreter(catalog, "d")
    columns = (
        "s ROW<d DATE, n INT, b BOOLEAN, q ROW<t TIME>>, a ARRAY<ROW<d DATE>>, l ARRAY<ARRAY<INT>>, m MAP<INT, DATE>"
    )
    list(made.run(f"CREATE TABLE t (id INT, {columns}); INSERT INTO t (id) VALUES (1)"))
    return made


@pytest.mark.parametrize("key", ["insert", "update", "merge", "merged"])
def test_members_that_would_be_stored_in_part_are_refused(nested: Interpreter, key: str) -> None:
    refused = [
        ("s", f"{{'d': '{AT}'}}", "s.d"),
        ("s", f"row('{AT}', 1, true, NULL)", "s.d"),
        ("s", "{'n': '1.5'}", "s.n"),
        ("s", "{'b': 1}", "s.b"),
        ("s", "{'d': '2024-02-29', 'q': {'t': '2024-02-29'}}", "s.q.t"),
        ("a", f"[{{'d': '2024-02-29'}}, {{'d': '{AT}'}}]", "a.element.d"),
        ("l", "[['1'], NULL, ['2', '2.5']]", "l.element.element"),
        ("l", "[array_value('1', '2.5')]", "l.element.element"),
        ("m", f"MAP {{1: '{AT}'}}", "m.value"),
        ("m", "MAP {'1.5': '2024-02-29'}", "m.key"),
        ("s", "'{n: 1.5}'", "s.n"),
        ("s", "'{q: {t: 2024-02-29 10:00}}'", "s.q.t"),
        ("s", "{'q': '{t: 2024-02-29 10:00}'}", "s.q.t"),
        ("a", f"'[NULL, {{d: {AT}}}]'", "a.element.d"),
        ("l", "'[[1], NULL, [2, 2.5]]'", "l.element.element"),
        ("l", "['[1]', '[2.5]']", "l.element.element"),
        ("m", f"'{{1={AT}}}'", "m.value"),
        ("m", "'{1.5=2024-02-29}'", "m.key"),
    ]
    for column, value, place in refused:
        with pytest.raises(ConfigError, match=rf"the column '{place}', which is \w+"):
            list(nested.run(STATEMENTS[key].format(column=column, value=value)))
    (found,) = nested.run("SELECT s, a, l, m FROM t")
    assert found.to_pylist() == [{"s": None, "a": None, "l": None, "m": None}]


def test_fields_that_would_be_stored_in_part_are_refused_by_set(nested: Interpreter) -> None:
    list(nested.run("UPDATE t SET s.d = '2024-02-29', s.n = 1.5"))
    for field, value in (("d", f"'{AT}'"), ("n", "'1.5'"), ("q.t", "'2024-02-29'"), ("b", "5")):
        with pytest.raises(ConfigError, match=f"the column 's.{field}'"):
            list(nested.run(f"UPDATE t SET s.{field} = {value}"))
    (found,) = nested.run("SELECT s FROM t")
    assert found.to_pylist() == [{"s": {"d": date(2024, 2, 29), "n": 2, "b": None, "q": None}}]


@pytest.mark.parametrize("form", ["values", "text"])
def test_members_that_fit_are_stored(nested: Interpreter, form: str) -> None:
    texts = {
        "s": ("'{d: 2024-02-29, b: \"true\", q: NULL}'", {"d": date(2024, 2, 29), "n": None, "b": True, "q": None}),
        "a": ("'[{d: 2024-02-29}, NULL]'", [{"d": date(2024, 2, 29)}, None]),
        "l": ("'[[1, 1e2], [], NULL]'", [[1, 100], [], None]),
        "m": ("'{1=2024-02-29, 2=NULL}'", [(1, date(2024, 2, 29)), (2, None)]),
    }
    values = {
        "s": ("{'D': '2024-02-29', 'b': 'true', 'q': NULL}", {"d": date(2024, 2, 29), "n": None, "b": True, "q": None}),
        "a": ("[{'d': '2024-02-29'}, NULL]", [{"d": date(2024, 2, 29)}, None]),
        "l": ("[['1'], [], NULL]", [[1], [], None]),
        "m": ("MAP {'1': '2024-02-29', '2': NULL}", [(1, date(2024, 2, 29)), (2, None)]),
    }
    fitting = texts if form == "text" else values
    for column, (value, _) in fitting.items():
        list(nested.run(f"UPDATE t SET {column} = {value}"))
    (found,) = nested.run("SELECT s, a, l, m FROM t")
    assert found.to_pylist() == [{column: stored for column, (_, stored) in fitting.items()}]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET s = {value}",
        "UPDATE t SET s = {value} WHERE id > 5",
        "MERGE INTO t USING (SELECT 1 AS k) AS u ON k = id WHEN MATCHED THEN UPDATE SET s = {value}",
        "MERGE INTO t USING (SELECT 1 AS k) AS u ON k = id WHEN NOT MATCHED THEN INSERT (id, s) VALUES (k, {value})",
        "MERGE INTO t USING (SELECT 1 AS id, {value} AS s) AS u ON t.id = u.id WHEN MATCHED THEN UPDATE SET *",
    ],
)
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_fields_that_a_struct_does_not_have_are_refused(tmp_path: Path, key: str, statement: str) -> None:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    lake = Interpreter(catalog, "d")
    list(lake.run(f"CREATE TABLE t (id INT, s STRUCT<a: INT, n: STRUCT<x: INT>>{key}); INSERT INTO t VALUES (1, NULL)"))
    for value, missing in (("{'a': 1, 'q': 5}", "'s' has no field 'q'"), ("{'n': {'y': 5}}", "'s.n' has no field 'y'")):
        with pytest.raises(ConfigError, match=f"the struct {missing}"):
            list(lake.run(statement.format(value=value)))
    list(lake.run(statement.format(value="{'A': 1}")))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET v = 2 WHERE _ROW_ID = 0",
        "UPDATE t SET v = _ROW_ID",
        "DELETE FROM t WHERE _ROW_ID = 0",
        "DELETE FROM t WHERE _ROW_ID = (SELECT 0)",
        "MERGE INTO t USING (SELECT 0 AS k) AS s ON k = t._ROW_ID WHEN MATCHED THEN UPDATE SET v = 2",
        "MERGE INTO t USING (SELECT 1 AS k) AS s ON k = id WHEN MATCHED AND _ROW_ID = 0 THEN DELETE",
        "UPDATE t SET v = 2 WHERE _penstock_row = 0",
    ],
)
def test_columns_that_only_the_statement_reads_cannot_be_named(tmp_path: Path, statement: str) -> None:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    lake = Interpreter(catalog, "d")
    list(lake.run("CREATE TABLE t (id INT, v INT) WITH ('row-tracking.enabled' = 'true'); INSERT INTO t VALUES (1, 1)"))
    with pytest.raises(ConfigError):
        list(lake.run(statement))
    (found,) = lake.run("SELECT * FROM t")
    assert found.to_pylist() == [{"id": 1, "v": 1}]
