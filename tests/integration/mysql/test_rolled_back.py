"""Changes that a transaction took back, although the log of the server has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.ingest.mysql.binlog.log_plan import PlanLimits
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.errors import UnsupportedBinlogEvent
from penstock.ingest.mysql.snapshot.chunk import Chunk
from penstock.ingest.mysql.snapshot.chunk_as_of import read_as_of
from penstock.ingest.mysql.snapshot.read import SnapshotOptions
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

# A temporary table lets MariaDB log what is rolled back. DROP TEMPORARY would commit nothing, but is not needed.
ASIDE = ("CREATE TEMPORARY TABLE aside (id INT)", "DROP TEMPORARY TABLE aside")
ROLLED_BACK = (
    *("BEGIN", "INSERT INTO t VALUES (2, 'x')", "UPDATE t SET v = 'gone'", *ASIDE, "ROLLBACK"),
    *("BEGIN", "INSERT INTO t VALUES (3, 'y')", "SAVEPOINT `One`", "DELETE FROM t", "SAVEPOINT two", *ASIDE),
    *("INSERT INTO t VALUES (4, 'z')", "ROLLBACK TO two", "INSERT INTO t VALUES (5, 'a')", "ROLLBACK TO one"),
    *("INSERT INTO t VALUES (6, 'b')", "ROLLBACK TO one", "INSERT INTO t VALUES (7, 'c')", "COMMIT"),
    *("BEGIN", "SAVEPOINT one", "INSERT INTO t VALUES (8, 'd')", *ASIDE, "ROLLBACK TO one", "COMMIT"),
    *("BEGIN", "INSERT INTO t VALUES (9, 'e')", "SAVEPOINT one", "COMMIT", "INSERT INTO t VALUES (10, 'f')"),
)
REMAINING = [3, 7, 9, 10]


@pytest.fixture
def filled(server: Playground) -> Iterator[Playground]:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(2000))", "INSERT INTO t VALUES (1, 'w')")
    yield server
    server.run("ROLLBACK")


def test_rows_that_were_rolled_back_are_not_read(filled: Playground, tmp_path: Path) -> None:
    sync = Sync(filled, tmp_path)
    sync.run()
    filled.run(*ROLLED_BACK)
    sync.run()
    assert sync.ids("t") == [1, *REMAINING]
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("limits", [PlanLimits(), PlanLimits(range_bytes=50), PlanLimits(bytes=1, range_bytes=1 << 20)])
def test_ranges_leave_out_what_was_rolled_back(filled: Playground, limits: PlanLimits, compressed: bool) -> None:
    start = filled.here()
    if compressed and filled.is_mariadb:
        filled.run("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
    try:
        filled.run(*ROLLED_BACK)
    finally:
        if filled.is_mariadb:
            filled.run("SET GLOBAL log_bin_compress = OFF", "SET GLOBAL log_bin_compress_min_len = 256")
    rows = filled.read(filled.plans(start, limits))
    assert [row["id"] for _, _, row in rows] == REMAINING


def test_a_rollback_in_a_transaction_whose_begin_was_read_is_refused(filled: Playground) -> None:
    start = filled.here()
    values = ", ".join(f"({number}, REPEAT('x', 1000))" for number in range(100, 130))
    filled.run("BEGIN", f"INSERT INTO t VALUES {values}", *["UPDATE t SET v = CONCAT(v, 'y')"] * 3, *ASIDE, "ROLLBACK")
    plans = filled.plans(start, PlanLimits(bytes=10_000, range_bytes=10_000))
    if not filled.is_mariadb:  # it does not log the transaction
        assert filled.read(plans) == []
        return
    assert any(plan.end.skip_events for plan in plans)
    with pytest.raises(UnsupportedBinlogEvent, match="were rolled back"):
        filled.read(plans)


def test_a_chunk_as_of_a_position_does_not_undo_what_was_rolled_back(filled: Playground) -> None:
    start = filled.here()
    filled.run(*ROLLED_BACK)
    chunk = Chunk(DATABASE, "t", 0, key=("id",), is_last=True)
    found = read_as_of(filled.address, chunk, start, SnapshotOptions(), BinlogOptions(), 6001)
    assert [row for batch in found for row in batch.rows.to_pylist()] == [{"id": 1, "v": "w"}]
