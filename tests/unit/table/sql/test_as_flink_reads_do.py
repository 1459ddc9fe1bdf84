"""Queries, streams, lookup joins and procedures of Flink SQL on Paimon tables, with the results of Paimon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.table.sql.steps import Refused, Step, Stream, check_case

pytestmark = pytest.mark.slow

THREE = (
    "CREATE TABLE t (id INT, v STRING)",
    "INSERT INTO t VALUES (1, 'a')",
    "INSERT INTO t VALUES (2, 'b')",
    "CALL sys.create_tag('default.t', 'second')",
    "INSERT INTO t VALUES (3, 'c')",
)
KEYED = (
    "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, v STRING) WITH ('bucket' = '1', 'changelog-producer' = 'lookup')",
    "INSERT INTO t VALUES (1, 'a')",  # snapshots 1 and 2, the second with the changelog
    "INSERT INTO t VALUES (1, 'b'), (2, 'c')",
    "DELETE FROM t WHERE k = 2",
)
TRAVEL: dict[str, tuple[Step, ...]] = {
    "older states": (
        *THREE,
        ("SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */", [(1,)]),
        ("SELECT id FROM t /*+ OPTIONS('scan.mode' = 'from-snapshot-full', 'scan.snapshot-id' = '1') */", [(1,)]),
        ("SELECT id FROM t /*+ OPTIONS('scan.tag-name' = 'second') */", [(1,), (2,)]),
        ("SELECT id FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2999-01-01 00:00:00'", [(1,), (2,), (3,)]),
        ("SELECT count(*) FROM t$files /*+ OPTIONS('scan.snapshot-id' = '2') */", [(2,)]),
        ("SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '9') */", Refused("snapshot 9 does not exist")),
        ("SELECT * FROM t /*+ OPTIONS('scan.tag-name' = 'x') */", Refused("there is no tag 'x'")),
        ("SELECT * FROM t /*+ OPTIONS('scan.mode' = 'full', 'scan.snapshot-id' = '1') */", Refused("contradict")),
        ("SELECT * FROM t /*+ OPTIONS('scan.timestamp-millis' = '1', 'scan.snapshot-id' = '1') */", Refused("one")),
        ("SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '1900-01-01 00:00:00'", Refused("no snapshot as old")),
    ),
    "tags keep states that have expired": (
        *THREE,
        "CALL sys.expire_snapshots(`table` => 'default.t', retain_max => 1, retain_min => 1)",
        ("SELECT snapshot_id FROM t$snapshots", [(3,)]),
        ("SELECT id FROM t /*+ OPTIONS('scan.tag-name' = 'second') */", [(1,), (2,)]),
        ("SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */", Refused("snapshot 1 has expired")),
    ),
    # Paimon's Flink shows the newest columns for a hint, and those of the time for FOR SYSTEM_TIME; here both are old.
    "columns of an older state": (
        *THREE,
        "ALTER TABLE t ADD more INT",
        ("SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */", [(1, "a")]),
        ("SELECT * FROM t VERSION AS OF 1", [(1, "a")]),
    ),
    "changes between snapshots": (
        *KEYED,
        (
            "SELECT * FROM t$audit_log /*+ OPTIONS('incremental-between' = '2,6') */",
            [("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c"), ("-D", 2, "c")],
        ),
        (
            "SELECT * FROM t$audit_log /*+ OPTIONS('incremental-between' = '2,6', "
            "'incremental-between-scan-mode' = 'diff') */",
            [("+I", 1, "b")],
        ),
        ("SELECT * FROM t /*+ OPTIONS('incremental-between-timestamp' = '0,1') */", []),
    ),
    "changes between tags with other numbers of buckets": (
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED) WITH ('bucket' = '1')",
        "INSERT INTO t VALUES (1)",
        "CALL sys.create_tag('default.t', 'one')",
        "ALTER TABLE t SET ('bucket' = '2')",
        "INSERT OVERWRITE t SELECT * FROM t",
        "CALL sys.create_tag('default.t', 'two')",
        ("SELECT * FROM t /*+ OPTIONS('incremental-between' = 'one,two') */", Refused("numbers of buckets, 1 and 2")),
    ),
}
FALLBACK = (
    "CREATE TABLE t (p INT NOT NULL, k INT NOT NULL, v STRING) PARTITIONED BY (p)",
    "INSERT INTO t VALUES (1, 1, 'fig')",
    "CALL sys.create_branch('default.t', 'b')",
)
BRANCHES: dict[str, tuple[Step, ...]] = {
    "a fallback branch": (
        *FALLBACK,
        "ALTER TABLE t$branch_b SET ('primary-key' = 'p, k', 'bucket' = '2')",
        "ALTER TABLE t SET ('scan.fallback-branch' = 'b')",
        "INSERT INTO t$branch_b VALUES (1, 1, 'elm'), (2, 1, 'oak'), (2, 2, 'ash')",
        "INSERT INTO t$branch_b VALUES (2, 2, 'yew')",
        ("SELECT v FROM t", [("fig",), ("oak",), ("yew",)]),
        ("SELECT v FROM t WHERE p = 2 AND k = 2", [("yew",)]),
        ("SELECT p, count(*) FROM t GROUP BY p", [(1, 1), (2, 2)]),
        "INSERT OVERWRITE t PARTITION (p = 2) VALUES (9, 'pear')",
        ("SELECT v FROM t", [("fig",), ("pear",)]),
        "ALTER TABLE t RESET ('scan.fallback-branch')",
        ("SELECT v FROM t", [("fig",), ("pear",)]),
    ),
    "a fallback branch with other columns": (
        *FALLBACK,
        "ALTER TABLE t$branch_b ADD more INT",
        "ALTER TABLE t SET ('scan.fallback-branch' = 'b')",
        ("SELECT * FROM t", Refused("different columns")),
    ),
    "branches from tags": (
        *THREE,
        "CALL sys.create_branch('default.t', 'b', 'second')",
        "INSERT INTO t$branch_b VALUES (4, 'd')",
        ("SELECT id FROM t$branch_b", [(1,), (2,), (4,)]),
        ("SELECT tag_name FROM t$branch_b$tags", [("second",)]),
        "CALL sys.create_branch('default.t$branch_b', 'c', 'second')",
        ("SELECT id FROM t$branch_c", [(1,), (2,)]),
        ("SELECT branch_name FROM t$branches", [("b",), ("c",)]),
        "CALL sys.fast_forward('default.t', 'b')",
        ("SELECT id FROM t", [(1,), (2,), (4,)]),
        ("CALL sys.create_branch('default.t', 'main')", Refused("cannot be the name of a branch")),
        ("CALL sys.create_branch('default.t', 'd', 'none')", Refused("there is no tag 'none'")),
    ),
}
ORDERS = (
    "CREATE TABLE orders (id INT, who INT)",
    "INSERT INTO orders VALUES (1, 7), (2, 8), (3, 9)",
    "CREATE TABLE people (who INT PRIMARY KEY NOT ENFORCED, name STRING, age INT)",
    "INSERT INTO people VALUES (7, 'Ann', 30), (8, 'Bo', 10)",
)
STREAMS: dict[str, tuple[Step, ...]] = {
    "the changes of a table": (
        *KEYED,
        (Stream("SELECT * FROM t"), [("+I", 1, "b")]),
        (
            Stream("SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */"),
            [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c"), ("-D", 2, "c")],
        ),
        (Stream("SELECT * FROM t /*+ OPTIONS('scan.mode' = 'latest') */"), []),
        (
            Stream("SELECT * FROM t /*+ OPTIONS('scan.mode' = 'from-timestamp') */"),
            Refused("scan.timestamp-millis"),
        ),
        (Stream("SELECT * FROM t /*+ OPTIONS('scan.mode' = 'latest', 'scan.snapshot-id' = '1') */"), Refused("contra")),
        (
            Stream("SELECT rowkind, v FROM t$binlog /*+ OPTIONS('scan.snapshot-id' = '3') */"),
            [("+I", "+U", ["a", "b"]), ("+I", "+I", ["c"]), ("+I", "-D", ["c"])],
        ),
    ),
    "a consumer continues, and batch reads ignore it": (
        *THREE,
        (Stream("SELECT id FROM t /*+ OPTIONS('consumer-id' = 'me') */"), [("+I", 1), ("+I", 2), ("+I", 3)]),
        "INSERT INTO t VALUES (4, 'd')",
        ("SELECT id FROM t /*+ OPTIONS('consumer-id' = 'me') */", [(1,), (2,), (3,), (4,)]),
        (Stream("SELECT id FROM t /*+ OPTIONS('consumer-id' = 'me') */"), [("+I", 4)]),
        "CALL sys.reset_consumer('default.t', 'me', 4)",
        ("SELECT * FROM t$consumers", [("me", 4)]),
        "CALL sys.reset_consumer('default.t', 'me')",
        ("SELECT * FROM t$consumers", []),
    ),
    "overwrites are read if an option says so": (
        *THREE[:2],
        "INSERT OVERWRITE t VALUES (8, 'x')",
        "INSERT INTO t VALUES (9, 'y')",
        (Stream("SELECT id FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */"), [("+I", 1), ("+I", 9)]),
        "CREATE TABLE u (k INT PRIMARY KEY NOT ENFORCED) WITH ('streaming-read-overwrite' = 'true')",
        "INSERT INTO u VALUES (1)",
        "INSERT OVERWRITE u VALUES (2)",
        (Stream("SELECT * FROM u /*+ OPTIONS('scan.snapshot-id' = '1') */"), [("+I", 1), ("-D", 1), ("+I", 2)]),
    ),
    "lookup joins": (
        *ORDERS,
        (
            Stream(
                "SELECT id, name FROM orders o LEFT JOIN people FOR SYSTEM_TIME AS OF PROCTIME() p ON o.who = p.who"
            ),
            [("+I", 1, "Ann"), ("+I", 2, "Bo"), ("+I", 3, None)],
        ),
        (
            Stream(
                "SELECT id, name FROM orders o JOIN people FOR SYSTEM_TIME AS OF o.proctime AS p "
                "ON o.who = p.who AND p.age > 20"
            ),
            [("+I", 1, "Ann")],
        ),
        (
            "SELECT id FROM orders o JOIN people FOR SYSTEM_TIME AS OF o.proctime AS p ON o.who = p.who",
            Refused("runs as a stream"),
        ),
    ),
    "lookups in the newest partition": (
        *ORDERS,
        "CREATE TABLE days (day STRING, who INT, city STRING) PARTITIONED BY (day)",
        "INSERT INTO days VALUES ('mon', 7, 'Rome'), ('tue', 7, 'Oslo'), ('mon', 8, 'Lima')",
        *(
            (
                Stream(
                    f"SELECT id, city FROM orders o JOIN days /*+ OPTIONS('{option}' = 'max_pt()') */ "
                    "FOR SYSTEM_TIME AS OF PROCTIME() AS d ON o.who = d.who"
                ),
                [("+I", 1, "Oslo")],
            )
            for option in ("scan.partitions", "lookup.dynamic-partition")
        ),
        ("SELECT * FROM days /*+ OPTIONS('scan.partitions' = 'max_pt()') */", Refused("sys.max_pt")),
        ("SELECT city FROM days WHERE day = sys.max_pt('days')", [("Oslo",)]),
    ),
}
PROCEDURES: dict[str, tuple[Step, ...]] = {
    "the rows are those of a tag again": (
        *THREE,
        "CALL sys.rollback_to('default.t', 'second')",
        ("SELECT id FROM t", [(1,), (2,)]),
        ("CALL sys.rollback_to(`table` => 'default.t', tag => 'none')", Refused("there is no tag 'none'")),
        ("CALL sys.rollback_to(`table` => 'default.t', nothing => 1)", Refused("is unknown")),
    ),
    "tags": (
        *THREE,
        ("CALL sys.create_tag('default.t', 'second')", Refused("there is a tag 'second' already")),
        "CALL sys.replace_tag('default.t', 'second', 1)",
        "CALL sys.rename_tag('default.t', 'second', 'first')",
        ("SELECT tag_name, snapshot_id, record_count FROM t$tags", [("first", 1, 1)]),
        "CALL sys.delete_tag('default.t', 'first')",
        ("SELECT * FROM t$tags", []),
    ),
    "compaction": (
        *KEYED,
        "CALL sys.compact(`table` => 'default.t', compact_strategy => 'full')",
        ("SELECT level, record_count FROM t$files", [(5, 1)]),
        ("CALL sys.compact(`table` => 'default.t', partitions => 'dt=1')", Refused("'dt' is not a partition column")),
    ),
}
CASES = TRAVEL | BRANCHES | STREAMS | PROCEDURES


@pytest.mark.parametrize("case", CASES)
def test_a_read_has_the_rows_of_paimon(case: str, tmp_path: Path) -> None:
    check_case(tmp_path, CASES[case])
