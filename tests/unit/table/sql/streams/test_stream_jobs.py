"""Streaming INSERT and SELECT: kinds, starts, consumers, jobs that are killed and started again."""

from __future__ import annotations

import random
from pathlib import Path
from threading import Event

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.errors import SnapshotMissing
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.operations.write import TableWriter
from penstock.table.read.change_stream import SnapshotBatches
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.session_options import STREAMING
from penstock.table.sql.streams.stream_inserts import StreamInsert
from penstock.table.sql.streams.stream_jobs import INTERVAL
from penstock.table.system.tables import NAMES
from tests.invariants import check_invariants

BATCH = "SET 'execution.runtime-mode' = 'batch'"
SOURCE = "id INT, g INT, v INT, PRIMARY KEY (id) NOT ENFORCED"
Row = dict[str, object]


class Lake:
    """A warehouse with a table of changes, and streams that end when they have caught up."""

    def __init__(self, folder: Path) -> None:
        self.catalog = penstock.Catalog(folder, {"local.sync": "false"})
        self.batch(
            f"CREATE DATABASE d; CREATE TABLE d.s ({SOURCE}) WITH ('bucket' = '2', 'changelog-producer' = 'input')"
        )

    def results(self, script: str, *, stream: bool = False, **settings: Event) -> list[list[Row]]:
        with Interpreter(self.catalog, "d", until_caught_up="stop" not in settings, **settings) as interpreter:
            return [rows.to_pylist() for rows in interpreter.run(f"{STREAMING if stream else BATCH}; {script}")]

    def batch(self, script: str) -> list[Row]:
        with Interpreter(self.catalog, "d" if self.catalog.databases() else None) as interpreter:
            return list(interpreter.run(script))[-1].to_pylist()  # type: ignore[no-any-return]  # rows as Arrow gives them

    def stream(self, script: str) -> list[Row]:
        """Return the rows of the last statement, which may have come in several tables."""
        tables = self.results(script, stream=True)[script.count(";") + 1 :]
        return [row for rows in tables for row in rows]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "warehouse")


def kinds(rows: list[Row], *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in ("op", *names)) for row in rows]


@pytest.mark.slow
def test_an_update_of_which_one_row_matches_is_an_insert_or_a_delete(lake: Lake) -> None:
    lake.batch("INSERT INTO s VALUES (1, 1, 5), (2, 1, 50); UPDATE s SET v = 55 - v; DELETE FROM s WHERE id = 2")
    start = "/*+ OPTIONS('scan.snapshot-id' = '1') */"
    rows = lake.stream(f"SELECT id, v FROM s {start} WHERE v > 10")
    assert kinds(rows, "id", "v") == [("+I", 2, 50), ("+I", 1, 50), ("-D", 2, 50)]
    nested = lake.stream(f"SELECT * FROM (SELECT id, v * 2 AS w FROM s {start}) WHERE w <= 10")
    assert kinds(nested, "id", "w") == [("+I", 1, 10), ("-D", 1, 10), ("+I", 2, 10), ("-D", 2, 10)]


@pytest.mark.slow
def test_a_stream_begins_where_its_scan_options_place_it(lake: Lake) -> None:
    for number in (1, 2, 3):
        lake.batch(f"INSERT INTO s VALUES ({number}, 0, {number})")
    shown = {
        "'scan.mode' = 'latest'": [],
        "'scan.snapshot-id' = '2'": [2, 3],
        "'scan.mode' = 'from-snapshot-full', 'scan.snapshot-id' = '2'": [1, 2, 3],
        "'scan.mode' = 'from-timestamp', 'scan.timestamp-millis' = '1000'": [1, 2, 3],
        "'scan.timestamp' = '1971-01-01 00:00:00'": [1, 2, 3],
        "'scan.mode' = 'latest-full'": [1, 2, 3],
    }
    for options, ids in shown.items():
        assert sorted(row["id"] for row in lake.stream(f"SELECT id FROM s /*+ OPTIONS({options}) */")) == ids, options  # type: ignore[type-var]  # ids are numbers


