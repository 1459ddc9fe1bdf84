"""Spark SQL on catalogs whose names are in a database, in a Hive metastore or in a REST server."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.pipelines.spark.session import open_session
from penstock.table.catalog.catalog import Catalog
from tests.integration.hive.conftest import metastore
from tests.integration.mysql.conftest import mysql
from tests.integration.mysql.playground import Playground
from tests.integration.postgres.conftest import server_port
from tests.integration.spark_catalog.statements import refusal, rows
from tests.rest_server import TOKEN, RestCatalogServer, running

__all__ = ["metastore", "mysql", "server_port"]
pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RestCatalogServer, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("served")
    secret = folder / "token"
    secret.write_text(TOKEN)
    with running(folder / "files") as (server, options):
        yield server, {**options, "token": f"${{file:{secret}}}"}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("names")
    with sqlite3.connect(folder / "names.db") as database:
        database.execute("PRAGMA journal_mode = WAL")
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{folder}/names.db", "lock.enabled": "true"}
    return folder / "warehouse", {**options, "local.sync": "false"}


@pytest.fixture(scope="module")
def spark(
    names: tuple[Path, dict[str, str]], server: tuple[RestCatalogServer, dict[str, str]]
) -> Iterator[SparkSession]:
    session = open_session("metastores", master="local[2]", settings={"spark.sql.session.timeZone": "UTC"})
    names[0].mkdir()
    penstock.register(session, catalog="named", warehouse=names[0], options=names[1])
    # The warehouse of a REST server is a name, and no folder.
    penstock.register(session, catalog="served", warehouse="lake", options=server[1])
    yield session
    session.stop()


@pytest.fixture
def in_mysql(mysql: Playground, tmp_path: Path) -> dict[str, str]:
    """The options of a catalog whose user has a password, which the processes of Spark read from a file."""
    mysql.run(
        "DROP DATABASE IF EXISTS names",
        "CREATE DATABASE names",
        "DROP USER IF EXISTS lake@'%'",
        "CREATE USER lake@'%' IDENTIFIED BY 'secret'",
        "GRANT ALL ON names.* TO lake@'%'",
    )
    secret = tmp_path / "password"
    secret.write_text("secret")
    return {
        "uri": f"jdbc:mysql://127.0.0.1:{mysql.port}/names",
        "jdbc.user": "lake",
        "jdbc.password": f"${{file:{secret}}}",
    }


@pytest.fixture
def in_postgres(server_port: int) -> dict[str, str]:
    with psycopg.connect(
        host="127.0.0.1", port=server_port, user="postgres", dbname="postgres", autocommit=True
    ) as own:
        own.execute("DROP DATABASE IF EXISTS names WITH (FORCE)")
        own.execute("CREATE DATABASE names")
    return {"uri": f"jdbc:postgresql://127.0.0.1:{server_port}/names", "jdbc.user": "postgres"}


@pytest.fixture
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> tuple[str, Catalog]:
    """The name of a catalog in Spark, and the catalog itself."""
    name: str = request.param
    if name in {"hive", "in_mysql", "in_postgres"}:
        options = (
            {"metastore": "hive", "uri": request.getfixturevalue("metastore")}
            if name == "hive"
            else {"metastore": "jdbc", "local.sync": "false", **request.getfixturevalue(name)}
        )
        options["lock.enabled"] = "true"
        warehouse = str(tmp_path / "warehouse")
        penstock.register(spark, catalog=name, warehouse=warehouse, options=options)
    else:
        warehouse, options = (
            request.getfixturevalue("names") if name == "named" else ("lake", request.getfixturevalue("server")[1])
        )
    return name, Catalog(warehouse, options)


@pytest.mark.parametrize("name", ["named", "served"])
def test_properties_of_a_database_are_altered(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE DATABASE {name}.owned COMMENT 'old' WITH DBPROPERTIES ('team' = 'a')")
    spark.sql(f"ALTER DATABASE {name}.owned SET DBPROPERTIES ('team' = 'b', 'since' = '2026')")
    spark.sql(f"COMMENT ON DATABASE {name}.owned IS 'new'")
    found = dict(spark.sql(f"DESCRIBE DATABASE EXTENDED {name}.owned").collect())
    assert (found["Comment"], found["Properties"]) == ("new", "((since,2026), (team,b))")
    refused = refusal(spark, f"ALTER DATABASE {name}.owned SET LOCATION '/elsewhere'")
    assert "the location of a database cannot be changed" in refused
    spark.sql(f"DROP DATABASE {name}.owned")


@pytest.mark.parametrize("lake", ["named", "served", pytest.param("hive", marks=pytest.mark.hive)], indirect=True)
def test_statements_reach_the_catalog_of_their_names(spark: SparkSession, lake: tuple[str, Catalog]) -> None:
    name, catalog = lake
    spark.sql(f"CREATE DATABASE {name}.shop")
    spark.sql(f"USE {name}.shop")
    spark.sql("CREATE TABLE orders (id INT, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1')")
    spark.sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    spark.sql(
        "MERGE INTO orders t USING (SELECT 2 id, 'c' v UNION ALL SELECT 3, 'd') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql("ALTER TABLE orders ADD COLUMN n INT")
    assert rows(spark, "SELECT * FROM orders") == [(1, "a", None), (2, "c", None), (3, "d", None)]
    assert rows(spark, "SELECT id FROM orders VERSION AS OF 1") == [(1,), (2,)]
    spark.sql("CREATE TABLE copied AS SELECT id FROM orders WHERE id > 1")
    spark.sql("ALTER TABLE orders RENAME TO sales")
    # The catalog knows what Spark did: names, columns and the newest snapshot.
    assert catalog.tables("shop") == ["copied", "sales"]
    sales = catalog.table("shop.sales")
    assert (sales.schema.names, sales.count()) == (["id", "v", "n"], 3)
    assert rows(spark, f"CALL {name}.sys.create_tag('shop.sales', 'monday')") == [("tag monday of snapshot 2",)]
    assert list(catalog.table("shop.sales").tags) == ["monday"]
    spark.sql("CREATE OR REPLACE TABLE copied TBLPROPERTIES ('primary-key' = 'k') AS SELECT id + 1 AS k FROM copied")
    assert rows(spark, "SELECT k FROM copied") == [(3,), (4,)]
    assert catalog.table("shop.copied").primary_keys == ["k"]
    assert catalog.tables("shop") == ["copied", "sales"]
    options = dict(rows(spark, f"SELECT * FROM {name}.sys.catalog_options"))
    assert options["metastore"] == catalog.options["metastore"]
    spark.sql("DROP TABLE copied")
    assert "copied" in refusal(spark, "SELECT * FROM copied")
    assert catalog.tables("shop") == ["sales"]


@pytest.mark.parametrize(
    "lake",
    [
        pytest.param("in_mysql", marks=pytest.mark.mysql),
        pytest.param("in_postgres", marks=pytest.mark.postgres),
    ],
    indirect=True,
)
def test_names_are_in_a_database_server(spark: SparkSession, lake: tuple[str, Catalog]) -> None:
    name, catalog = lake
    spark.sql(f"CREATE DATABASE {name}.shop")
    spark.sql(f"USE {name}.shop")
    spark.sql("CREATE TABLE orders AS SELECT 1 id, 'a' v")
    spark.sql("ALTER TABLE orders RENAME TO sales")
    spark.sql("UPDATE sales SET v = 'b'")
    assert rows(spark, "SELECT * FROM sales") == [(1, "b")]
    assert catalog.tables("shop") == ["sales"]
    assert "exists" in refusal(spark, f"CREATE DATABASE {name}.shop")
    spark.sql("DROP TABLE sales")
    assert (rows(spark, "SHOW TABLES"), catalog.tables("shop")) == ([], [])


@pytest.mark.hive
@pytest.mark.parametrize("lake", ["hive"], indirect=True)
def test_a_table_has_the_location_of_the_statement(
    spark: SparkSession, lake: tuple[str, Catalog], tmp_path: Path
) -> None:
    path = tmp_path / "elsewhere"
    spark.sql("CREATE DATABASE hive.places")
    spark.sql("USE hive.places")
    spark.sql(f"CREATE TABLE orders (id INT, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '1') LOCATION '{path}'")
    spark.sql("INSERT INTO orders VALUES (1), (2)")
    shown = {name: text for name, text, _ in rows(spark, "DESCRIBE TABLE EXTENDED orders")}
    assert (shown["Location"], shown["Type"]) == (str(path), "EXTERNAL")
    [[created]] = rows(spark, "SHOW CREATE TABLE orders")
    assert f"LOCATION '{path}'" in created
    spark.sql("DROP TABLE orders")
    spark.sql(f"CREATE TABLE again LOCATION '{path}'")
    assert rows(spark, "SELECT * FROM again") == [(1,), (2,)]
    assert "other columns" in refusal(spark, f"CREATE TABLE other (v STRING) LOCATION '{path}'")
    for statement in ("CREATE TABLE other", "CREATE OR REPLACE TABLE again"):
        assert "CREATE TABLE with LOCATION first" in refusal(spark, f"{statement} LOCATION '{path}' AS SELECT 1 id")
    assert rows(spark, "SELECT * FROM again") == [(1,), (2,)]
    assert lake[1].tables("places") == ["again"]


def test_the_server_gets_the_commits(spark: SparkSession, server: tuple[RestCatalogServer, dict[str, str]]) -> None:
    spark.sql("CREATE DATABASE served.other")
    spark.sql("CREATE TABLE served.other.log (id INT)")
    spark.sql("INSERT INTO served.other.log VALUES (1)")
    spark.sql("UPDATE served.other.log SET id = 2")
    commits = [path for method, path, _ in server[0].requests if method == "POST" and path.endswith("/log/commit")]
    assert len(commits) == 2
    assert rows(spark, "SELECT * FROM served.other.log") == [(2,)]


def test_a_secret_in_clear_text_is_refused(spark: SparkSession) -> None:
    with pytest.raises(penstock.ConfigError, match="visible to all its users"):
        penstock.register(spark, catalog="plain", warehouse="lake", options={"metastore": "rest", "token": "abc"})


def test_views_of_the_catalog_are_read_and_dropped(
    spark: SparkSession, server: tuple[RestCatalogServer, dict[str, str]]
) -> None:
    spark.sql("CREATE DATABASE served.seen")
    spark.sql("CREATE TABLE served.seen.orders AS SELECT id, id * 10 AS price FROM range(3)")
    fields = [{"id": 0, "name": "number", "type": "BIGINT"}, {"id": 1, "name": "twice", "type": "BIGINT"}]
    schema = {"fields": fields, "dialects": {"spark": "SELECT id, price * 2 FROM orders WHERE id > 0"}, "options": {}}
    server[0].views["seen", "dear"] = {"query": "SELECT other", "comment": "what is dear", **schema}
    spark.sql("USE named")
    assert rows(spark, "SELECT number, twice FROM served.seen.dear d ORDER BY 1") == [(1, 20), (2, 40)]
    spark.sql("INSERT INTO served.seen.orders VALUES (9, 90)")
    assert spark.table("served.seen.dear").where("number > 8").count() == 1
    assert [row[1] for row in spark.sql("SHOW VIEWS IN served.seen").collect()] == ["dear"]
    assert [row[0] for row in spark.sql("DESCRIBE served.seen.dear").collect()] == ["number", "twice"]
    for statement in (
        "INSERT INTO served.seen.dear VALUES (1, 2)",
        "DELETE FROM served.seen.dear",
        "UPDATE served.seen.dear SET twice = 1",
        "ALTER TABLE served.seen.dear ADD COLUMN x INT",
        "DROP TABLE served.seen.dear",
        "TRUNCATE TABLE served.seen.dear",
        "CREATE TABLE served.seen.dear (id INT)",
        "CALL served.sys.compact('seen.dear')",
        "SELECT * FROM served.seen.dear VERSION AS OF 1",
        "SELECT * FROM served.seen.`dear$snapshots`",
    ):
        assert "is a view" in refusal(spark, statement).lower(), statement
    assert "database 'seen' is not empty" in refusal(spark, "DROP DATABASE served.seen")
    spark.sql("DROP VIEW served.seen.dear")
    assert server[0].views == {}
    assert spark.sql("SHOW VIEWS IN served.seen").collect() == []
    assert "TABLE_OR_VIEW_NOT_FOUND" in refusal(spark, "SELECT * FROM served.seen.dear")
    assert "VIEW_NOT_FOUND" in refusal(spark, "DROP VIEW served.seen.dear")
    spark.sql("DROP VIEW IF EXISTS served.seen.dear")
    spark.sql("DROP DATABASE served.seen CASCADE")


def test_views_of_the_catalog_are_created_and_changed(
    spark: SparkSession, server: tuple[RestCatalogServer, dict[str, str]]
) -> None:
    views = server[0].views
    spark.sql("CREATE DATABASE served.made")
    spark.sql("USE served.made")
    spark.sql("CREATE TABLE orders AS SELECT id, id * 10 AS price FROM range(3)")
    query = "WITH o AS (SELECT * FROM orders) SELECT id, price * 2 AS p FROM o WHERE id > 0"
    spark.sql(f"CREATE VIEW dear (id COMMENT 'its number', twice) COMMENT 'c' TBLPROPERTIES ('k' = 'l') AS {query}")
    assert views["made", "dear"] == {
        "fields": [
            {"id": 0, "name": "id", "type": "BIGINT", "description": "its number"},
            {"id": 1, "name": "twice", "type": "BIGINT"},
        ],
        "query": query,
        "dialects": {"spark": query},
        "options": {"k": "l"},
        "comment": "c",
    }
    assert rows(spark, "SELECT * FROM dear ORDER BY id") == [(1, 20), (2, 40)]
    spark.sql("CREATE VIEW IF NOT EXISTS dear AS SELECT 1 AS a")
    spark.sql("ALTER VIEW dear SET TBLPROPERTIES ('k' = 'm')")
    assert (views["made", "dear"]["query"], views["made", "dear"]["options"]) == (query, {"k": "m"})
    spark.sql("ALTER VIEW dear RENAME TO costly")
    spark.sql("ALTER VIEW costly AS SELECT max(price) AS most FROM orders")
    assert (rows(spark, "SELECT * FROM costly"), views["made", "costly"]["comment"]) == ([(20,)], "c")
    spark.sql("CREATE OR REPLACE VIEW costly AS SELECT 2 AS two")
    spark.sql("CREATE OR REPLACE VIEW first_made AS SELECT 3 AS three")
    assert rows(spark, "SELECT * FROM first_made") == [(3,)]
    spark.sql("DROP VIEW first_made")
    assert (rows(spark, "SELECT two FROM costly"), [*views]) == ([(2,)], [("made", "costly")])
    assert "exists" in refusal(spark, "CREATE VIEW costly AS SELECT 3 AS a").lower()
    assert "is a table, and not a view" in refusal(spark, "CREATE VIEW orders AS SELECT 3 AS a")
    assert "recursive" in refusal(spark, "CREATE OR REPLACE VIEW costly AS SELECT * FROM costly").lower()
    spark.sql("CREATE DATABASE named.base")
    spark.sql("USE named.base")
    spark.sql("CREATE TABLE orders (id INT)")
    assert "mean tables of made" in refusal(spark, "CREATE VIEW served.made.w AS SELECT * FROM base.orders")
    assert "CREATE TEMPORARY VIEW" in refusal(spark, "CREATE VIEW v AS SELECT 1 AS a")
    spark.sql("CREATE OR REPLACE VIEW served.made.costly AS SELECT count(*) AS n FROM served.made.orders, range(2)")
    assert rows(spark, "SELECT * FROM served.made.costly") == [(6,)]
    assert [*views] == [("made", "costly")]
    spark.sql("DROP DATABASE named.base CASCADE")
    spark.sql("DROP DATABASE served.made CASCADE")
