"""The statements of Paimon's guides for Spark, in one session: each works, or its refusal names what to use instead.

It takes longer than other tests: there are some 150 statements, and each is a job of Spark or more.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.spark_catalog.extended_session import answers, session_jar
from tests.pages import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORKS = "[]"
FILLED = ("snapshots", "schemas", "audit_log", "binlog", "files", "manifests", "partitions", "buckets", "table_indexes")
EMPTY = ("options", "tags", "branches", "consumers", "statistics", "ro")
_ALTERED = (
    "s STRUCT<f1: STRING, f2: INT>, a ARRAY<STRUCT<f1: STRING, f2: INT>>, m MAP<INT, STRUCT<f1: STRING, f2: INT>>"
)
_KEYED = "TBLPROPERTIES ('primary-key' = 'dt,hh,user_id')"
_COLUMNS = "user_id BIGINT, item_id BIGINT, behavior STRING, dt STRING, hh STRING"

# By the page of a guide: a statement, and a part of what it shows; WORKS if it has no rows, None if it is preparation.
GUIDES: dict[str, list[tuple[str, str | None]]] = {
    "sql-ddl": [
        ("CREATE DATABASE lake.default", None),
        ("USE lake.default", WORKS),
        (f"CREATE TABLE keyed ({_COLUMNS}) {_KEYED}", WORKS),
        (f"CREATE TABLE t ({_COLUMNS}) PARTITIONED BY (dt, hh) {_KEYED}", WORKS),
        ("CREATE TABLE ctas PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,hh') AS SELECT * FROM t", WORKS),
        ("CREATE TABLE external (a INT) LOCATION '/path/to/table'", "metastore=hive"),
        ("ALTER TABLE t ADD PARTITION (dt = '2025-01-01', hh = '1')", "remove ADD PARTITION"),
        ("MSCK REPAIR TABLE t", "remove it"),
        ("REPLACE TABLE keyed (a INT, b INT) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '4')", WORKS),
        ("CREATE OR REPLACE TABLE keyed TBLPROPERTIES ('primary-key' = 'a') AS SELECT 1 a, 2 b", WORKS),
        ("CREATE TABLE liked LIKE keyed TBLPROPERTIES ('bucket' = '2')", WORKS),
        ("CREATE TABLE liked_csv LIKE keyed USING csv", "use spark_catalog"),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM keyed", WORKS),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT b FROM keyed", WORKS),
        ("SELECT * FROM v", "[(2,)]"),
        ("DROP VIEW v", WORKS),
        ("CREATE OR REPLACE VIEW default.v AS SELECT * FROM keyed", "CREATE TEMPORARY VIEW"),
        ("ALTER TABLE keyed CREATE TAG `TAG-1`", WORKS),
        ("ALTER TABLE keyed CREATE TAG IF NOT EXISTS `TAG-1`", WORKS),
        ("ALTER TABLE keyed CREATE TAG `TAG-3` AS OF VERSION 1 RETAIN 7 DAYS", WORKS),
        ("ALTER TABLE keyed REPLACE TAG `TAG-3` AS OF VERSION 1 RETAIN 24 HOURS", WORKS),
        ("ALTER TABLE keyed CREATE OR REPLACE TAG `TAG-5` AS OF VERSION 1 RETAIN 24 HOURS", WORKS),
        ("ALTER TABLE keyed RENAME TAG `TAG-1` TO `TAG-2`", WORKS),
        ("ALTER TABLE keyed DELETE TAG `TAG-2,TAG-3`", WORKS),
        ("ALTER TABLE keyed DELETE TAG IF EXISTS `TAG-1`", WORKS),
        ("SHOW TAGS keyed", "[('TAG-5',)]"),
    ],
    "sql-write": [
        ("CREATE TABLE w (id INT, pt STRING) PARTITIONED BY (pt)", None),
        ("INSERT INTO w VALUES (1, 'p1'), (2, 'p2')", WORKS),
        ("INSERT OVERWRITE w PARTITION (pt = 'p1') VALUES (3)", WORKS),
        ("SET spark.sql.sources.partitionOverwriteMode = dynamic", "dynamic"),
        ("INSERT OVERWRITE w VALUES (4, 'p1')", WORKS),
        ("SELECT * FROM w ORDER BY id", "[(2, 'p2'), (4, 'p1')]"),
        ("RESET spark.sql.sources.partitionOverwriteMode", None),
        ("INSERT OVERWRITE w PARTITION (pt) VALUES (5, 'p1')", WORKS),
        ("TRUNCATE TABLE w PARTITION (pt = 'p1')", WORKS),
        ("TRUNCATE TABLE w", WORKS),
        (
            "CREATE TABLE u (id INT, s STRUCT<c1: INT, c2: STRING>, name STRING) TBLPROPERTIES ('primary-key' = 'id')",
            None,
        ),
        ("INSERT INTO u VALUES (1, struct(1, 'x'), 'a')", None),
        ("UPDATE u SET name = 'a_new' WHERE id = 1", WORKS),
        ("UPDATE u SET s.c2 = 'a_new' WHERE s.c1 = 1", WORKS),
        ("SELECT * FROM u", "[(1, Row(c1=1, c2='a_new'), 'a_new')]"),
        ("DELETE FROM u WHERE id = 1", WORKS),
        ("CREATE TABLE target (a INT, b INT, c STRING) TBLPROPERTIES ('primary-key' = 'a')", None),
        ("INSERT INTO target VALUES (1, 1, 'c1'), (5, 5, 'c5')", None),
        (
            "CREATE TEMPORARY VIEW source AS SELECT * FROM VALUES (1, 9, 'c1'), (5, 9, 'c'), (7, 9, 'c99') s(a, b, c)",
            None,
        ),
        (
            "MERGE INTO target USING source ON target.a = source.a"
            " WHEN MATCHED AND target.a = 5 THEN UPDATE SET b = source.b + target.b"
            " WHEN MATCHED AND source.c > 'c2' THEN UPDATE SET * WHEN MATCHED THEN DELETE"
            " WHEN NOT MATCHED AND c > 'c9' THEN INSERT (a, b, c) VALUES (a, b * 1.1, c)"
            " WHEN NOT MATCHED THEN INSERT *",
            WORKS,
        ),
        ("SELECT * FROM target ORDER BY a", "[(5, 14, 'c5'), (7, 9, 'c99')]"),
        ("SET `spark.paimon.write.merge-schema` = true", None),
        ("INSERT INTO target BY NAME SELECT 3 AS a, '3' AS c, 3 AS d", "INSERT WITH SCHEMA EVOLUTION"),
        ("RESET `spark.paimon.write.merge-schema`", None),
        ("INSERT WITH SCHEMA EVOLUTION INTO target BY NAME SELECT 3 AS a, '3' AS c, 3 AS d", None),
        ("COPY INTO default.target FROM '/data/csv_files/' FILE_FORMAT = (TYPE = CSV)", "INSERT INTO t SELECT"),
        (
            "COPY INTO '/export/' FROM default.target FILE_FORMAT = (TYPE = CSV) OVERWRITE = TRUE",
            "INSERT OVERWRITE DIRECTORY",
        ),
    ],
    "sql-query": [
        ("CREATE TABLE q (a INT, b INT) TBLPROPERTIES ('row-tracking.enabled' = 'true')", None),
        ("INSERT INTO q VALUES (1, 2)", None),
        ("SELECT __paimon_bucket, __paimon_row_index FROM q", "[(0, 0)]"),
        ("SELECT a, _ROW_ID, _SEQUENCE_NUMBER FROM q", "cannot be resolved"),
        ("SELECT a, _ROW_ID, _SEQUENCE_NUMBER FROM `q$row_tracking`", None),
        ("CALL sys.create_tag(table => 'default.q', tag => 'my-tag')", None),
        ("INSERT INTO q VALUES (2, 3)", None),
        ("SELECT a FROM q VERSION AS OF 1", "[(1,)]"),
        ("SELECT a FROM q VERSION AS OF 'my-tag'", "[(1,)]"),
        ("SELECT a FROM q VERSION AS OF 'watermark-1678883047356'", "no snapshot has reached"),
        ("SELECT a FROM q TIMESTAMP AS OF '2023-06-01 00:00:00.123'", "read a later point in time"),
        ("SELECT count(*) FROM q TIMESTAMP AS OF 4078883047", "[(2,)]"),
        ("SELECT rowkind, a FROM paimon_incremental_query('q', 1, 2)", "[('+I', 2)]"),
        ("SELECT * FROM paimon_incremental_between_timestamp('q', '1692169000000', '1692169900000')", WORKS),
        ("SELECT * FROM paimon_incremental_to_auto_tag('q', '2024-12-04')", WORKS),
        ("SELECT * FROM target WHERE a > 5 AND a < 6000", "[(7, 9, 'c99', None)]"),
    ],
    "sql-alter": [
        (f"CREATE TABLE m (id INT, c0 INT, b INT, f FLOAT, {_ALTERED})", None),
        ("ALTER TABLE m SET TBLPROPERTIES ('write-buffer-size' = '256 MB', 'comment' = 'table comment')", WORKS),
        ("ALTER TABLE m UNSET TBLPROPERTIES ('write-buffer-size')", WORKS),
        ("ALTER TABLE m UNSET TBLPROPERTIES ('comment')", WORKS),
        ("ALTER TABLE lake.default.m RENAME TO default.m2", WORKS),
        ("ALTER TABLE m2 ADD COLUMNS (c1 INT, c2 STRING)", WORKS),
        *((f"ALTER TABLE m2 ADD COLUMN {column}.f3 STRING", WORKS) for column in ("s", "a.element", "m.value")),
        *((f"ALTER TABLE m2 RENAME COLUMN {column}.f1 TO f100", WORKS) for column in ("s", "a.element", "m.value")),
        *((f"ALTER TABLE m2 DROP COLUMN {column}.f3", WORKS) for column in ("s", "a.element", "m.value")),
        *((f"ALTER TABLE m2 ALTER COLUMN {column}.f2 TYPE BIGINT", WORKS) for column in ("s", "a.element", "m.value")),
        ("ALTER TABLE m2 RENAME COLUMN c0 TO c10", WORKS),
        ("ALTER TABLE m2 DROP COLUMNS (c1, c2)", WORKS),
        ("ALTER TABLE m2 ALTER COLUMN b COMMENT 'buy count'", WORKS),
        ("ALTER TABLE m2 ADD COLUMN c INT FIRST", WORKS),
        ("ALTER TABLE m2 ADD COLUMN d INT AFTER b", WORKS),
        ("ALTER TABLE m2 ALTER COLUMN f FIRST", WORKS),
        ("ALTER TABLE m2 ALTER COLUMN f AFTER b", WORKS),
        ("ALTER TABLE m2 ALTER COLUMN f TYPE DOUBLE", WORKS),
        ("SHOW COLUMNS FROM m2", "[('c',), ('id',), ('c10',), ('b',), ('f',), ('d',), ('s',), ('a',), ('m',)]"),
        ("INSERT INTO w VALUES (1, 'p1')", None),
        ("ALTER TABLE w DROP PARTITION (pt = 'p1')", WORKS),
        ("ALTER DATABASE default SET DBPROPERTIES ('a' = 'b')", "metastore = hive, jdbc or rest"),
        ("ALTER DATABASE default SET LOCATION 'file:/temp/my_database.db'", "create another database"),
    ],
    "sql-functions": [
        ("INSERT INTO w VALUES (1, 'p1'), (2, 'p2')", None),
        ("SELECT sys.max_pt('w')", "[('p2',)]"),
        ("SELECT * FROM w WHERE pt = sys.max_pt('default.w')", "[(2, 'p2')]"),
        ("SELECT sys.path_to_descriptor('file:///path')", "tables have no BLOB columns"),
        ("CALL sys.create_function('default.f', '[]', '[]')", "write the expression into the query"),
        ("CREATE FUNCTION area(w DOUBLE, h DOUBLE) RETURNS DOUBLE RETURN w * h", "does not support CREATE FUNCTION"),
        ("CREATE TEMPORARY FUNCTION area(w DOUBLE, h DOUBLE) RETURNS DOUBLE RETURN w * h", WORKS),
        ("SELECT area(2, 3)", "[(6.0,)]"),
        ("DROP TEMPORARY FUNCTION area", WORKS),
    ],
    "auxiliary": [
        ("SET `spark.paimon.*.default.q.scan.snapshot-id` = 1", "scan.snapshot-id"),
        ("SELECT count(*) FROM q", "[(1,)]"),
        ("RESET `spark.paimon.*.default.q.scan.snapshot-id`", WORKS),
        ("SET `spark.paimon.file.block-size` = 512M", None),
        ("INSERT INTO q VALUES (3, 3)", "INSERT INTO t WITH"),
        ("RESET `spark.paimon.file.block-size`", WORKS),
        ("DESCRIBE TABLE EXTENDED q", "'Location'"),
        ("SHOW CREATE TABLE q", "CREATE TABLE lake.default.q"),
        ("SHOW PARTITIONS w", "[('pt=p1',), ('pt=p2',)]"),
        ("SHOW PARTITIONS w PARTITION (pt = 'p1')", "[('pt=p1',)]"),
        ("SHOW TABLE EXTENDED IN default LIKE 'q*'", "Table: q"),
        ("SHOW TABLE EXTENDED IN default LIKE 'w' PARTITION (pt = 'p1')", "[pt=p1]"),
        ("SHOW VIEWS LIKE 'test*'", WORKS),
        ("ANALYZE TABLE q COMPUTE STATISTICS", WORKS),
        ("ANALYZE TABLE q COMPUTE STATISTICS FOR COLUMNS a", WORKS),
        ("ANALYZE TABLE q COMPUTE STATISTICS FOR ALL COLUMNS", WORKS),
        ("REFRESH TABLE q", WORKS),
    ],
    "default-value": [
        ("CREATE TABLE d (a INT, b STRING DEFAULT 'my_value', c INT DEFAULT 5)", WORKS),
        ("INSERT INTO d (a) VALUES (1)", WORKS),
        ("ALTER TABLE d ALTER COLUMN c SET DEFAULT 3", WORKS),
        ("INSERT INTO d (a, b) VALUES (2, DEFAULT)", WORKS),
        ("SELECT * FROM d ORDER BY a", "[(1, 'my_value', 5), (2, 'my_value', 3)]"),
        ("CREATE TABLE e (a INT, tags ARRAY<STRING> DEFAULT ARRAY('x'))", "is not a literal"),
        ("ALTER TABLE d ADD COLUMN d INT DEFAULT 5", "then ALTER COLUMN ... SET DEFAULT"),
    ],
    "system-tables": [
        ("SHOW TABLES IN sys", "('sys', 'partitions', False), ('sys', 'tables', False)"),
        ("SELECT table_name FROM sys.tables WHERE partitioned AND table_name = 'w'", "[('w',)]"),
        (
            "SELECT partition_name, record_count FROM sys.partitions WHERE table_name = 'w'",
            "[('pt=p1', 1), ('pt=p2', 1)]",
        ),
        ("SELECT value FROM sys.all_table_options WHERE table_name = 'q'", "[('true',)]"),
        ("SELECT value FROM sys.catalog_options WHERE key = 'local.sync'", "[('false',)]"),
        ("SELECT _ROW_ID, a FROM `q$row_tracking` ORDER BY 1", "[(0, 1), (1, 2)]"),
        ("SELECT record_count, first_row_id FROM `q$file_key_ranges` ORDER BY 2", "[(1, 0), (1, 1)]"),
        ("SELECT * FROM `q$file_indexes`", "$table_indexes"),
        *((f"SELECT count(*) > 0 FROM `target${name}`", "[(True,)]") for name in FILLED),
        *((f"SELECT count(*) FROM `target${name}`", "[(0,)]") for name in EMPTY),
    ],
}


def test_statements_of_the_guides_work_or_name_what_to_use_instead(tmp_path: Path) -> None:
    steps = [step for page in GUIDES.values() for step in page]
    shown = answers(tmp_path, session_jar(tmp_path), tmp_path / "warehouse", [statement for statement, _ in steps])
    wrong = []
    for (statement, expected), answer in zip(steps, shown, strict=True):
        fits = not answer.startswith("refused") if expected is None else expected in answer
        if not fits or (expected == WORKS and answer != WORKS):
            wrong.append((statement, answer))
    assert not wrong, "\n".join(f"{statement} -> {answer}" for statement, answer in wrong)
    page = (ROOT / "docs" / "coming-from-paimon.md").read_text(encoding="utf-8")
    listed = {
        name: (int(works), int(refused))
        for name, works, refused in re.findall(r"\| `([\w-]+)` \| (\d+) \| (\d+) \|", page)
    }
    done = iter(shown)
    counted = {}
    for name, page_steps in GUIDES.items():
        refused = [next(done).startswith("refused") for _ in page_steps]
        tried = [no for no, (_, expected) in zip(refused, page_steps, strict=True) if expected is not None]
        counted[name] = (tried.count(False), tried.count(True))
    assert listed == counted
