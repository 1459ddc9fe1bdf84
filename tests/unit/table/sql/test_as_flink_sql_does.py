"""Statements of Flink SQL have the results that users of Paimon know; a comment names the reason of each difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.table.sql.steps import Refused, Step, Stream, check_case

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
}


@pytest.mark.parametrize("case", CASES)
def test_a_statement_has_the_result_of_paimon(case: str, tmp_path: Path) -> None:
    check_case(tmp_path, CASES[case])