@pytest.mark.slow
def test_the_last_snapshot_of_a_consumer_is_not_read_again(lake: Lake) -> None:
    query = "SELECT id FROM s /*+ OPTIONS('consumer-id' = 'c', 'scan.snapshot-id' = '1') */"
    lake.batch("INSERT INTO s VALUES (1, 0, 0); INSERT INTO s VALUES (2, 0, 0)")
    assert kinds(lake.stream(query), "id") == [("+I", 1), ("+I", 2)]
    assert lake.catalog.table("d.s").consumers == {"c": 3}
    assert lake.stream(query) == []
    lake.batch("INSERT INTO s VALUES (3, 0, 0)")
    assert kinds(lake.stream(query), "id") == [("+I", 3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "producer", ["'full-compaction', 'full-compaction.delta-commits' = '3'", "'lookup', 'write-only' = 'true'"]
)
def test_rows_that_are_not_compacted_come_with_the_changelog_only(lake: Lake, producer: str) -> None:
    lake.batch(f"DROP TABLE s; CREATE TABLE s ({SOURCE}) WITH ('bucket' = '1', 'changelog-producer' = {producer})")
    lake.batch("INSERT INTO s VALUES (1, 0, 0); CALL sys.compact('d.s'); INSERT INTO s VALUES (2, 0, 0)")
    query = "SELECT id FROM s /*+ OPTIONS('consumer-id' = 'c') */"
    first = lake.stream(query)
    lake.batch("INSERT INTO s VALUES (3, 0, 0); ALTER TABLE s SET ('write-only' = 'false'); CALL sys.compact('d.s')")
    later = lake.stream(query)
    assert sorted(row["id"] for row in first + later) == [1, 2, 3]


@pytest.mark.slow
def test_the_audit_log_is_a_stream_of_new_rows(lake: Lake) -> None:
    lake.batch("CREATE TABLE log (kind STRING, id INT, v INT); INSERT INTO s VALUES (1, 0, 1); UPDATE s SET v = 2")
    source = "s$audit_log /*+ OPTIONS('scan.snapshot-id' = '1') */"
    lake.stream(f"INSERT INTO log SELECT rowkind, id, v FROM {source} WHERE v > 0")
    rows = lake.batch("SELECT * FROM log")
    assert [tuple(row.values()) for row in rows] == [("+I", 1, 1), ("-U", 1, 1), ("+U", 1, 2)]


@pytest.mark.slow
def test_the_binlog_is_a_stream_of_rows_with_both_values_of_an_update(lake: Lake) -> None:
    lake.batch(
        "CREATE TABLE log (kind STRING, id ARRAY<INT>, v ARRAY<INT>); INSERT INTO s VALUES (1, 0, 1);"
        "UPDATE s SET v = 2; DELETE FROM s WHERE id = 1"
    )
    source = "s$binlog /*+ OPTIONS('scan.snapshot-id' = '1') */"
    lake.stream(f"INSERT INTO log SELECT rowkind, id, v FROM {source}")
    rows = [tuple(row.values()) for row in lake.batch("SELECT * FROM log")]
    assert rows == [("+I", [1], [1]), ("+U", [1, 1], [1, 2]), ("-D", [1], [2])]
    shown = lake.stream(f"SELECT v[1] AS was FROM {source} WHERE len(v) = 2 AND v[2] > v[1]")
    assert shown == [{"op": "+I", "was": 1}]
    lake.batch("INSERT INTO s VALUES (5, 0, 7)")
    assert lake.stream("SELECT * FROM s$BINLOG") == [{"op": "+I", "rowkind": "+I", "id": [5], "g": [0], "v": [7]}]


@pytest.mark.slow
def test_the_read_optimized_rows_of_a_table_without_a_key_are_a_stream(lake: Lake) -> None:
    lake.batch("CREATE TABLE log (id INT); INSERT INTO log VALUES (1); CREATE TABLE copy (id INT)")
    lake.stream("INSERT INTO copy SELECT id FROM log$ro")
    lake.batch("INSERT INTO log VALUES (2)")
    lake.stream("INSERT INTO copy SELECT id FROM log$ro")
    assert [row["id"] for row in lake.batch("SELECT id FROM copy ORDER BY id")] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("system", sorted({*NAMES} - {"audit_log", "binlog"}))
def test_other_system_tables_are_refused_with_what_to_read_instead(lake: Lake, system: str) -> None:
    with pytest.raises(ConfigError, match=rf"s[$]{system} cannot be read as a stream") as caught:
        lake.stream(f"SELECT * FROM s${system}")
    assert "in batch mode" in str(caught.value.hint)


@pytest.mark.slow
def test_old_rows_leave_groups_that_a_key_moves_from(lake: Lake) -> None:
    lake.batch("CREATE TABLE by_g (g INT, id INT, PRIMARY KEY (g, id) NOT ENFORCED) WITH ('bucket' = '1')")
    lake.batch("INSERT INTO s VALUES (1, 1, 0), (2, 1, 0)")
    insert = "INSERT INTO by_g SELECT g, id FROM s"
    lake.stream(insert)
    lake.batch("UPDATE s SET g = 2 WHERE id = 1; UPDATE s SET v = 9 WHERE id = 2")
    lake.stream(insert)
    assert lake.batch("SELECT * FROM by_g ORDER BY id") == [{"g": 2, "id": 1}, {"g": 1, "id": 2}]


@pytest.mark.slow
def test_streams_of_a_script_and_of_a_set_run_together(lake: Lake) -> None:
    wide = "CREATE TABLE wide (id INT, a INT, b INT, PRIMARY KEY (id) NOT ENFORCED)"
    lake.batch(
        f"{wide} WITH ('merge-engine' = 'partial-update'); CREATE TABLE o LIKE s;"
        "CREATE TABLE sums (g INT, v BIGINT, PRIMARY KEY (g) NOT ENFORCED) WITH ("
        "'bucket' = '1', 'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum')"
    )
    lake.batch(
        "INSERT INTO s VALUES (1, 1, 10), (2, 1, 20); INSERT INTO o VALUES (1, 0, 7); UPDATE s SET v = 11 WHERE id = 1"
    )
    union = "INSERT INTO wide SELECT id, v, NULL FROM s UNION ALL SELECT id, NULL, v FROM o"
    rows = lake.stream(f"EXECUTE STATEMENT SET BEGIN {union}; INSERT INTO sums SELECT g, v FROM s; END")
    assert [row["job"] for row in rows if row.get("written")] == [
        "sql:d.s->d.wide",
        "sql:d.o->d.wide",
        "sql:d.s->d.sums",
    ]
    assert [tuple(row.values()) for row in lake.batch("SELECT * FROM wide ORDER BY id")] == [(1, 11, 7), (2, 20, None)]
    assert lake.batch("SELECT * FROM sums") == [{"g": 1, "v": 31}]


@pytest.mark.slow
def test_a_stream_ends_when_it_is_stopped_and_continues_behind_the_last_snapshot(lake: Lake) -> None:
    lake.batch("CREATE TABLE t LIKE s; INSERT INTO s VALUES (1, 0, 0)")
    stop = Event()
    tables = []
    with Interpreter(lake.catalog, "d", stop=stop) as interpreter:
        for rows in interpreter.run(f"{STREAMING}; INSERT INTO t SELECT * FROM s; SELECT * FROM s"):
            tables.append(rows.to_pylist())
            if "op" in rows.column_names:
                stop.set()
    assert tables[1:] == [
        [{"job": "sql:d.s->d.t"}],
        [{"op": "+I", "id": 1, "g": 0, "v": 0}],
        [{"job": "sql:d.s->d.t", "read_to": 1, "written": 1, "snapshot": 1}],
    ]
    assert lake.stream("INSERT INTO t SELECT * FROM s")[0]["written"] == 0


@pytest.mark.slow
def test_a_job_whose_place_has_expired_reads_from_the_start_with_a_warning(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.batch(f"CREATE TABLE t ({SOURCE}) WITH ('bucket' = '1'); INSERT INTO s VALUES (1, 0, 0)")
    query = "INSERT INTO t SELECT * FROM s"
    for _ in range(2):
        lake.stream(query)
    assert "event=job_place_expired" not in caplog.text
    for number in (-1, -2):
        lake.batch(f"INSERT INTO t VALUES ({number}, 0, 0)")
    expire_snapshots(lake.catalog.table("d.t").store, retain_max=1, retain_min=1, protect_users=0)
    lake.stream(query)
    assert "event=job_place_expired table=d.t job=" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("others", [0, 1, 3])
def test_a_target_that_is_rolled_back_stops_its_job_which_then_reads_the_rows_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    lake.batch(f"CREATE TABLE t ({SOURCE}) WITH ('bucket' = '1')")
    for number in range(4):
        lake.batch(f"INSERT INTO s VALUES ({number}, 0, 0)")
    process = StreamInsert._process

    def rolled_back(job: StreamInsert, batches: SnapshotBatches) -> None:
        if batches.snapshot.id == 4:
            monkeypatch.setattr(StreamInsert, "_process", process)
            latest = lake.catalog.table("d.t").latest_snapshot
            assert latest is not None
            lake.catalog.table("d.t").rollback_to(latest.id - 1)
            for number in range(others):
                lake.batch(f"INSERT INTO t VALUES ({-1 - number}, 0, 0)")
        process(job, batches)

    monkeypatch.setattr(StreamInsert, "_process", rolled_back)
    query = "INSERT INTO t SELECT * FROM s /*+ OPTIONS('scan.snapshot-id' = '1') */"
    with pytest.raises(ConfigError, match="rolled back"):
        lake.stream(query)
    lake.stream(query)
    assert {0, 1, 2, 3} <= {row["id"] for row in lake.batch("SELECT id FROM t")}


@pytest.mark.slow
def test_a_job_continues_when_its_last_commit_expires(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's expiry does not keep the last snapshot of each user. The job is not taken for one that was rolled back."""
    lake.batch(f"CREATE TABLE t ({SOURCE}) WITH ('bucket' = '1'); INSERT INTO s VALUES (1, 0, 0)")
    query = "INSERT INTO t SELECT * FROM s WHERE v = 0"
    lake.stream(query)
    lake.batch("INSERT INTO t VALUES (-1, 0, 0); INSERT INTO t VALUES (-2, 0, 0)")
    lake.batch("INSERT INTO s VALUES (2, 0, 1); INSERT INTO s VALUES (3, 0, 0)")
    process = StreamInsert._process

    def expired(job: StreamInsert, batches: SnapshotBatches) -> None:
        if batches.snapshot.id == 3:
            lake.batch("INSERT INTO t VALUES (-3, 0, 0)")
            expire_snapshots(lake.catalog.table("d.t").store, retain_max=2, retain_min=1, protect_users=0)
        process(job, batches)

    monkeypatch.setattr(StreamInsert, "_process", expired)
    lake.stream(query)
    assert {row["id"] for row in lake.batch("SELECT id FROM t")} == {1, 3, -1, -2, -3}


@pytest.mark.slow
def test_an_interrupt_right_behind_a_commit_loses_no_count(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.batch("CREATE TABLE t LIKE s; INSERT INTO s VALUES (1, 0, 0)")
    commit = TableWriter.commit

    def interrupted(writer: TableWriter, identifier: int | None = None, **settings: object) -> None:
        commit(writer, identifier, **settings)  # type: ignore[arg-type]  # passed on as they come
        raise KeyboardInterrupt

    monkeypatch.setattr(TableWriter, "commit", interrupted)
    rows = lake.stream("INSERT INTO t SELECT * FROM s")
    assert rows == [{"job": "sql:d.s->d.t", "read_to": 1, "written": 1, "snapshot": 1}]
    monkeypatch.undo()
    assert lake.stream("INSERT INTO t SELECT * FROM s")[0]["written"] == 0
    assert lake.batch("SELECT id FROM t") == [{"id": 1}]


@pytest.mark.slow
def test_a_job_that_begins_at_the_newest_snapshot_remembers_it(lake: Lake) -> None:
    lake.batch("CREATE TABLE t LIKE s; INSERT INTO s VALUES (1, 0, 0)")
    insert = "INSERT INTO t SELECT * FROM s /*+ OPTIONS('scan.mode' = 'latest') */"
    lake.stream(insert)
    lake.batch("INSERT INTO s VALUES (2, 0, 0)")
    lake.stream(insert)
    assert [row["id"] for row in lake.batch("SELECT * FROM t")] == [2]


@pytest.mark.slow
def test_a_job_refuses_another_query_and_a_source_that_was_rolled_back(lake: Lake) -> None:
    lake.batch("CREATE TABLE t LIKE s; INSERT INTO s VALUES (1, 0, 0); INSERT INTO s VALUES (2, 0, 0)")
    lake.stream("INSERT INTO t SELECT * FROM s")
    with pytest.raises(ConfigError, match="with another query up to snapshot 2"):
        lake.stream("INSERT INTO t SELECT id, 1, v FROM s")
    assert lake.stream("SET 'pipeline.name' = 'second'; INSERT INTO t SELECT id, 1, v FROM s")[0]["written"] == 2
    lake.catalog.table("d.s").rollback_to(1)
    for insert in ("SELECT 1", "INSERT INTO s VALUES (3, 0, 0)"):
        lake.batch(insert)
        with pytest.raises(ConfigError, match=r"snapshot 2 of d\.s was replaced or removed.*rolled back") as caught:
            lake.stream("INSERT INTO t SELECT * FROM s")
        assert "SET 'pipeline.name'" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("has_expired", [True, False])
def test_a_job_refuses_a_source_that_was_created_again(lake: Lake, has_expired: bool) -> None:
    create = f"CREATE TABLE s ({SOURCE}) WITH ('bucket' = '2', 'changelog-producer' = 'input')"
    lake.batch("CREATE TABLE t LIKE s; INSERT INTO s VALUES (1, 0, 0); INSERT INTO s VALUES (2, 0, 0)")
    lake.stream("INSERT INTO t SELECT * FROM s")
    lake.batch(f"DROP TABLE s; {create}")
    for number in range(11, 15):
        lake.batch(f"INSERT INTO s VALUES ({number}, 0, 0)")
    if has_expired:
        # Snapshot 3 is there, which would be the next one.
        assert lake.catalog.table("d.s").expire_snapshots(retain_max=2, retain_min=1)
    with pytest.raises(ConfigError, match=r"snapshot 2 of d\.s was replaced or removed.*created again"):
        lake.stream("INSERT INTO t SELECT * FROM s")
    assert [row["id"] for row in lake.batch("SELECT * FROM t")] == [1, 2]


@pytest.mark.slow
def test_a_job_refuses_a_snapshot_of_the_same_time_that_was_replaced(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks are set back, and are coarse in some file systems."""
    lake.batch("CREATE TABLE t LIKE s; INSERT INTO s VALUES (1, 0, 0)")
    monkeypatch.setattr("penstock.storage.environment.time.time_ns", lambda: 1_800_000_000 * 10**9)
    lake.batch("INSERT INTO s VALUES (2, 0, 0)")
    before = lake.catalog.table("d.s").store.snapshots.get(2)
    lake.stream("INSERT INTO t SELECT * FROM s")
    lake.catalog.table("d.s").rollback_to(1)
    lake.batch("INSERT INTO s VALUES (3, 0, 0)")
    assert lake.catalog.table("d.s").store.snapshots.get(2).time_millis == before.time_millis
    with pytest.raises(ConfigError, match="was replaced or removed"):
        lake.stream("INSERT INTO t SELECT * FROM s")


@pytest.mark.slow
def test_a_job_that_has_read_nothing_begins_with_a_source_that_was_created_again(lake: Lake) -> None:
    create = f"CREATE TABLE s ({SOURCE}) WITH ('bucket' = '2', 'changelog-producer' = 'input')"
    lake.batch("CREATE TABLE t LIKE s")
    insert = "INSERT INTO t SELECT * FROM s /*+ OPTIONS('scan.mode' = 'latest') */"
    lake.stream(insert)
    lake.batch(f"DROP TABLE s; {create}; INSERT INTO s VALUES (1, 0, 0)")
    lake.stream(insert)
    assert [row["id"] for row in lake.batch("SELECT * FROM t")] == [1]


def test_a_stream_cannot_start_behind_the_next_snapshot(lake: Lake) -> None:
    lake.batch("INSERT INTO s VALUES (1, 0, 0); INSERT INTO s VALUES (2, 0, 0)")
    assert lake.stream("SELECT id FROM s /*+ OPTIONS('scan.snapshot-id' = '3') */") == []
    with pytest.raises(SnapshotMissing, match="snapshot 4 does not exist") as caught:
        lake.stream("SELECT id FROM s /*+ OPTIONS('scan.snapshot-id' = '4') */")
    assert "1 to 2" in str(caught.value)


@pytest.mark.slow
def test_a_changed_column_of_the_source_stops_the_stream(lake: Lake) -> None:
    lake.batch("CREATE TABLE t LIKE s; INSERT INTO s VALUES (1, 0, 0)")
    stop = Event()
    with Interpreter(lake.catalog, "d", stop=stop) as interpreter:
        tables = interpreter.run(f"{STREAMING}; SELECT g FROM s")
        assert [next(tables), next(tables)][1].to_pylist() == [{"op": "+I", "g": 0}]
        lake.batch("ALTER TABLE s RENAME COLUMN g TO h; INSERT INTO s VALUES (2, 0, 0)")
        with pytest.raises(ConfigError, match="the column 'g' of the source was changed") as caught:
            next(tables)
    assert caught.value.facts["line"] == 1


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_jobs_that_are_killed_end_with_the_rows_of_the_query(
    lake: Lake, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    producer = ["lookup", "full-compaction"][seed % 2]
    lake.batch(f"DROP TABLE s; CREATE TABLE s ({SOURCE}) WITH ('bucket' = '2', 'changelog-producer' = '{producer}')")
    lake.batch(
        "CREATE TABLE t (id INT, w INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2');"
        "CREATE TABLE sums (g INT, n BIGINT, PRIMARY KEY (g) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = "
        "'aggregation', 'fields.n.aggregate-function' = 'sum'); CREATE TABLE log (kind STRING, id INT)"
    )
    inserts = (
        "INSERT INTO t SELECT id, v + 1 FROM s WHERE v % 3 > 0; INSERT INTO sums SELECT g, v FROM s WHERE v > 4;"
        "INSERT INTO log SELECT rowkind, id FROM s$audit_log /*+ OPTIONS('scan.snapshot-id' = '1') */"
    )
    commit = TableWriter.commit

    def killing(writer: TableWriter, identifier: int | None = None, **settings: object) -> object:
        kill = dice.random() if identifier is not None else 1
        if kill < 0.25:
            raise Killed
        done = commit(writer, identifier, **settings)  # type: ignore[arg-type]  # as they came
        if kill < 0.5:
            raise Killed
        return done

    monkeypatch.setattr(TableWriter, "commit", killing)
    kills = 0
    lake.batch("INSERT INTO s VALUES (0, 0, 5), (1, 1, 7), (2, 2, 9)")
    for _ in range(6):
        rows = ", ".join(f"({dice.randrange(8)}, {dice.randrange(3)}, {dice.randrange(10)})" for _ in range(2))
        lake.batch(
            dice.choice(
                [f"INSERT INTO s VALUES {rows}"] * 5
                + [
                    f"UPDATE s SET v = v + 1, g = (g + 1) % 3 WHERE id % 2 = {dice.randrange(2)}",
                    f"DELETE FROM s WHERE id = {dice.randrange(8)}",
                ]
            )
        )
        for _ in range(dice.randrange(1, 3)):
            try:
                lake.stream(f"BEGIN STATEMENT SET; {inserts}; END")
            except Killed:
                kills += 1
    monkeypatch.undo()
    lake.stream(f"BEGIN STATEMENT SET; {inserts}; END")
    assert kills
    assert sorted_rows(lake, "SELECT * FROM t") == sorted_rows(lake, "SELECT id, v + 1 FROM s WHERE v % 3 > 0")
    wanted = sorted_rows(lake, "SELECT g, sum(v) FROM s WHERE v > 4 GROUP BY g")
    assert [row for row in sorted_rows(lake, "SELECT * FROM sums") if row[1]] == wanted
    changes = sum(item.rows.num_rows for item in changes_of(lake))
    assert lake.batch("SELECT count(*) AS n FROM log") == [{"n": changes}]
    for name in ("t", "sums", "log"):
        check_invariants(lake.catalog.table(f"d.{name}"))


def sorted_rows(lake: Lake, query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in lake.batch(query))


def changes_of(lake: Lake) -> list[penstock.table.read.follow.SnapshotChanges]:  # type: ignore[name-defined]  # a submodule
    table = lake.catalog.table("d.s")
    assert table.latest_snapshot is not None
    return list(table.follow(1, until=table.latest_snapshot.id))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type_", "condition"),
    [
        ("TIMESTAMP_LTZ(6)", "ts <= now()"),
        ("TIMESTAMP(6)", "ts <= localtimestamp"),
        ("TIMESTAMP(6)", "id > 0 AND ts <= CAST(current_timestamp AS TIMESTAMP)"),
    ],
)
def test_a_condition_on_the_time_leaves_out_no_file_of_later_rows(lake: Lake, type_: str, condition: str) -> None:
    """Files are chosen by a condition that is derived once, at the start of the stream."""
    lake.batch(f"CREATE TABLE e (id INT, ts {type_}); INSERT INTO e VALUES (1, TIMESTAMP '2001-01-01 00:00:00')")
    stop = Event()
    with Interpreter(lake.catalog, "d", stop=stop) as interpreter:
        rows = interpreter.run(
            f"{STREAMING}; SET '{INTERVAL}' = '10 ms'; SELECT id FROM (SELECT * FROM e) WHERE {condition}"
        )
        shown = (row["id"] for table in rows for row in table.to_pylist() if "id" in row)
        assert next(shown) == 1
        lake.batch("INSERT INTO e SELECT 2, now(); INSERT INTO e VALUES (3, TIMESTAMP '2001-01-01 00:00:00')")
        assert [next(shown), next(shown)] == [2, 3]
        stop.set()
        assert list(shown) == []


@pytest.mark.slow
def test_old_rows_and_deletes_meet_a_condition_that_has_another_result_each_time(lake: Lake) -> None:
    """A row met the condition when it was written, and its delete comes at another time."""
    lake.batch(
        "INSERT INTO s VALUES (1, 0, 5), (2, 0, 5), (3, 0, -5); UPDATE s SET v = -5 WHERE id = 1;"
        "DELETE FROM s WHERE id > 1"
    )
    start = "/*+ OPTIONS('scan.snapshot-id' = '1') */"
    wanted = [("+I", 1), ("+I", 2), ("-D", 1), ("-D", 2), ("-D", 3)]
    for query in (
        f"SELECT id FROM s {start} WHERE v > random()",
        f"SELECT id FROM (SELECT id, v > random() AS b FROM s {start}) AS q WHERE b",
        f"SELECT q.id FROM (SELECT * FROM s {start} WHERE v > random()) AS q",
    ):
        assert sorted(kinds(lake.stream(query), "id")) == sorted(wanted)
    lake.batch(f"CREATE TABLE out ({SOURCE}) WITH ('bucket' = '1')")
    lake.stream(f"INSERT INTO out SELECT * FROM s {start} WHERE v > random()")
    assert lake.batch("SELECT * FROM out") == []


@pytest.mark.slow
def test_streams_into_tables_that_would_keep_rows_by_the_time_are_refused(lake: Lake) -> None:
    day = "id INT, d DATE, v INT, PRIMARY KEY (id, d) NOT ENFORCED"
    lake.batch(
        f"CREATE TABLE days ({day}) WITH ('bucket' = '1'); CREATE TABLE plain ({SOURCE}) WITH ('bucket' = '1');"
        f"CREATE TABLE log ({SOURCE}) WITH ('bucket' = '1', 'changelog-producer' = 'input');"
        "CREATE TABLE events (id INT, v INT); INSERT INTO events VALUES (1, 1); INSERT INTO s VALUES (1, 1, 1)"
    )
    refused = {
        "INSERT INTO days SELECT id, current_date, v FROM s": "the key 'd' of d.days has another value each time",
        "INSERT INTO days SELECT * FROM (SELECT id, CAST(now() AS DATE) AS d, v FROM s)": "the key 'd' of d.days",
        "INSERT INTO log SELECT * FROM s WHERE v > random()": "d.log needs the old rows that were written",
        "SELECT id FROM plain WHERE id > random()": "its condition needs the old rows of updates",
    }
    for statement, message in refused.items():
        with pytest.raises(ConfigError, match=message):
            lake.stream(statement)
    lake.stream("INSERT INTO days SELECT id, current_date, v FROM events WHERE v > random()")
    lake.stream("INSERT INTO log SELECT id, v, CAST(random() AS INT) FROM s")
    assert [row["id"] for row in lake.batch("SELECT * FROM days")] == [1]
    assert [row["id"] for row in lake.batch("SELECT * FROM log")] == [1]
