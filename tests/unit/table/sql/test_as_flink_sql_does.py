"""Statements of Flink SQL have the results that users of Paimon know; a comment names the reason of each difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.table.sql.steps import Refused, Shown, Step, Stream, check_case

pytestmark = pytest.mark.slow

PK = "id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED"
CASES: dict[str, tuple[Step, ...]] = {
    "a table does not have the option branch": (
        "CREATE TABLE t (a INT)",
        "CALL sys.create_branch('default.t', 'b')",
        # Paimon reads the branch instead of the table from then on.
        ("ALTER TABLE t SET ('branch' = 'b')", Refused("t$branch_b")),
        ("CREATE TABLE u (a INT) WITH ('branch' = 'b')", Refused("a table cannot have the option branch")),
    ),
    "a fallback branch exists": (
        ("CREATE TABLE u (a INT) WITH ('scan.fallback-branch' = 'b')", Refused("has no branch 'b'")),
        "CREATE TABLE t (a INT)",
        ("ALTER TABLE t SET ('scan.fallback-branch' = 'b')", Refused("CALL sys.create_branch")),
        "CALL sys.create_branch('default.t', 'b')",
        "ALTER TABLE t SET ('scan.fallback-branch' = 'b')",
        ("CALL sys.delete_branch('default.t', 'b')", Refused("fallback branch")),
    ),
    "read-optimized rows of a fallback branch": (
        "CREATE TABLE t (k INT, v INT) PARTITIONED BY (k)",
        "CALL sys.create_branch('default.t', 'b')",
        "ALTER TABLE t SET ('scan.fallback-branch' = 'b')",
        "ALTER TABLE t$branch_b SET ('primary-key' = 'k,v', 'bucket' = '1')",
        "INSERT INTO t$branch_b /*+ OPTIONS('full-compaction.delta-commits' = '1') */ VALUES (4, 40), (5, 50)",
        ("SELECT * FROM t$ro", [(4, 40), (5, 50)]),
        "INSERT INTO t$branch_b /*+ OPTIONS('write-only' = 'true') */ VALUES (6, 60)",
        ("SELECT * FROM t$ro", [(4, 40), (5, 50)]),
        "INSERT INTO t VALUES (5, 51)",
        ("SELECT * FROM t$ro", [(4, 40), (5, 51)]),
        (Stream("SELECT * FROM t"), [("+I", 5, 51)]),
    ),
    "a hint names the branch that is read and written": (
        "CREATE TABLE t (a INT)",
        "INSERT INTO t VALUES (1)",
        "CALL sys.create_branch('default.t', 'b')",
        "ALTER TABLE t$branch_b ADD c INT",
        "INSERT INTO t /*+ OPTIONS('branch' = 'b') */ VALUES (2, 20)",
        ("SELECT t.c FROM t /*+ OPTIONS('branch' = 'b') */", [(20,)]),
        (Stream("SELECT * FROM t /*+ OPTIONS('branch' = 'b') */"), [("+I", 2, 20)]),
        Stream("INSERT INTO t /*+ OPTIONS('branch' = 'b') */ SELECT a, a + 10 FROM t"),
        # Started again, the job finds what it has written to the branch.
        Stream("INSERT INTO t /*+ OPTIONS('branch' = 'b') */ SELECT a, a + 10 FROM t"),
        ("SELECT * FROM t$branch_b", [(2, 20), (1, 11)]),
        ("SELECT * FROM t", [(1,)]),
        ("SELECT * FROM t$audit_log /*+ OPTIONS('branch' = 'b') */", [("+I", 2, 20), ("+I", 1, 11)]),
        ("SELECT min_value_stats FROM t$branch_b$files", [("{a=2, c=20}",), ("{a=1, c=11}",)]),
        ("SELECT min_value_stats FROM t$files /*+ OPTIONS('branch' = 'b') */", [("{a=2, c=20}",), ("{a=1, c=11}",)]),
        ("SELECT schema_id FROM t$schemas /*+ OPTIONS('branch' = 'b') */", [(0,), (1,)]),
        ("SELECT schema_id FROM t$branch_b$schemas /*+ OPTIONS('branch' = 'main') */", Refused("both branch")),
        "INSERT OVERWRITE t /*+ OPTIONS('branch' = 'b') */ VALUES (3, 30)",
        ("SELECT * FROM t /*+ OPTIONS('branch' = 'b') */", [(3, 30)]),
        ("SELECT * FROM t /*+ OPTIONS('branch' = 'none') */", Refused("no branch 'none'")),
        ("SELECT * FROM t$snapshots /*+ OPTIONS('branch' = 'none') */", Refused("no branch 'none'")),
    ),
    "the option comment is the comment of the table": (
        "CREATE TABLE t (a INT)",
        "ALTER TABLE t SET ('comment' = 'what was sold', 'snapshot.num-retained.max' = '99')",
        ("SELECT key FROM t$options", [("snapshot.num-retained.max",)]),
        ("SHOW CREATE TABLE t", Shown("COMMENT 'what was sold'")),
        "ALTER TABLE t RESET ('comment')",
        ("SELECT comment FROM t$schemas ORDER BY schema_id DESC LIMIT 1", [(None,)]),
    ),
    "partitions are listed and dropped": (
        "CREATE TABLE plain (a INT)",
        ("SHOW PARTITIONS plain", Refused("the table has no partitions")),
        "CREATE TABLE t (id INT, day STRING, hour INT, PRIMARY KEY (day, hour, id) NOT ENFORCED) "
        "PARTITIONED BY (day, hour)",
        "INSERT INTO t VALUES (1, 'mon', 8), (2, 'tue', 9), (3, 'wed', 9), (4, 'thu', 11)",
        ("SHOW PARTITIONS t PARTITION (hour = 9)", [("day=tue/hour=9",), ("day=wed/hour=9",)]),
        ("SHOW PARTITIONS t PARTITION (day = 'tue', hour = '9')", [("day=tue/hour=9",)]),
        ("SHOW PARTITIONS t PARTITION (id = 1)", Refused("'id' is not a partition column")),
        ("ALTER TABLE t DROP PARTITION (day = 'sun')", Refused("has no partition day=sun")),
        ("ALTER TABLE t DROP PARTITION (day = 'mon'), PARTITION (day = 'sun')", Refused("has no partition day=sun")),
        "ALTER TABLE t DROP IF EXISTS PARTITION (day = 'sun')",
        "ALTER TABLE t DROP PARTITION (`day` = 'mon', `hour` = '8')",
        "ALTER TABLE t DROP PARTITION (day = 'thu'), PARTITION (hour = 9)",
        ("SHOW PARTITIONS t", []),
        ("SELECT count(*) FROM t", [(0,)]),
    ),
    "the database sys has the tables of the catalog": (
        ("CREATE DATABASE sys", Refused("cannot be created")),
        ("DROP DATABASE sys", Refused("there is no database 'sys'")),
        (
            "SHOW TABLES IN sys",
            [("sys", name) for name in ("all_table_options", "catalog_options", "partitions", "tables")],
        ),
        ("SELECT * FROM sys.tables", []),
        "CREATE TABLE t (a INT) WITH ('bucket' = '-1')",
        ("SELECT * FROM sys.all_table_options", [("default", "t", "bucket", "-1")]),
        "CREATE TABLE p (a INT, d STRING, h INT, PRIMARY KEY (a, d, h) NOT ENFORCED) PARTITIONED BY (d, h)",
        "INSERT INTO p VALUES (1, 'x', 1), (2, 'x', 1), (3, 'y/z', 2)",
        (
            "SELECT table_name, table_type, partitioned, primary_key, owner FROM sys.tables ORDER BY 1",
            [("p", "table", True, True, None), ("t", "table", False, False, None)],
        ),
        (
            "SELECT partition_name, record_count, file_count, done FROM sys.partitions ORDER BY 1",
            [("d=x/h=1", 2, 1, False), ("d=y/z/h=2", 1, 1, False)],
        ),
        (
            """SELECT file_size_in_bytes > 0, to_timestamp(last_file_creation_time / 1000) > now() - INTERVAL 1 HOUR
            FROM sys.partitions LIMIT 1""",
            [(True, True)],
        ),
    ),
    "deletion vectors are switched on tables without rows only": (
        f"CREATE TABLE t ({PK}) WITH ('bucket' = '1')",
        "ALTER TABLE t SET ('deletion-vectors.enabled' = 'true')",
        "ALTER TABLE t RESET ('deletion-vectors.enabled')",
        "INSERT INTO t VALUES (1, 'x')",
        (
            "ALTER TABLE t SET ('deletion-vectors.enabled' = 'true')",
            Refused("rows are hidden until"),
        ),
        "ALTER TABLE t SET ('deletion-vectors.enabled' = 'false')",
        "ALTER TABLE t SET ('deletion-vectors.modifiable' = 'true', 'deletion-vectors.enabled' = 'true')",
        ("SELECT * FROM t", []),
        "CALL sys.compact(`table` => 'default.t', compact_strategy => 'full')",
        ("SELECT * FROM t", [(1, "x")]),
        "CREATE TABLE u (a INT) WITH ('deletion-vectors.enabled' = 'true')",
        "INSERT INTO u VALUES (1), (2)",
        "DELETE FROM u WHERE a = 1",
        ("ALTER TABLE u SET ('deletion-vectors.enabled' = 'false')", Refused("deleted rows may come back")),
        ("ALTER TABLE u RESET ('deletion-vectors.enabled')", Refused("deleted rows may come back")),
        ("SELECT * FROM u", [(2,)]),
    ),
    # Flink cuts off what is too long, without a word; Spark refuses it. CHAR is not filled with blanks.
    "values that are longer than their column": (
        "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, c CHAR(2), v VARCHAR(4), b BINARY(2), w VARBINARY(3), "
        "s STRING)",
        "INSERT INTO t VALUES (1, 'ab', 'größ', 'xy'::BLOB, 'xyz'::BLOB, 'no limit'), (2, 'a', '', NULL, NULL, NULL)",
        ("INSERT INTO t (id, c) VALUES (3, 'abc')", Refused("for the column 'c', which is CHAR(2)")),
        ("INSERT INTO t (id, v) SELECT 3, 'größe' FROM t", Refused("'v', which is VARCHAR(4)")),
        ("INSERT INTO t (id, b) VALUES (3, 'xyz'::BLOB)", Refused("'b', which is BINARY(2)")),
        ("INSERT INTO t (id, w) VALUES (3, 'xyzz'::BLOB)", Refused("'w', which is VARBINARY(3)")),
        ("UPDATE t SET v = s WHERE id = 1", Refused("ALTER TABLE t MODIFY")),
        "UPDATE t SET v = left(s, 4) WHERE id = 1",
        (
            "MERGE INTO t USING (SELECT 2 AS id, 'longer' AS v) q ON t.id = q.id WHEN MATCHED THEN UPDATE SET v = q.v",
            Refused("'v', which is VARCHAR(4)"),
        ),
        "CREATE TABLE texts (id INT, s STRING)",
        "INSERT INTO texts VALUES (7, 'longer')",
        (Stream("INSERT INTO t (id, v) SELECT id, s FROM texts"), Refused("'v', which is VARCHAR(4)")),
        ("SELECT id, c, v FROM t", [(1, "ab", "no l"), (2, "a", "")]),
    ),
    **{
        f"nulls in nested values in {form}": (
            "CREATE TABLE t (id INT, l ARRAY<INT NOT NULL>, m MAP<STRING, INT NOT NULL>, s ROW<a INT NOT NULL, b INT>) "
            f"WITH ('file.format' = '{form}')",
            ("INSERT INTO t VALUES (1, [4, NULL], NULL, NULL)", Refused("l.element is NOT NULL")),
            ("INSERT INTO t VALUES (1, NULL, MAP {'k': NULL}, NULL)", Refused("m.value is NOT NULL")),
            ("INSERT INTO t VALUES (1, NULL, NULL, ROW(NULL, 5))", Refused("s.a is NOT NULL")),
            "INSERT INTO t VALUES (1, NULL, NULL, NULL), (2, [], MAP {}, ROW(3, NULL)), (3, [7], MAP {'k': 8}, NULL)",
            ("SELECT id, l, s.a, m['k'] FROM t", [(1, None, None, None), (2, [], 3, None), (3, [7], None, 8)]),
        )
        for form in ("parquet", "avro", "orc")
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_statement_has_the_result_of_paimon(case: str, tmp_path: Path) -> None:
    check_case(tmp_path, CASES[case])
