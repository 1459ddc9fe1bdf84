"""Every form of statement that users of Paimon write: it runs, or is refused with the line and the column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table.sql.interpreter import Interpreter
from tests.invariants import check_invariants

START = """
CREATE DATABASE shop; USE shop;
CREATE TABLE orders (id INT, status STRING, amount DECIMAL(10, 2), dt STRING, PRIMARY KEY (id, dt) NOT ENFORCED)
PARTITIONED BY (dt) WITH ('bucket' = '1');
INSERT INTO orders VALUES (1, 'new', 1, 'a'), (2, 'paid', 2, 'b');
CREATE TABLE log (id INT, status STRING, dt STRING) PARTITIONED BY (dt);
INSERT INTO log VALUES (1, 'new', 'a'), (1, 'new', 'a'), (2, 'paid', 'b');
CALL sys.create_tag('shop.orders', 'monday');
"""

# A `{folder}` is that of the test.
RUNS = {
    "catalogs": """CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = '{folder}/c'); USE CATALOG c;
        SHOW CATALOGS; SHOW CURRENT CATALOG; USE CATALOG default_catalog; DROP CATALOG c""",
    "databases": """CREATE DATABASE IF NOT EXISTS d; SHOW DATABASES; DESCRIBE DATABASE d; USE d;
        SHOW CURRENT DATABASE; USE shop; DROP DATABASE IF EXISTS d CASCADE""",
    "table of Flink": """CREATE TABLE IF NOT EXISTS f (a INT COMMENT 'x', b TIMESTAMP(3), PRIMARY KEY (a) NOT ENFORCED)
        COMMENT 'y' WITH ('bucket' = '1')""",
    "computed columns of Flink": """CREATE TABLE f (a INT, b AS a + 1, c AS PROCTIME() COMMENT 'x', t TIMESTAMP(3),
        WATERMARK FOR t AS t - INTERVAL '5' SECOND); INSERT INTO f VALUES (1, NULL); SELECT a, t FROM f;
        ALTER TABLE f MODIFY WATERMARK FOR t AS t; ALTER TABLE f DROP WATERMARK;
        ALTER TABLE f ADD WATERMARK FOR t AS t - INTERVAL '1' MINUTE""",
    "inline key": "CREATE TABLE f (a INT PRIMARY KEY NOT ENFORCED, b STRING)",
    "table of Spark": """CREATE TABLE s (a INT, dt STRING) USING paimon PARTITIONED BY (dt)
        TBLPROPERTIES ('primary-key' = 'a,dt')""",
    "partition with a type": "CREATE TABLE s (a INT) USING paimon PARTITIONED BY (dt STRING)",
    "external by location": """CREATE TABLE e (a INT, b STRING) USING paimon LOCATION '{folder}/e';
        INSERT INTO e VALUES (1, 'x'); UPDATE e SET b = 'y'; SELECT * FROM e; DROP TABLE e""",
    "external by path": """CREATE TABLE e (a INT) WITH ('connector' = 'paimon', 'path' = '{folder}/e',
        'auto-create' = 'true'); INSERT INTO e VALUES (1); DROP TABLE e;
        CREATE TEMPORARY TABLE e WITH ('connector' = 'paimon', 'path' = '{folder}/e'); SELECT * FROM e""",
    "views": """CREATE TEMPORARY VIEW v AS SELECT * FROM orders; SHOW VIEWS; SHOW VIEWS IN shop LIKE 'v*';
        SELECT * FROM v; DROP VIEW v""",
    "table as a query": "CREATE TABLE c WITH ('bucket' = '-1') AS SELECT * FROM orders",
    "table like another": "CREATE TABLE c LIKE orders; CREATE TABLE d LIKE orders (EXCLUDING OPTIONS)",
    "or replace": """CREATE OR REPLACE TABLE r (a INT); CREATE OR REPLACE TABLE r (b STRING) COMMENT 'x';
        INSERT INTO r VALUES ('x'); CREATE OR REPLACE TABLE r AS SELECT b, 1 AS c FROM r; SELECT b, c FROM r""",
    "replace": "REPLACE TABLE log AS SELECT id FROM log",
    "options": """ALTER TABLE orders SET ('snapshot.num-retained.max' = '99'); ALTER TABLE orders RESET
        ('snapshot.num-retained.max'); ALTER TABLE orders SET TBLPROPERTIES ('snapshot.num-retained.max' = '99');
        ALTER TABLE orders UNSET TBLPROPERTIES ('snapshot.num-retained.max'); ALTER TABLE orders SET COMMENT 'x'""",
    "rename": "ALTER TABLE log RENAME TO lines",
    "columns": """ALTER TABLE orders ADD (c INT COMMENT 'x' FIRST, d INT AFTER id); ALTER TABLE orders ADD COLUMN e INT;
        ALTER TABLE orders RENAME c TO f; ALTER TABLE orders RENAME COLUMN d TO g; ALTER TABLE orders DROP (f, g);
        ALTER TABLE orders DROP COLUMN e; ALTER TABLE orders MODIFY amount DECIMAL(12, 2);
        ALTER TABLE orders ALTER COLUMN status COMMENT 'y'; ALTER TABLE orders ALTER COLUMN status SET DEFAULT 'z'""",
    "partitions": "ALTER TABLE orders DROP PARTITION (dt = 'a'), PARTITION (dt = 'b')",
    "insert": """INSERT INTO orders VALUES (3, 'new', 3, 'c'); INSERT INTO orders PARTITION (dt = 'c') (id, status)
        VALUES (4, 'x'); INSERT INTO orders BY NAME SELECT 'c' AS dt, 5 AS id""",
    "overwrite": """INSERT OVERWRITE orders PARTITION (dt = 'a') SELECT 1, 'x', 1; SET
        spark.sql.sources.partitionOverwriteMode = static; INSERT OVERWRITE orders SELECT * FROM orders""",
    "emptied by an overwrite": """INSERT OVERWRITE orders /*+ OPTIONS('dynamic-partition-overwrite' = 'false') */
        SELECT * FROM orders WHERE false""",
    "truncate": "TRUNCATE TABLE orders; TRUNCATE TABLE log PARTITION (dt = 'a')",
    "update": "UPDATE orders SET status = 'x' WHERE id = 1; UPDATE log AS l SET status = upper(l.status), dt = 'z'",
    "delete": """DELETE FROM orders WHERE id = 1; DELETE FROM log WHERE id IN (SELECT id FROM orders);
        DELETE FROM log""",
    "merge": """MERGE INTO {table} AS t USING (SELECT 1 AS id, 'x' AS status, 'a' AS dt) AS s
        ON t.id = s.id AND t.dt = s.dt WHEN MATCHED AND t.status = 'y' THEN DELETE
        WHEN MATCHED THEN UPDATE SET status = s.status
        WHEN NOT MATCHED THEN INSERT (id, status, dt) VALUES (s.id, s.status, s.dt)
        WHEN NOT MATCHED BY SOURCE AND t.id > 9 THEN DELETE""",
    "older states": """SELECT * FROM orders VERSION AS OF 1; SELECT * FROM orders VERSION AS OF 'monday';
        SELECT * FROM orders TIMESTAMP AS OF '2999-01-01 00:00:00';
        SELECT * FROM orders /*+ OPTIONS('scan.snapshot-id' = '1') */;
        SELECT * FROM orders WITH (`scan.snapshot-id` = '1')""",
    "system tables": """SELECT * FROM orders$snapshots; SELECT * FROM `orders$files`; SELECT * FROM sys.catalog_options;
        SELECT * FROM sys.all_table_options""",
    "changes": """SELECT * FROM paimon_incremental_query('shop.orders', 0, 1);
        SELECT * FROM paimon_incremental_between_timestamp('shop.orders', '2020-01-01 00:00:00', '2999-01-01 00:00:00');
        SELECT * FROM paimon_incremental_to_auto_tag('shop.orders', '2024-12-04')""",
    "procedures": """CALL sys.compact('shop.orders'); CALL sys.create_tag(table => 'shop.orders', tag => 't');
        SHOW PROCEDURES""",
    "newest partition": "SELECT * FROM log WHERE dt = sys.max_pt('shop.log')",
    "statistics": """ANALYZE TABLE orders COMPUTE STATISTICS; ANALYZE TABLE orders COMPUTE STATISTICS FOR ALL COLUMNS;
        ANALYZE TABLE orders COMPUTE STATISTICS FOR COLUMNS id""",
    "session options": """SET 'execution.runtime-mode' = 'batch';
        SET spark.sql.sources.partitionOverwriteMode = dynamic;
        SET spark.paimon.scan.snapshot-id = 1; SELECT * FROM orders; RESET spark.paimon.scan.snapshot-id; RESET""",
    "show": """SHOW CREATE TABLE orders; SHOW TABLES; SHOW TABLES IN shop LIKE 'o*'; SHOW PARTITIONS orders;
        SHOW COLUMNS IN orders; SHOW TBLPROPERTIES orders; SHOW TAGS orders; SHOW TAGS IN shop.orders;
        DESCRIBE orders""",
    "explain": "EXPLAIN SELECT * FROM orders; EXPLAIN PLAN FOR SELECT * FROM orders; EXPLAIN ANALYZE SELECT 1",
    "statement set": """EXECUTE STATEMENT SET BEGIN INSERT INTO log SELECT 1, 'x', 'q'; END;
        BEGIN STATEMENT SET; INSERT INTO log SELECT 2, 'x', 'q'; END""",
}

REFUSED = {
    "comment of a database in a folder": ("CREATE DATABASE d COMMENT 'x'", 1, 1),
    "key that is computed": ("CREATE TABLE f (a INT, b AS a + 1, PRIMARY KEY (b) NOT ENFORCED)", 1, 64),
    "watermark of another column": ("ALTER TABLE log ADD WATERMARK FOR a AS a", 1, 1),
    "metadata column": ("CREATE TABLE f (a INT, b INT METADATA)", 1, 30),
    "other connector": ("CREATE TABLE f (a INT) WITH ('connector' = 'kafka')", 1, 52),
    "temporary table without a path": ("CREATE TEMPORARY TABLE f (a INT)", 1, 33),
    "table that is not at its path": ("CREATE TABLE f (a INT) WITH ('path' = '/none')", 1, 1),
    "query into a path": ("CREATE TABLE f LOCATION '/tmp/f' AS SELECT 1 AS a", 1, 50),
    "permanent view": ("CREATE VIEW v AS SELECT 1", 1, 1),
    "replace of a missing table": ("REPLACE TABLE f (a INT)", 1, 1),
    "replace into": ("REPLACE INTO log VALUES (1)", 1, 9),
    "replace if not exists": ("CREATE OR REPLACE TABLE IF NOT EXISTS log (a INT)", 1, 25),
    "query that fails": ("CREATE OR REPLACE TABLE log AS SELECT CAST(status AS INT) AS a FROM log", 1, 39),
    "partition that is added": ("ALTER TABLE log ADD PARTITION (dt = 'z')", 1, 21),
    "update of a key": ("UPDATE orders SET id = 1", 1, 1),
    "unknown column": ("UPDATE log SET\n  nothing = 1", 1, 1),
    "several source rows": (
        "MERGE INTO log t USING (SELECT 1 AS id UNION ALL SELECT 1) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET status = 'x'",
        1,
        1,
    ),
    "arguments of a function": ("SELECT * FROM paimon_incremental_query('orders', 1)", 1, 1),
    "missing table of a function": ("SELECT 1;\n SELECT * FROM paimon_incremental_query('no', 0, 1)", 2, 2),
    "missing table": ("SELECT * FROM\n  nothing", 2, 3),
    "tags of a missing table": ("SHOW TAGS nothing", 1, 1),
    "unknown read option": ("SET spark.paimon.scan.nothing = 1", 1, 1),
    "write option": ("SET spark.paimon.write-only = true", 1, 1),
    "other session option": ("SET nothing = 1", 1, 1),
    "stream of Spark": ("SELECT * FROM STREAM log", 1, 15),
    "lookup without a stream": ("SELECT /*+ LOOKUP('table' = 'log') */ * FROM log", 1, 1),
    "optimize": ("OPTIMIZE log", 1, 1),
    "typographic quote": ("SELECT\n ‘x’", 2, 2),
}


class Started:
    """A warehouse with two tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = penstock.Catalog(folder / "warehouse", {"local.sync": "false"})
        self.interpreter = Interpreter(self.catalog)
        self.run(START)

    def run(self, script: str) -> None:
        list(self.interpreter.run(script))

    def state(self) -> dict[str, object]:
        tables = {name: self.catalog.table(f"shop.{name}") for name in self.catalog.tables("shop")}
        return {name: (table.schema_id, table.latest_snapshot) for name, table in tables.items()}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    with started.interpreter:
        yield started
    for name in started.catalog.tables("shop"):
        check_invariants(started.catalog.table(f"shop.{name}"))


@pytest.mark.slow
@pytest.mark.parametrize("form", RUNS)
def test_a_form_runs(started: Started, form: str) -> None:
    for table in ("orders", "log") if "{table}" in RUNS[form] else ("",):
        started.run(RUNS[form].format(folder=started.folder, table=table))


@pytest.mark.slow
@pytest.mark.parametrize("form", REFUSED)
def test_a_form_is_refused_with_its_place(started: Started, form: str) -> None:
    statement, line, column = REFUSED[form]
    before = started.state()
    with pytest.raises(PenstockError) as refused:
        started.run(statement)
    place = refused.value.facts.get("column of the line", refused.value.facts.get("column"))
    assert (refused.value.facts["line"], place) == (line, column)
    assert started.state() == before
