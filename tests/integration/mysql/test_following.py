"""Following a real log: plans, ranges read apart, files that rotate, transactions larger than a range."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pymysql
import pytest

from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.dump import dumping
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.log_plan import PlanLimits
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.server_positions import at_time, earliest, latest
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.errors import (
    PartialJsonError,
    RowImageError,
    ServerIdClash,
    StatementBinlogError,
    UnsupportedBinlogEvent,
)
from penstock.ingest.mysql.read_range import read_range
from penstock.ingest.mysql.server.connection import connected, server_facts
from penstock.ingest.mysql.table_choice import TheseTables
from tests.integration.mysql.playground import DATABASE, Playground, in_order
from tests.waiting import until

MANY_SMALL = PlanLimits(bytes=20_000, range_bytes=4000)


def busy(server: Playground, dice: random.Random, statements: int) -> None:
    server.run("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, v VARCHAR(200))")
    for number in range(statements):
        match dice.randint(0, 9):
            case 0:
                server.run("FLUSH BINARY LOGS")
            case 1:
                server.run(f"ALTER TABLE t ADD c{number} INT")
            case 2:
                server.run("DELETE FROM t ORDER BY id LIMIT 3")
            case 3 | 4:
                server.run(f"UPDATE t SET v = '{number}' WHERE id % {dice.randint(1, 5)} = 0")
            case _:
                first = dice.randint(0, 10_000)
                rows = ", ".join(
                    f"({first + n}, '{'x' * dice.randint(0, 100)}')" for n in range(dice.choice([1, 5, 60]))
                )
                server.run(f"REPLACE INTO t (id, v) VALUES {rows}")


def whole_log(server: Playground, start, options: BinlogOptions | None = None) -> list:  # type: ignore[no-untyped-def]
    """All changes in one go, file after file."""
    rows, file, batches = [], None, []
    decoder = Decoder(options or BinlogOptions())
    with dumping(server.address, DumpRequest(start, 6001)) as segments:
        for segment in segments:
            if segment.file != file:
                rows += in_order(batches)
                file, batches = segment.file, []
            for plain in unpacked(segment, 1 << 20):
                batches += decoder.decode(plain)
    return rows + in_order(batches)


@pytest.mark.parametrize("limits", [PlanLimits(), MANY_SMALL, PlanLimits(bytes=1, range_bytes=1)])
def test_ranges_read_separately_cover_the_binlog(server: Playground, limits: PlanLimits) -> None:
    start = server.here()
    busy(server, random.Random(5), 60)
    plans = server.plans(start, limits)
    assert server.read(plans) == whole_log(server, start)
    here = server.here()
    assert (plans[-1].end.file, plans[-1].end.pos, plans[-1].end.gtid) == (here.file, here.pos, here.gtid)


def test_a_binlog_that_grows_during_planning_is_read_without_gap(server: Playground) -> None:
    start = server.here()
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
    writer = Playground(server.flavour, server.port)
    writer.run(f"USE {DATABASE}")
    thread = threading.Thread(target=busy, args=(writer, random.Random(6), 80))
    thread.start()
    plans = server.plans(start, MANY_SMALL)
    while thread.is_alive():
        plans += server.plans(plans[-1].end, MANY_SMALL)
    plans += server.plans(plans[-1].end, MANY_SMALL)
    assert server.read(plans) == whole_log(server, start)


def test_a_giant_transaction_is_cut_between_row_events(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", "CREATE TABLE u (id INT PRIMARY KEY)")
    start = server.here()
    server.run("BEGIN")
    for first in range(0, 20_000, 1000):
        server.run("INSERT INTO t VALUES " + ", ".join(f"({n}, REPEAT('y', 100))" for n in range(first, first + 1000)))
        server.run(f"INSERT INTO u VALUES ({first})")
    server.run("COMMIT", "INSERT INTO u VALUES (-1)")
    plans = server.plans(start, PlanLimits(bytes=400_000, range_bytes=100_000))
    assert any(plan.end.skip_events for plan in plans)
    assert len([part for plan in plans for part in plan.ranges]) > 2
    rows = server.read(plans)
    assert rows == whole_log(server, start)
    assert [row["id"] for table, _, row in rows if table == "t"] == list(range(20_000))


@pytest.mark.mysql
def test_a_giant_compressed_transaction_is_one_range_and_streams(mysql: Playground) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", "SET binlog_transaction_compression = ON")
    start = mysql.here()
    mysql.run("BEGIN")
    for first in range(0, 20_000, 1000):
        mysql.run("INSERT INTO t VALUES " + ", ".join(f"({n}, REPEAT('y', 100))" for n in range(first, first + 1000)))
    mysql.run("COMMIT", "SET binlog_transaction_compression = OFF")
    (plan,) = mysql.plans(start, PlanLimits(range_bytes=1000))
    (part,) = plan.ranges
    batches = list(read_range(mysql.address, part, BinlogOptions(), 6009, block_bytes=200_000))
    assert len(batches) > 5
    assert [row["id"] for _, _, row in in_order(batches)] == list(range(20_000))


def test_rows_over_16_mib_are_read_completely(server: Playground) -> None:
    server.run("SET GLOBAL max_allowed_packet = 67108864")
    server.start_over()
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
    start = server.here()
    for number, size in enumerate([17_000_000, (1 << 24) - 1, 1 << 24, 34_000_000]):
        server.run(
            f"INSERT INTO t SELECT {number}, REPEAT('{number}', {size})",
            f"INSERT INTO t VALUES ({number + 10}, 'small')",
        )
    rows = server.read(server.plans(start, PlanLimits()))
    assert [(row["id"], len(row["v"])) for _, _, row in rows] == [
        (0, 17_000_000),
        (10, 5),
        (1, (1 << 24) - 1),
        (11, 5),
        (2, 1 << 24),
        (12, 5),
        (3, 34_000_000),
        (13, 5),
    ]
    read = server.snapshot("t").sort_by("id")
    assert [len(value) for value in read["v"].to_pylist()[:4]] == [17_000_000, (1 << 24) - 1, 1 << 24, 34_000_000]


def test_a_change_logged_as_statement_stops_only_captured_tables(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    start = server.here()
    server.run("SET SESSION binlog_format = STATEMENT", "INSERT INTO `t` VALUES (1)", "SET SESSION binlog_format = ROW")
    server.run("INSERT INTO other VALUES (1)")
    plans = server.plans(start, PlanLimits())
    with pytest.raises(StatementBinlogError) as caught:
        server.read(plans)
    assert caught.value.facts["table"] == f"{DATABASE}.t"
    only_other = BinlogOptions(choice=TheseTables(frozenset({(DATABASE, "other")})))
    assert [row[0] for row in server.read(plans, only_other)] == ["other"]


def test_a_file_that_was_loaded_as_a_statement_stops_only_captured_tables(server: Playground, tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("".join(f"{number}\n" for number in range(400_000)))
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    server.run("SET GLOBAL local_infile = 1")
    start = server.here()
    writer = pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", database=DATABASE, local_infile=True, autocommit=True
    )
    with writer, writer.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        cursor.execute(f"LOAD DATA LOCAL INFILE '{tmp_path}/rows.txt' INTO TABLE t")
    server.run("INSERT INTO other VALUES (1)")
    assert server.rows("SELECT COUNT(*) FROM t") == ((400_000,),)
    plans = server.plans(start, PlanLimits())
    with pytest.raises(StatementBinlogError, match="logged as a statement instead of rows") as caught:
        server.read(plans)
    assert caught.value.facts["table"] == f"{DATABASE}.t"
    assert caught.value.facts["file"] == start.file
    assert str(caught.value.facts["statement"]).startswith("LOAD DATA")
    only_other = BinlogOptions(choice=TheseTables(frozenset({(DATABASE, "other")})))
    assert [row[0] for row in server.read(plans, only_other)] == ["other"]
    # Other tests read the whole log of this server.
    server.run("RESET MASTER" if server.is_mariadb else "RESET BINARY LOGS AND GTIDS")


def test_a_change_is_a_statement_in_any_form(server: Playground) -> None:
    forms = ["DO f(5)", "SET STATEMENT max_statement_time = 5 FOR INSERT INTO t VALUES (6)"]
    if not server.is_mariadb:
        forms[1] = "WITH seven AS (SELECT 7 AS id) UPDATE t, seven SET t.id = seven.id"
    server.run(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "SET GLOBAL log_bin_trust_function_creators = 1",
        "CREATE FUNCTION f(x INT) RETURNS INT MODIFIES SQL DATA BEGIN UPDATE t SET id = x; RETURN x; END",
    )
    for form in forms:
        start = server.here()
        server.run("SET SESSION binlog_format = STATEMENT", form, "SET SESSION binlog_format = ROW")
        with pytest.raises(StatementBinlogError):
            server.read(server.plans(start, PlanLimits()))


def test_statements_on_other_tables_are_counted_since_triggers_may_change_captured_ones(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
    server.run("CREATE TRIGGER copy AFTER INSERT ON other FOR EACH ROW INSERT INTO t VALUES (NEW.id)")
    start = server.here()
    server.run(
        "SET SESSION binlog_format = STATEMENT", "INSERT INTO other VALUES (1)", "SET SESSION binlog_format = ROW"
    )
    only_t, counted = BinlogOptions(choice=TheseTables(frozenset({(DATABASE, "t")}))), Counter[str]()
    for part in (part for plan in server.plans(start, PlanLimits()) for part in plan.ranges):
        list(read_range(server.address, part, only_t, 6010, oddities=counted))
    assert counted == {"statement-of-other-table": 1}


def test_partial_images_are_refused_or_completed_by_option(server: Playground) -> None:
    server.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))", "INSERT INTO t VALUES (1, 2, 'x'), (5, 5, 'y')"
    )
    start = server.here()
    server.run(
        "SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET a = 3 WHERE id = 1", "UPDATE t SET id = 6 WHERE id = 5"
    )
    server.run(
        "INSERT INTO t (id, b) VALUES (2, 'n')", "DELETE FROM t WHERE id = 1", "SET SESSION binlog_row_image = FULL"
    )
    plans = server.plans(start, PlanLimits())
    with pytest.raises(RowImageError):
        server.read(plans)
    rows = server.read(plans, BinlogOptions(partial_images=True))
    assert [(kind, tuple(row.values())) for _, kind, row in rows] == [
        (1, (1, None, None)),
        (2, (1, 3, None)),
        (3, (5, None, None)),
        (0, (6, None, None)),
        (0, (2, None, "n")),
        (3, (1, None, None)),
    ]


@pytest.mark.mysql
def test_json_differences_are_refused_with_the_name_of_the_setting(mysql: Playground) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY, j JSON)", 'INSERT INTO t VALUES (1, \'{"a": "long enough"}\')')
    start = mysql.here()
    mysql.run("SET SESSION binlog_row_value_options = PARTIAL_JSON", "UPDATE t SET j = JSON_SET(j, '$.a', 'short')")
    mysql.run("SET SESSION binlog_row_value_options = ''", "CREATE TABLE other (id INT PRIMARY KEY)")
    mysql.run("INSERT INTO other VALUES (1)")
    plans = mysql.plans(start, PlanLimits())
    with pytest.raises(PartialJsonError, match="binlog_row_value_options") as caught:
        mysql.read(plans)
    assert caught.value.facts["table"] == f"{DATABASE}.t"
    only_other = BinlogOptions(choice=TheseTables(frozenset({(DATABASE, "other")})))
    assert [row[0] for row in mysql.read(plans, only_other)] == ["other"]


@pytest.mark.parametrize("range_bytes", [1 << 20, 200])
def test_an_xa_transaction_stops_only_captured_tables(server: Playground, range_bytes: int) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))", "CREATE TABLE other (id INT PRIMARY KEY)")
    start = server.here()
    server.run("INSERT INTO other VALUES (1)", "XA START 'x'")
    server.run(*(f"INSERT INTO t VALUES ({n}, REPEAT('x', 200))" for n in range(9)))
    server.run("XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'", "INSERT INTO other VALUES (2)")
    plans = server.plans(start, PlanLimits(range_bytes=range_bytes))
    with pytest.raises(UnsupportedBinlogEvent, match="XA transaction"):
        server.read(plans)
    only_other = BinlogOptions(choice=TheseTables(frozenset({(DATABASE, "other")})))
    assert [row["id"] for _, _, row in server.read(plans, only_other)] == [1, 2]


def test_an_xa_transaction_of_one_phase_is_read(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)")
    start = server.here()
    server.run("XA START 'x'", "INSERT INTO t VALUES (1), (2)", "XA END 'x'", "XA COMMIT 'x' ONE PHASE")
    server.run("INSERT INTO t VALUES (3)")
    rows = server.read(server.plans(start, PlanLimits()))
    assert [row["id"] for _, _, row in rows] == [1, 2, 3]


@pytest.mark.mysql
def test_two_readers_with_one_uuid_are_reported(mysql: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours never have one uuid: here they are made to."""
    mysql.start_over()
    start = mysql.here()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
    for number in range(12):
        mysql.run(f"INSERT INTO t VALUES ({number}, REPEAT('x', 4000000))")
    monkeypatch.setattr("penstock.ingest.mysql.binlog.dump.uuid.uuid4", lambda: UUID(int=7))
    request = DumpRequest(start, 6050, block_bytes=1 << 20)

    def both() -> None:
        with dumping(mysql.address, request) as first:
            next(first)
            with dumping(mysql.address, request) as second:
                next(second)
                list(first)

    with pytest.raises(ServerIdClash, match="server-id") as caught:
        both()
    assert caught.value.retryable


