"""MariaDB 11.4 and newer: a log without positions within transactions, written in every way that the server knows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.ingest.mysql.binlog.captured_rows import ROWS
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.log_plan import PlanLimits
from penstock.ingest.mysql.binlog.log_sample import with_sample
from penstock.ingest.mysql.errors import RowImageError
from penstock.ingest.mysql.position import LogPosition
from penstock.row_kinds import DELETE, UPDATE_BEFORE
from tests.integration.mysql.playground import Playground, Row, in_order
from tests.integration.mysql.sync import Sync
from tests.servers import launch

pytestmark = pytest.mark.mariadb

KEYS = "1;770A8A65DA156D24EE2A093277530142770A8A65DA156D24EE2A093277530142\n"
WAYS = {
    "as installed": [],
    "compressed": ["--log-bin-compress=1", "--log-bin-compress-min-len=10"],
    "without checksums": ["--binlog-checksum=NONE"],
    "without annotations": ["--binlog-annotate-row-events=OFF"],
    "with positions": ["--binlog-legacy-event-pos=ON"],
    "large transactions as files": ["--binlog-large-commit-threshold=10M"],
    "encrypted": ["--plugin-load-add=file_key_management", "--encrypt-binlog=ON"],
    "DDL in two phases": ["--binlog-alter-two-phase=ON"],
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_rows_of_every_binlog_format_equal_those_of_the_server(way: str, tmp_path: Path) -> None:
    options = list(WAYS[way])
    if way == "encrypted":
        (tmp_path / "keys").write_text(KEYS)
        options += [f"--file-key-management-filename={tmp_path}/keys"]
    with launch.running("mariadb-11.8", tmp_path / "server", *options) as port:
        server = Playground("mariadb", port)
        server.start_over()
        server.run("CREATE TABLE earlier (id INT)")
        start = with_sample(server.address, server.here(), 6004)
        assert start.sample is not None
        server.run(
            "CREATE TABLE t (id INT PRIMARY KEY, status VARCHAR(20), filler LONGTEXT)",
            "INSERT INTO t VALUES (1, 'new', ''), (2, 'new', '')",
            "UPDATE t SET status = 'paid' WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
            "BEGIN",
            "INSERT INTO t SELECT seq, 'many', REPEAT('x', 4000) FROM seq_10_to_4000",
            "UPDATE t SET status = 'changed' WHERE id % 7 = 0",
            "COMMIT",
            "ALTER TABLE t ADD COLUMN more INT",
            "FLUSH BINARY LOGS",
            "UPDATE t SET more = id WHERE id % 3 = 0",
        )
        held = [tuple(row) for row in server.rows("SELECT id, status, filler, more FROM t ORDER BY id")]
        assert replayed(server.read(server.plans(start, PlanLimits()))) == held
        logged = sum(int(size) for _, size, *_ in server.rows("SHOW BINARY LOGS"))
        plans = server.plans(start, PlanLimits(logged // 4, logged // 16))
        assert len(plans) > 2
        assert replayed(server.read(plans)) == held
        # The same from a GTID set, as after a failover.
        after = server.here()
        server.run("INSERT INTO t VALUES (5000, 'last', '', NULL)")
        request = DumpRequest(LogPosition("", 4, after.gtid), 6003, by_gtid=True)
        with dumping(server.address, request) as segments:
            assert sum(int(ROWS[segment.kind].sum()) for segment in segments) == 1


def replayed(rows: list[Row]) -> list[tuple[object, ...]]:
    """The table after these changes of its log."""
    state: dict[object, tuple[object, ...]] = {}
    for _, kind, row in rows:
        if kind in {DELETE, UPDATE_BEFORE}:
            del state[row["id"]]
        else:
            state[row["id"]] = (row["id"], row["status"], row["filler"], row.get("more"))
    return [state[id] for id in sorted(state, key=int)]  # type: ignore[call-overload]


@pytest.mark.slow
def test_a_pipeline_that_ends_within_a_transaction_resumes_there(mariadb_11_8: Playground, tmp_path: Path) -> None:
    server = mariadb_11_8
    server.start_over()
    server.run("CREATE TABLE t (id INT PRIMARY KEY, status VARCHAR(20))", "INSERT INTO t VALUES (1, 'new'), (2, 'new')")
    sync = Sync(server, tmp_path, "t", ["table-name=t"], ["--max-batch-bytes", "20kb"])
    sync.run()
    server.run("BEGIN", "INSERT INTO t SELECT seq, 'many' FROM seq_10_to_2000", "DELETE FROM t WHERE id = 2", "COMMIT")

    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        sync.run(stop)
    sync.run()
    assert sync.ids() == [1, *range(10, 2001)]
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []


def test_a_plan_ends_and_continues_within_a_transaction(mariadb_11_8: Playground) -> None:
    """Ranges and plans of a few events each, of a transaction that states no position but its end's."""
    server = mariadb_11_8
    server.start_over()
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    start = server.here()
    server.run("BEGIN", *(f"INSERT INTO t VALUES ({id}, 0)" for id in range(1, 60)), "UPDATE t SET v = id", "COMMIT")
    whole = in_order(server.log_since(start))
    assert len(whole) == 59 * 3
    for limits in (PlanLimits(1, 1), PlanLimits(300, 200), PlanLimits(1 << 20, 500)):
        plans = server.plans(start, limits)
        assert any(plan.end.skip_events for plan in plans) == (limits.bytes < 1 << 20)
        assert server.read(plans) == whole


