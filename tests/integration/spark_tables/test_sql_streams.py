"""`penstock sql --engine spark --stream`: statements on changes of tables, with the results that DuckDB has."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from penstock.errors import ConfigError
from penstock.pipelines.commands.spark_statements import CATALOG, script_of
from penstock.pipelines.spark_catalog.registration import register
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.sql.interpreter import sql

pytestmark = [pytest.mark.spark]

OPTIONS = {"local.sync": "false"}
SOURCE = "id INT, c STRING, v STRING, PRIMARY KEY (id) NOT ENFORCED"
PRODUCES = "WITH ('bucket' = '2', 'changelog-producer' = 'input')"


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Catalog:
    made = Catalog(str(tmp_path_factory.mktemp("warehouse")), OPTIONS)
    made.create_database("shop")
    register(spark, CATALOG, made.warehouse, OPTIONS)
    spark.sql(f"USE {CATALOG}.shop")
    return made


def duck(catalog: Catalog, script: str) -> list[Mapping[str, object]]:
    found = sql(script, catalog.warehouse, options=OPTIONS, database="shop").to_pylist()
    return [dict(row) for row in found]


def streamed(spark: SparkSession, catalog: Catalog, script: str) -> list[list[dict[str, object]]]:
    settings = CatalogSettings.of(catalog.warehouse, OPTIONS)
    running = script_of(spark, settings, streaming=True, until_caught_up=True)
    return [rows.to_pylist() for rows in running.run(script)]


def test_an_insert_continues_at_the_place_in_its_target(spark: SparkSession, catalog: Catalog) -> None:
    duck(
        catalog,
        f"""CREATE TABLE orders ({SOURCE}) {PRODUCES};
        CREATE TABLE paid (id INT, x DOUBLE DEFAULT 1.5, c CHAR(4), PRIMARY KEY (id) NOT ENFORCED)
        WITH ('bucket' = '2');
        INSERT INTO orders VALUES (1, 'paid', 'a'), (2, 'paid', 'b'), (3, 'new', 'c')""",
    )
    insert = "INSERT INTO paid (id, c) SELECT id, v FROM (SELECT * FROM orders WHERE c = 'paid') AS q"
    [[first]] = streamed(spark, catalog, insert)
    assert first == {"job": "sql:shop.orders->shop.paid", "read_to": 1, "written": 2, "snapshot": 1}
    duck(catalog, "UPDATE orders SET c = 'sent' WHERE id = 1; UPDATE orders SET c = 'paid' WHERE id = 3")
    [[second]] = streamed(spark, catalog, insert)
    assert (second["read_to"], second["snapshot"]) == (3, 2)
    rows = duck(catalog, "SELECT id, x, trim(c) AS c FROM paid ORDER BY id")
    assert rows == [{"id": 2, "x": 1.5, "c": "b"}, {"id": 3, "x": 1.5, "c": "c"}]
    # Nothing new: nothing is committed, and no row is written again.
    [[third]] = streamed(spark, catalog, insert)
    assert (third["written"], third["snapshot"]) == (0, 2)
    commits = duck(catalog, "SELECT commit_user AS u, commit_identifier AS i FROM paid$snapshots ORDER BY snapshot_id")
    assert commits == [{"u": first["job"], "i": 1}, {"u": first["job"], "i": 3}]
    with pytest.raises(ConfigError, match="has run with another query up to snapshot 3"):
        streamed(spark, catalog, "INSERT INTO paid (id, c) SELECT id, c FROM orders")
    # The engine without Spark knows the job too, and continues where Spark was if the job has a name.
    duck(catalog, "INSERT INTO orders VALUES (9, 'paid', 'i')")
    named = "SET 'pipeline.name' = 'p'; INSERT INTO paid (id, c) SELECT id, v FROM orders WHERE c = 'paid'"
    assert streamed(spark, catalog, named)[-1][0]["read_to"] == 4
    duck(catalog, "INSERT INTO orders VALUES (10, 'paid', 'k')")
    on_duckdb = f"SET 'execution.runtime-mode' = 'streaming'; {named}"
    found = sql(on_duckdb, catalog.warehouse, options=OPTIONS, database="shop", until_caught_up=True).to_pylist()
    assert (found[0]["read_to"], found[0]["written"]) == (5, 1)


def test_a_query_shows_changes_with_their_kinds(spark: SparkSession, catalog: Catalog) -> None:
    duck(
        catalog,
        f"""CREATE TABLE shown ({SOURCE}) {PRODUCES};
        INSERT INTO shown VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'no', 'x');
        UPDATE shown SET c = 'no' WHERE id = 1; UPDATE shown SET c = 'yes' WHERE id > 1""",
    )
    start = "/*+ OPTIONS('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '2') */"
    [rows] = streamed(spark, catalog, f"SELECT id, c FROM shown {start} WHERE c <> 'no'")
    kinds = sorted((row["id"], row["op"], row["c"]) for row in rows)
    assert kinds == [(1, "-D", "a"), (2, "+U", "yes"), (2, "-U", "b"), (3, "+I", "yes")]
    [rows] = streamed(spark, catalog, "SELECT * FROM shown WITH ('consumer-id' = 'me')")
    assert {row["op"] for row in rows} == {"+I"}
    assert duck(catalog, "SELECT * FROM shown$consumers") == [{"consumer_id": "me", "next_snapshot_id": 4}]
    assert streamed(spark, catalog, "SELECT * FROM shown WITH ('consumer-id' = 'me')") == [[]]  # the columns alone
    first, changes = "VERSION AS OF 3", "WITH ('scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '3')"
    for start, expected in ((first, ["+I"]), (changes, ["-U", "+U"])):
        [rows] = streamed(spark, catalog, f"SELECT id, rowkind FROM `shown$audit_log` {start} WHERE id = 2")
        assert [(row["op"], row["rowkind"]) for row in rows] == [("+I", row) for row in expected]


def test_a_statement_set_runs_its_inserts_together(spark: SparkSession, catalog: Catalog) -> None:
    duck(
        catalog,
        """CREATE TABLE events (id INT, c STRING); CREATE TABLE log (id INT, c STRING); CREATE TABLE other (id INT);
        INSERT INTO events VALUES (1, 'a'), (2, 'b')""",
    )
    script = """BEGIN STATEMENT SET;
    INSERT INTO log SELECT * FROM events UNION ALL SELECT id + 10, upper(c) FROM events;
    INSERT INTO other SELECT id FROM events WHERE c = 'b';
    END"""
    for expected in (
        [(1, "a"), (2, "b"), (11, "A"), (12, "B")],
        [(1, "a"), (2, "b"), (3, "c"), (11, "A"), (12, "B"), (13, "C")],
    ):
        jobs = [row["job"] for rows in streamed(spark, catalog, script) for row in rows if "read_to" in row]
        assert jobs == [f"sql:shop.events->shop.{name}" for name in ("log", "log#2", "other")]
        rows = [(row["id"], row["c"]) for row in duck(catalog, "SELECT * FROM log ORDER BY id")]
        assert rows == expected
        duck(catalog, "INSERT INTO events VALUES (3, 'c')")
    assert duck(catalog, "SELECT * FROM other") == [{"id": 2}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT id, count(*) FROM s GROUP BY id", "GROUP BY, DISTINCT or an aggregate function"),
        ("SELECT a.id FROM s a JOIN s b ON a.id = b.id", "a join is not possible"),
        ("SELECT * FROM s JOIN s FOR SYSTEM_TIME AS OF PROCTIME() AS d ON s.id = d.id", "a lookup join"),
        ("SELECT id FROM s WHERE id IN (SELECT id FROM s)", "a query in an expression"),
        ("SELECT * FROM s ORDER BY id", "ORDER BY"),
        ("SELECT * FROM s LIMIT 3", "LIMIT"),
        ("WITH x AS (SELECT * FROM s) SELECT * FROM x", "WITH is not possible"),
        ("SELECT explode(array(1, 2)) FROM s", "several rows"),
        ("SELECT row_number() OVER (ORDER BY id) FROM s", "a window function"),
        ("INSERT OVERWRITE t SELECT * FROM s", "INSERT OVERWRITE"),
        ("CREATE TABLE z AS SELECT * FROM s", "CREATE TABLE AS"),
        ("INSERT INTO t SELECT id, c FROM k", "has no primary key"),
        ("SELECT * FROM `s$snapshots`", "cannot be read as a stream"),
        ("SELECT * FROM s WITH ('scan.bounded' = 'true')", "scan.bounded is not supported"),
        ("SELECT * FROM v", "not a table of the warehouse"),
        ("BEGIN STATEMENT SET; SELECT 1; END", "consists of INSERT statements"),
        ("BEGIN STATEMENT SET; INSERT INTO t SELECT * FROM s", "has no END"),
        ("SET 'execution.runtime-mode' = 'sometimes'", "it can be batch or streaming"),
        ("INSERT INTO s SELECT * FROM s", "each commit to shop.s would be read again"),
        ("SELECT * FROM s /*+ OPTIONS('nope' = '1') */", "'nope' is not a table option"),
        ("SELECT * FROM s /*+ OPTIONS('incremental-between' = '1,2') */", "is a range of changes with an end"),
        ("SET 'pipeline.name' = ''; SELECT * FROM s", "pipeline.name cannot be empty"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(spark: SparkSession, catalog: Catalog, query: str, message: str) -> None:
    duck(
        catalog,
        f"""CREATE TABLE IF NOT EXISTS s (id INT, c STRING); CREATE TABLE IF NOT EXISTS t (id INT, c STRING);
        CREATE TABLE IF NOT EXISTS k ({SOURCE}) {PRODUCES}""",
    )
    spark.createDataFrame([(1,)], "id INT").createOrReplaceTempView("v")
    with pytest.raises(ConfigError, match=message) as caught:
        streamed(spark, catalog, query)
    assert "line" in str(caught.value)


def test_old_rows_and_deletes_meet_a_condition_that_has_another_result_each_time(
    spark: SparkSession, catalog: Catalog
) -> None:
    duck(
        catalog,
        f"""CREATE TABLE moving (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) {PRODUCES};
        CREATE TABLE kept (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
        CREATE TABLE days (id INT, d DATE, PRIMARY KEY (id, d) NOT ENFORCED) WITH ('bucket' = '1');
        INSERT INTO moving VALUES (1, 5), (2, 5), (3, -5);
        UPDATE moving SET v = -5 WHERE id = 1; DELETE FROM moving WHERE id > 1""",
    )
    start = "moving /*+ OPTIONS('scan.snapshot-id' = '1') */"
    for condition in ("v > rand()", "v > 0 AND current_date() > DATE '2001-01-01'"):
        (rows,) = streamed(spark, catalog, f"SELECT id FROM (SELECT * FROM {start} WHERE {condition}) AS q")
        found = sorted((row["op"], row["id"]) for row in rows)
        assert found == [("+I", 1), ("+I", 2), ("-D", 1), ("-D", 2), ("-D", 3)]
    streamed(spark, catalog, f"INSERT INTO kept SELECT id, v FROM {start} WHERE v > rand()")
    assert duck(catalog, "SELECT * FROM kept") == []
    with pytest.raises(ConfigError, match=r"the key 'd' of shop.days has another value each time"):
        streamed(spark, catalog, "INSERT INTO days SELECT id, current_date() FROM moving")