@pytest.mark.mariadb
def test_two_readers_with_one_server_id_are_reported(mariadb: Playground) -> None:
    mariadb.start_over()
    start = mariadb.here()
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
    for number in range(12):
        mariadb.run(f"INSERT INTO t VALUES ({number}, REPEAT('x', 4000000))")
    request = DumpRequest(start, 6050, block_bytes=1 << 20)

    def both() -> None:
        with dumping(mariadb.address, request) as first:
            next(first)
            dumps = "SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'"
            of_first = mariadb.rows(dumps)
            # The server answers the second reader when the first one's thread has ended, which may wait for its reader.
            with dumping(mariadb.address, request) as second, ThreadPoolExecutor(1) as pool:
                pool.submit(next, second)
                until(lambda: not {*of_first} & {*mariadb.rows(dumps)}, "the server to end the first reader")
                list(first)

    with pytest.raises(ServerIdClash, match="server-id"):
        both()


def test_readers_with_separate_server_ids_run_in_parallel(server: Playground) -> None:
    start = server.here()
    busy(server, random.Random(8), 10)
    request, other = DumpRequest(start, 6051), DumpRequest(start, 6052)
    with dumping(server.address, request) as first, dumping(server.address, other) as second:
        assert sum(map(len, second)) == sum(map(len, first))


def test_positions_at_both_ends_and_at_a_time(server: Playground) -> None:
    with connected(server.address) as connection:
        facts = server_facts(connection)
        server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "DO SLEEP(2.1)")
        moment = int(server.rows("SELECT UNIX_TIMESTAMP()")[0][0]) * 1000
        between = server.here()
        server.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
        found = at_time(server.address, connection, facts, moment, 6053)
        assert [row["id"] for _, _, row in server.read(server.plans(found, PlanLimits()))] == [2, 3]
        assert found.gtid == between.gtid
        # MariaDB writes the checkpoint of a flush into the new file from a thread in the background, at any time.
        before, found = server.here(), latest(connection, facts)
        assert (found.file, found.gtid) == (before.file, before.gtid)
        assert before.pos <= found.pos <= server.here().pos
        first = earliest(connection, facts)
        assert first.pos == 4
        assert server.plans(first, PlanLimits())[-1].end.gtid == server.here().gtid
        before, found = server.here(), at_time(server.address, connection, facts, moment + 10**9, 6053)
        assert (found.file, found.gtid) == (before.file, before.gtid)
        assert before.pos <= found.pos <= server.here().pos
