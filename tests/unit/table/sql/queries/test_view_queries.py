"""Views that a REST catalog keeps: queries read them, and no statement takes them for tables that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.meta.store import TableMissing
from penstock.table.sql.interpreter import Interpreter
from tests.rest_server import RestCatalogServer, running

pytestmark = pytest.mark.slow
ORDERS = """
    CREATE DATABASE shop;
    CREATE TABLE shop.orders (id INT, price INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
    INSERT INTO shop.orders VALUES (1, 10), (2, 20);
    CREATE DATABASE other;
    CREATE TABLE other.orders (id INT, price INT);
    INSERT INTO other.orders VALUES (7, 70);
"""


class Lake:
    """A catalog with tables, whose server keeps the views of a test."""

    def __init__(self, server: RestCatalogServer, options: dict[str, str]) -> None:
        self.server, self.catalog = server, Catalog("lake", options)
        self.run(ORDERS)

    def keep(self, name: str, query: str, *columns: str, **dialects: str) -> None:
        database, _, view = name.partition(".")
        fields = [{"id": number, "name": column, "type": "INT"} for number, column in enumerate(columns)]
        schema = {"fields": fields, "query": query, "dialects": dialects, "options": {"team": "sales"}}
        self.server.views[database, view] = {**schema, "comment": "what is dear"}

    def run(self, script: str, database: str | None = None) -> list[dict[str, object]]:
        with Interpreter(self.catalog, database) as interpreter:
            found = interpreter.last_result(script)
        assert found is not None
        rows: list[dict[str, object]] = found.to_pylist()
        return rows


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with running(tmp_path / "files") as (server, options):
        yield Lake(server, options)


def test_a_query_reads_a_view_with_its_columns_and_the_newest_rows(lake: Lake) -> None:
    lake.keep("shop.dear", "SELECT id, price * 2 FROM `shop`.`orders` WHERE price > 10", "id", "twice")
    assert lake.run("SELECT * FROM shop.dear") == [{"id": 2, "twice": 40}]
    script = "INSERT INTO orders VALUES (3, 30); SELECT sum(d.twice) AS s FROM dear d JOIN orders o ON d.id = o.id"
    assert lake.run(script, "shop") == [{"s": 100}]
    assert lake.run("CREATE TEMPORARY VIEW v AS SELECT id FROM shop.dear; SELECT * FROM v WHERE id = 3") == [{"id": 3}]


def test_names_of_a_view_are_those_of_its_database(lake: Lake) -> None:
    lake.keep("shop.all_orders", "SELECT id FROM orders", "id")
    script = "CREATE TEMPORARY VIEW orders AS SELECT 9 AS id; SELECT id FROM shop.all_orders ORDER BY id"
    assert lake.run(script, "other") == [{"id": 1}, {"id": 2}]
    lake.keep("other.both", "SELECT id FROM shop.all_orders UNION ALL SELECT id FROM orders", "id")
    assert lake.run("SELECT max(id) AS m FROM other.both", "shop") == [{"m": 7}]


def test_the_text_for_duckdb_comes_first(lake: Lake) -> None:
    lake.keep("shop.v", "SELECT explode(sequence(1, 2))", "n", duckdb="SELECT unnest(range(1, 3))")
    assert lake.run("SELECT n FROM shop.v") == [{"n": 1}, {"n": 2}]


def test_a_query_in_another_dialect_is_named_with_its_view(lake: Lake) -> None:
    lake.keep("shop.v", "SELECT posexplode(array(id)) FROM shop.orders", "n")
    with pytest.raises(ConfigError, match=r"cannot run the query of the view shop\.v") as caught:
        lake.run("SELECT n FROM shop.v")
    assert caught.value.facts["query"] == "SELECT posexplode(array(id)) FROM shop.orders"
    assert "dialect" in str(caught.value.hint)


def test_a_missing_table_of_a_view_is_named_with_its_view(lake: Lake) -> None:
    lake.keep("shop.v", "SELECT id FROM shop.gone VERSION AS OF 1", "id")
    with pytest.raises(TableMissing, match=r"there is no table shop\.gone") as caught:
        lake.run("SELECT id FROM shop.v")
    assert caught.value.facts["view"] == "shop.v"


def test_views_that_read_each_other_are_refused(lake: Lake) -> None:
    lake.keep("shop.a", "SELECT id FROM shop.b", "id")
    lake.keep("shop.b", "SELECT id FROM shop.a", "id")
    for statement in ("SELECT * FROM shop.a", "INSERT OVERWRITE shop.orders SELECT id, 1 FROM shop.a"):
        with pytest.raises(ConfigError, match=r"the view shop\.a reads itself"):
            lake.run(statement)


def test_an_overwrite_sees_that_a_view_reads_its_table(lake: Lake) -> None:
    lake.keep("shop.dear", "SELECT * FROM orders WHERE price > 10", "id", "price")
    lake.keep("shop.again", "SELECT * FROM dear", "id", "price")
    with Interpreter(lake.catalog, "other") as interpreter:
        session = interpreter._context.session
        assert session.reads_newest("SELECT * FROM shop.again", ("shop", "orders"))
        assert not session.reads_newest("SELECT * FROM shop.again", ("other", "orders"))
    lake.run("INSERT OVERWRITE shop.orders SELECT * FROM shop.again")
    assert lake.run("SELECT id FROM shop.orders") == [{"id": 2}]


def test_views_are_listed_described_and_dropped(lake: Lake) -> None:
    lake.keep("shop.dear", "SELECT id FROM shop.orders", "id", spark="SELECT id FROM lake.shop.orders")
    assert lake.run("SHOW VIEWS", "shop") == [{"view": "dear"}]
    assert lake.run("SHOW VIEWS IN shop LIKE 'x*'") == []
    assert lake.run("CREATE TEMPORARY VIEW v AS SELECT 1; SHOW VIEWS") == [{"view": "v"}, {"view": "shop.dear"}]
    assert lake.run("DESCRIBE shop.dear")[0]["column"] == "id"
    described = {row["column"]: row["type"] for row in lake.run("DESCRIBE EXTENDED shop.dear")}
    assert described["View Text"] == "SELECT id FROM shop.orders"
    assert described["View Text (spark)"] == "SELECT id FROM lake.shop.orders"
    assert (described["Comment"], described["Table Properties"]) == ("what is dear", "team=sales")
    lake.run("CREATE TEMPORARY VIEW dear AS SELECT 1; DROP VIEW dear", "shop")
    assert lake.catalog.views("shop") == ["dear"]
    lake.run("DROP VIEW dear", "shop")
    assert lake.catalog.views("shop") == []
    lake.run("DROP VIEW IF EXISTS shop.dear")
    with pytest.raises(ConfigError, match=r"there is no view 'shop\.dear'"):
        lake.run("DROP VIEW shop.dear")
    with pytest.raises(ConfigError, match=r"shop\.orders is a table, and not a view"):
        lake.run("DROP VIEW shop.orders")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO shop.dear VALUES (1)",
        "UPDATE shop.dear SET id = 1",
        "DELETE FROM shop.dear",
        "DROP TABLE shop.dear",
        "ALTER TABLE shop.dear RENAME TO shop.x",
        "CREATE TABLE shop.dear (id INT)",
        "SHOW CREATE TABLE shop.dear",
        "SELECT * FROM shop.dear VERSION AS OF 1",
        "SELECT * FROM shop.dear$snapshots",
        "CALL sys.compact('shop.dear')",
        "SET 'execution.runtime-mode' = 'streaming'; SELECT * FROM shop.dear",
    ],
)
def test_a_view_is_never_a_missing_table(lake: Lake, statement: str) -> None:
    lake.keep("shop.dear", "SELECT id FROM shop.orders", "id")
    with pytest.raises(ConfigError, match=r"shop\.dear(\$snapshots)? is a view, and not a table"):
        lake.run(statement)


def test_a_database_with_a_view_is_not_empty(lake: Lake) -> None:
    lake.run("CREATE DATABASE views")
    lake.keep("views.v", "SELECT 1", "n")
    with pytest.raises(ConfigError, match="database 'views' is not empty"):
        lake.run("DROP DATABASE views")
    assert lake.run("SELECT n FROM views.v") == [{"n": 1}]


def test_a_view_is_created_replaced_renamed_and_dropped(lake: Lake) -> None:
    query = "SELECT id, price * 2 FROM orders WHERE price > 10"
    lake.run(f"CREATE VIEW dear (id COMMENT 'its number', twice) COMMENT 'what is dear' AS {query}", "shop")
    kept = lake.server.views["shop", "dear"]
    assert (kept["query"], kept["dialects"], kept["comment"]) == (query, {"duckdb": query}, "what is dear")
    assert kept["fields"] == [
        {"id": 0, "name": "id", "type": "INT", "description": "its number"},
        {"id": 1, "name": "twice", "type": "INT"},
    ]
    assert lake.run("SELECT * FROM shop.dear") == [{"id": 2, "twice": 40}]
    [[created]] = [row.values() for row in lake.run("SHOW CREATE VIEW shop.dear")]
    lake.run("DROP VIEW shop.dear")
    lake.run(str(created))
    assert lake.server.views["shop", "dear"] == kept
    lake.run("CREATE VIEW IF NOT EXISTS shop.dear AS SELECT 1 AS other")
    assert lake.server.views["shop", "dear"] == kept
    lake.run("ALTER VIEW shop.dear AS SELECT id FROM shop.orders ORDER BY id; ALTER VIEW shop.dear RENAME TO all_ids")
    assert lake.catalog.views("shop") == ["all_ids"]
    assert lake.run("SELECT * FROM shop.all_ids; ") == [{"id": 1}, {"id": 2}]
    assert lake.catalog.view("shop.all_ids").comment == "what is dear"
    lake.run("CREATE OR REPLACE VIEW shop.all_ids AS SELECT max(price) AS most FROM shop.orders")
    assert lake.run("SELECT * FROM shop.all_ids") == [{"most": 20}]
    assert lake.catalog.view("shop.all_ids").comment is None


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE VIEW shop.v AS SELECT 1 AS n", r"view 'shop\.v' exists already"),
        ("CREATE OR REPLACE VIEW shop.v AS SELECT * FROM shop.v", r"the view shop\.v reads itself"),
        ("CREATE OR REPLACE VIEW shop.v AS SELECT * FROM shop.again", r"the view shop\.v reads itself"),
        ("CREATE VIEW shop.orders AS SELECT 1 AS n", r"shop\.orders is a table, and not a view"),
        ("ALTER VIEW shop.v RENAME TO orders", r"shop\.orders is a table, and not a view"),
        ("ALTER VIEW shop.v RENAME TO again", r"view 'shop\.again' exists already"),
        ("ALTER VIEW shop.none AS SELECT 1 AS n", r"there is no view 'shop\.none'"),
        ("CREATE OR REPLACE VIEW shop.v AS SELECT * FROM shop.none", "there is no table"),
        ("CREATE OR REPLACE VIEW shop.v (a, b) AS SELECT 1", "the query has 1 columns, and the view 2"),
        ("CREATE OR REPLACE VIEW shop.v (a, A) AS SELECT 1, 2", "two columns of the view are named 'A'"),
        ("CREATE OR REPLACE VIEW shop.v AS SELECT NULL AS a", "the column 'a' has no type"),
        ("CREATE TEMPORARY VIEW t AS SELECT 1; CREATE VIEW shop.w AS SELECT * FROM t", "t is a temporary view"),
        ("USE other; CREATE VIEW shop.w AS SELECT * FROM orders", "names without a database mean tables of shop"),
        ("CREATE VIEW nowhere.w AS SELECT 1 AS n", "there is no database 'nowhere'"),
        ("ALTER TABLE shop.orders RENAME TO shop.v", r"shop\.v is a view, and not a table"),
    ],
)
def test_what_no_view_can_be_changes_nothing(lake: Lake, statement: str, message: str) -> None:
    lake.keep("shop.v", "SELECT id FROM shop.orders", "id")
    lake.keep("shop.again", "SELECT id FROM shop.v", "id")
    before = dict(lake.server.views)
    with pytest.raises(ConfigError, match=message):
        lake.run(statement)
    assert lake.server.views == before
    assert lake.catalog.tables("shop") == ["orders"]


@pytest.mark.parametrize(
    "statement", ["CREATE VIEW shop.v AS SELECT 1 AS n", "CREATE OR REPLACE VIEW shop.v AS SELECT 1"]
)
def test_a_catalog_without_views_names_temporary_ones(tmp_path: Path, statement: str) -> None:
    with Interpreter(Catalog(tmp_path)) as interpreter:
        interpreter.last_result("CREATE DATABASE shop")
        with pytest.raises(ConfigError, match="this kind of catalog keeps no views") as caught:
            interpreter.last_result(statement)
    assert "CREATE TEMPORARY VIEW" in str(caught.value.hint)