def test_images_without_the_unchanged_columns_are_refused(mariadb_11_8: Playground) -> None:
    """A session may choose them by itself, whatever `check` has found."""
    server = mariadb_11_8
    server.start_over()
    server.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 1, 1)")
    start = server.here()
    server.run("SET SESSION binlog_row_image = FULL_NODUP", "UPDATE t SET a = 2", "SET SESSION binlog_row_image = FULL")
    with pytest.raises(RowImageError, match="without all their columns"):
        server.log_since(start)


def test_every_byte_of_every_file_is_read(mariadb_11_8: Playground) -> None:
    server = mariadb_11_8
    server.start_over()
    start = server.here()
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)", "FLUSH BINARY LOGS")
    server.run("DELETE FROM t WHERE id = 1")
    sizes = {str(name): int(size) for name, size, *_ in server.rows("SHOW BINARY LOGS")}
    ends: dict[str, int] = {}
    before = server.here()
    with dumping(server.address, DumpRequest(LogPosition(start.file, 4), 6001)) as segments:
        for segment in segments:
            assert int(segment.pos[0]) == ends.get(segment.file, int(segment.pos[0]))
            assert (segment.pos[1:] > segment.pos[:-1]).all()
            ends[segment.file] = segment.after
    last = server.here()
    rotation = len(last.file) + 8 + 19 + 4  # the ROTATE at the end of a file is followed, not handed on
    assert ends.keys() == {start.file, last.file}
    assert ends[start.file] == sizes[start.file] - rotation
    # The server adds a checkpoint of its log after a while.
    assert before.pos <= ends[last.file] <= last.pos


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_vectors_are_lists_of_numbers_in_snapshot_and_binlog(
    mariadb_11_8: Playground, tmp_path: Path, metadata: str
) -> None:
    server = mariadb_11_8
    server.start_over()
    server.run(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        server.run(
            "CREATE TABLE t (id INT PRIMARY KEY, v VECTOR(3) NOT NULL, w VECTOR(80))",
            "INSERT INTO t VALUES (1, VEC_FromText('[1,-2.5,3]'), NULL)",
        )
        sync = Sync(server, tmp_path, "t", ["table-name=t"])
        sync.run()
        long = "[" + ",".join(["0.25"] * 80) + "]"
        server.run(f"INSERT INTO t VALUES (2, VEC_FromText('[0.5,0,1]'), VEC_FromText('{long}'))")
        sync.run()
    finally:
        server.run("SET GLOBAL binlog_row_metadata = FULL")
    assert [(row["v"], row["w"]) for row in sync.rows()] == [([1.0, -2.5, 3.0], None), ([0.5, 0.0, 1.0], [0.25] * 80)]
    assert sync.target().scan().to_arrow().schema.field("v").type == pa.list_(pa.float32())
