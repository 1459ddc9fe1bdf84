"""VARIANT columns in queries: whole values are copied, and their members are not read in silence as NULL."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter


@pytest.fixture
def lake(tmp_path: Path) -> Interpreter:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    made = Interpreter(catalog, "d")
    list(made.run("""CREATE TABLE t (id INT, v VARIANT, j STRING); INSERT INTO t VALUES (1, '{"k": 5}', '{"k": 6}')"""))
    return made


@pytest.mark.parametrize(
    ("value", "function"),
    [
        ("v ->> 'k'", "->>"),
        ("v -> 'k'", "->"),
        ("t.v->'k'", "->"),
        ("json_extract(v, '$.k')", "json_extract"),
        ("json_extract(t.v, '$.k')", "json_extract"),
        ("json_extract_string(v, '$.k')", "json_extract_string"),
    ],
)
def test_functions_of_json_on_a_variant_are_refused(lake: Interpreter, value: str, function: str) -> None:
    for statement in (
        f"SELECT {value} AS x FROM t",
        f"SELECT id FROM t WHERE ({value}) IS NULL",
        f"SELECT x FROM (SELECT {value} AS x FROM t)",
        f"UPDATE t SET j = {value}",
    ):
        with pytest.raises(
            ConfigError, match=rf"members of a VARIANT cannot be read by {re.escape(function)}(\n|$)"
        ) as refused:
            list(lake.run(statement))
        assert "in a STRING column" in str(refused.value.hint)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT w -> 'k' FROM (SELECT v AS w FROM t)",
        "SELECT s.w->'k' FROM (SELECT v w FROM t) AS s",
        "SELECT x -> 'k' FROM (SELECT w AS x FROM (SELECT v AS w FROM t))",
        "SELECT s.w -> 'k' FROM (SELECT id, v FROM t) AS s(id, w)",
        "SELECT json_extract(w, '$.k') FROM (SELECT v FROM t) s (w)",
        "WITH s(w) AS (SELECT v FROM t) SELECT w -> 'k' FROM s",
        "WITH s AS (SELECT v AS w FROM t) SELECT json_extract(w, '$.k') FROM s",
        "SELECT w -> 'k' FROM seen",
        "SELECT to_json(v) FROM t",
        "SELECT v::JSON FROM t",
        "SELECT CAST(v AS JSON) FROM t",
        "SELECT to_json(w) FROM seen",
    ],
)
def test_a_variant_of_another_name_is_refused(lake: Interpreter, query: str) -> None:
    list(lake.run("CREATE TEMPORARY VIEW seen AS SELECT id, v AS w FROM t"))
    with pytest.raises(ConfigError, match="members of a VARIANT cannot be read by"):
        list(lake.run(query))


def test_functions_of_json_on_a_text_remain(lake: Interpreter) -> None:
    (found,) = lake.run("SELECT j ->> 'k' AS a, j -> 'k' AS b, '{\"k\": [7]}' -> 'k' ->> 0 AS c, v IS NULL AS d FROM t")
    assert found.to_pylist() == [{"a": "6", "b": "6", "c": "7", "d": False}]
    # Names of other tables, after a statement that has read a VARIANT of the name.
    list(lake.run("CREATE TABLE u AS SELECT j AS v FROM t"))
    (found,) = lake.run("SELECT v -> 'k' AS a FROM u")
    assert found.to_pylist() == [{"a": "6"}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT v, j -> 'k' AS x FROM t WHERE (j -> 'k') = '6'",
        "SELECT j -> 'k' AS x FROM t WHERE (id = 1) AND (j) <> '' AND v IS NOT NULL AND (j -> 'k') = '6'",
        "SELECT j -> 'k' AS x, row_number() OVER (PARTITION BY j) FROM t ORDER BY v NULLS LAST, j -> 'k'",
        "SELECT j -> 'k' AS x, count(*) FILTER (WHERE (j -> 'k') = '6') FROM t WHERE id IN (1) GROUP BY j",
        "SELECT to_json(id)::INT + 5 AS x FROM t WHERE (1 = 1) AND (id) = 1",
    ],
)
def test_texts_beside_a_variant_are_read_as_json(lake: Interpreter, query: str) -> None:
    (found,) = lake.run(query)
    assert [str(row["x"]) for row in found.to_pylist()] == ["6"]


def test_a_variant_that_is_added_is_null_in_older_rows(lake: Interpreter) -> None:
    list(lake.run("CREATE TABLE old (id INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"))
    list(lake.run("INSERT INTO old VALUES (1), (2); ALTER TABLE old ADD (v VARIANT, s ROW<a INT NOT NULL>)"))
    list(
        lake.run("INSERT INTO old (id) VALUES (3); INSERT INTO old VALUES (2, '5', row(7)); CALL sys.compact('d.old')")
    )
    (found,) = lake.run("SELECT id, v IS NULL AS n, s FROM old ORDER BY id")
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (1, True, None),
        (2, False, {"a": 7}),
        (3, True, None),
    ]


def test_a_table_that_is_created_from_a_query_has_variants_too(lake: Interpreter) -> None:
    list(lake.run("CREATE TABLE c AS SELECT v, [v] AS l, {'v': v} AS s, MAP {'a': v} AS m FROM t"))
    (shown,) = lake.run("SHOW CREATE TABLE c")
    for column in ("`v` VARIANT", "`l` ARRAY<VARIANT>", "`s` ROW<`v` VARIANT>", "`m` MAP<STRING NOT NULL, VARIANT>"):
        assert column in shown.to_pylist()[0]["statement"]
    (rows,) = lake.run("SELECT count(*) AS n FROM c, t WHERE c.v = t.v AND c.l[1] = t.v AND c.s.v = t.v")
    assert rows.to_pylist() == [{"n": 1}]
