"""MySQL pipelines killed at every phase, servers restarted, logs rotated and purged, networks cut: judged by verify.

PENSTOCK_CHAOS_ROUNDS=100 runs that many rounds of random kills through Spark instead of one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pymysql import OperationalError

from penstock.errors import PenstockError
from penstock.ingest.mysql.errors import BinlogPurged
from tests.chaos.proxy import proxied
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync
from tests.servers import launch
from tests.waiting import ended, repeated, until

pytestmark = pytest.mark.mysql

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("PENSTOCK_CHAOS_ROUNDS", "1"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    folder = tmp_path_factory.mktemp("mysql")
    with launch.running("mysql", folder) as port:
        yield folder, port


@pytest.fixture
def server(place: tuple[Path, int]) -> Playground:
    return bank(Playground("mysql", place[1]))


def bank(server: Playground) -> Playground:
    server.start_over()
    server.run(
        "CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR(20), cents BIGINT)",
        "CREATE TABLE moved (id INT AUTO_INCREMENT PRIMARY KEY, source INT, target INT, cents BIGINT)",
        "INSERT INTO account VALUES " + ", ".join(f"({n}, 'owner {n % 5}', 1000)" for n in range(400)),
    )
    return server


def move(server: Playground, dice: random.Random) -> None:
    """One transaction over both tables: what one account loses another gains."""
    source, target, cents = dice.randint(0, 399), dice.randint(0, 399), dice.randint(1, 50)
    server.run(
        "BEGIN",
        f"UPDATE account SET cents = cents - {cents} WHERE id = {source}",
        f"UPDATE account SET cents = cents + {cents} WHERE id = {target}",
        f"INSERT INTO moved (source, target, cents) VALUES ({source}, {target}, {cents})",
        "COMMIT",
    )


@contextmanager
def busy(server: Playground, seed: int = 1, most: int = 3000) -> Iterator[None]:
    """Transactions, new accounts, closed ones, while the block runs; it begins when there are some.

    They are limited: the slow reader of a busy machine would get more to read the longer it needs.
    """
    writer, dice, over = Playground(server.flavour, server.port), random.Random(seed), threading.Event()
    writer.run(f"USE {DATABASE}")
    number = 1000 * seed

    def write() -> None:
        nonlocal number
        while number < 1000 * seed + most and not over.wait(0.01):
            move(writer, dice)
            number += 1
            if number % 20 == 0:
                writer.run(f"INSERT INTO account VALUES ({number}, 'owner {number % 5}', 5)")
                writer.run(f"DELETE FROM account WHERE id = {number - 40}")
            if number % 70 == 0:
                writer.run("FLUSH BINARY LOGS")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        until(lambda: number > 1000 * seed + 40, "40 transactions")
        yield
    finally:
        over.set()
        ended(thread)


def killed(sync: Sync, kill: str) -> None:
    words = [sys.executable, "-m", "tests.chaos.mysql_child", json.dumps(sync.words), kill]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


READ = "penstock.ingest.mysql.read_range:MySqlRangeReader._finished"
LOG = "penstock.ingest.mysql.read_range:read_range"
KILLS = {
    "planning, history kept and offsets not": "penstock.ingest.mysql.recorded_history:DefinitionStore.add:after:1",
    "in the middle of a chunk": f"{READ}:after:3",
    "at the hand-over from chunks to the log": "penstock.pipelines.driver.batch_driver:BatchDriver.take:after:4",
    "in the middle of the log": "penstock.ingest.mysql.binlog.decode:Decoder._batch:after:2",
    "files written, nothing committed": "penstock.pipelines.driver.commit:Commits.commit:before:2",
    "between the commits of two tables": "penstock.table.commit.committer:Committer.commit:after:1",
    "committed, offsets not counted as done": "penstock.pipelines.driver.batch_driver:BatchDriver.take:after:1",
}


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS.keys())
def test_kills_at_any_phase_leave_both_tables_equal_to_the_server(
    server: Playground, tmp_path: Path, kill: str
) -> None:
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=60"], flags=["--max-batch-rows", "150"])
    with busy(server):
        killed(sync, kill)
        sync.run()
    sync.run()
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    assert sum(row["cents"] for row in sync.rows("account")) == server.rows("SELECT SUM(cents) FROM account")[0][0]


STORM = ["--on-truncate", "delete-all", "--on-rename-column", "rename"]
BARRIER = "penstock.pipelines.driver.table_evolution"
STORM_KILLS = {
    "before a rename": f"{BARRIER}:_rename:before:2",
    "behind a rename": f"{BARRIER}:_rename:after:2",
    "before a table is emptied": f"{BARRIER}:_empty:before:1",
    "behind a table is emptied": f"{BARRIER}:_empty:after:1",
}


def storm(server: Playground, dice: random.Random, numbers: range, extras: list[str]) -> None:
    """Columns added anywhere, widened, renamed and dropped, tables emptied, with rows between all of them."""
    for number in numbers:
        match number % 7:
            case 0 | 1 | 2:
                kind = dice.choice(["INT", "VARCHAR(5)", "DECIMAL(8, 2)", "DATETIME(3)"])
                server.run(f"ALTER TABLE account ADD added_{number} {kind} {dice.choice(['FIRST', 'AFTER id', ''])}")
                extras.append(f"added_{number}")
            case 3:
                old = extras.pop(dice.randrange(len(extras)))
                server.run(f"ALTER TABLE account RENAME COLUMN {old} TO renamed_{number}")
                extras.append(f"renamed_{number}")
            case 4:
                server.run(f"ALTER TABLE account MODIFY owner VARCHAR({20 + number})", "TRUNCATE TABLE moved")
            case 5:
                server.run(
                    f"ALTER TABLE account DROP COLUMN {extras.pop(0)}, RENAME COLUMN {extras[0]} TO again_{number}"
                )
                extras[0] = f"again_{number}"
        for _ in range(2):
            move(server, dice)
        server.run(
            f"UPDATE account SET {dice.choice(extras)} = NULL, cents = cents + 1 WHERE id % 50 = {number % 50}",
            f"INSERT INTO account (id, owner, cents) VALUES ({1000 + number}, 'owner', 1)",
        )


@pytest.mark.parametrize(
    ("kill", "metadata"),
    list(zip(STORM_KILLS.values(), ["FULL", "MINIMAL", "MINIMAL", "FULL"], strict=True)),
    ids=STORM_KILLS.keys(),
)
def test_many_ddl_statements_are_applied_despite_a_kill(
    server: Playground, tmp_path: Path, kill: str, metadata: str
) -> None:
    server.run(f"SET GLOBAL binlog_row_metadata = {metadata}", "FLUSH BINARY LOGS")
    try:
        server.run("TRUNCATE TABLE account", "INSERT INTO account VALUES (1, 'one', 1), (2, 'two', 2)")
        sync = Sync(server, tmp_path, flags=[*STORM, "--max-batch-rows", "150"])
        sync.run()
        writer = Playground(server.flavour, server.port)
        writer.run(f"USE {DATABASE}")
        extras: list[str] = []
        storm(server, random.Random(5), range(15), extras)
        thread = threading.Thread(target=storm, args=(writer, random.Random(6), range(15, 36), extras))
        thread.start()
        try:
            killed(sync, kill)
            sync.run()
        finally:
            thread.join()
        sync.run()
        assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
        names = [row[0] for row in server.rows("SHOW COLUMNS FROM account")]
        assert set(names) <= set(sync.target("account").schema.names)
    finally:
        server.run("SET GLOBAL binlog_row_metadata = FULL")


ADDED_UP = [
    *("--table-conf", "merge-engine=aggregation", "--table-conf", "fields.cents.aggregate-function=sum"),
    *("--primary-keys", "owner", "--max-batch-rows", "150", "--type-mapping", "to-nullable"),
]


@pytest.mark.parametrize(
    "kill",
    [f"{READ}:after:3", "penstock.pipelines.driver.batch_driver:BatchDriver.take:after:2", f"{LOG}:after:1"],
    ids=["in a chunk", "committed, not counted as done", "in the log"],
)
def test_an_aggregate_counts_every_change_once_despite_a_kill(server: Playground, tmp_path: Path, kill: str) -> None:
    sync = Sync(server, tmp_path, "sums", ["table-name=account", "scan.incremental.snapshot.chunk.size=60"], ADDED_UP)
    if kill.startswith(LOG):  # the log is read once the tables are
        sync.run()
    with busy(server):
        killed(sync, kill)
        sync.run()
    sync.run()
    wanted = server.rows("SELECT owner, SUM(cents) FROM account GROUP BY owner ORDER BY owner")
    assert [(row["owner"], row["cents"]) for row in sync.rows(order="owner")] == [
        (who, int(sum_)) for who, sum_ in wanted
    ]


def test_the_pipeline_waits_for_a_restarting_server(
    server: Playground, place: tuple[Path, int], tmp_path: Path
) -> None:
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=60"], flags=["--max-batch-rows", "150"])
    turns = 0

    def restart(*_: object) -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            launch.stop("mysql", place[0])
            threading.Timer(1.0, launch.start, ("mysql", place[0], place[1])).start()

    sync.run(restart)
    again = Playground("mysql", place[1])
    again.run(f"USE {DATABASE}", "UPDATE account SET cents = cents + 1 WHERE id < 10")
    sync.run()
    assert turns > 2
    assert all(verdict.is_equal for verdict in sync.verified())


def test_a_purged_binlog_is_reported_with_hints_and_nothing_is_written(server: Playground, tmp_path: Path) -> None:
    sync = Sync(server, tmp_path)
    sync.run()
    before = sync.target("account").latest_snapshot
    server.run("UPDATE account SET cents = 0", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    server.run(f"PURGE BINARY LOGS TO '{server.here().file}'")
    with pytest.raises(BinlogPurged) as caught:
        sync.run()
    assert caught.value.exit_code == 4
    assert "read the tables again" in str(caught.value)
    assert sync.target("account").latest_snapshot == before
    sync.flags = ["--accept-gap"]
    sync.run()
    server.run("DELETE FROM account WHERE id = 7", "FLUSH BINARY LOGS", "INSERT INTO account VALUES (500, 'x', 1)")
    server.run(f"PURGE BINARY LOGS TO '{server.here().file}'")
    sync.flags = ["--resnapshot"]
    sync.run()
    assert all(verdict.is_equal for verdict in sync.verified())


def test_a_network_failure_within_packets(server: Playground, tmp_path: Path) -> None:
    dice = random.Random(3)
    with proxied(server.port) as proxy, busy(server, 2):
        sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=60", f"port={proxy.port}"])
        for _ in repeated(12, lambda: proxy.cut > 5, "connections that were cut"):
            proxy.cuts = [dice.choice([0, 50, 900, 3000, 9000, 20_000]) for _ in range(dice.randint(1, 6))]
            try:
                sync.run()
            except PenstockError as error:
                if not error.retryable:
                    raise
        proxy.cuts = []
        sync.run()
    direct = Sync(server, tmp_path)
    direct.run()
    assert all(verdict.is_equal for verdict in direct.verified())


@pytest.mark.parametrize(("piece", "delay"), [(1, 0.0), (0, 0.004)], ids=["one byte", "late"])
def test_pieces_and_delays_change_nothing(server: Playground, tmp_path: Path, piece: int, delay: float) -> None:
    with proxied(server.port) as proxy:
        proxy.piece, proxy.delay = piece, delay
        conf = ["scan.incremental.snapshot.chunk.size=60", f"port={proxy.port}"]
        sync = Sync(server, tmp_path, conf=conf, flags=["--max-batch-rows", "150"])
        with busy(server, 4, most=400):
            sync.run()
            sync.run()
        sync.run()
    direct = Sync(server, tmp_path)
    direct.run()
    assert all(verdict.is_equal for verdict in direct.verified())


@contextmanager
def killing_connections(server: Playground) -> Iterator[list[int]]:
    """Kill all connections of the pipeline's user again and again while the block runs; yields their numbers."""
    killer, dice, over = Playground(server.flavour, server.port), random.Random(6), threading.Event()
    killed: list[int] = []

    def kill() -> None:
        while not over.wait(dice.uniform(0.02, 0.4)):
            for (number,) in killer.rows("SELECT id FROM information_schema.processlist WHERE user = 'cdc'"):
                with suppress(OperationalError):  # it has ended by itself
                    killer.run(f"KILL {number}")
                    killed.append(number)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        ended(thread)


def test_connections_that_the_server_kills_again_and_again_lose_and_repeat_nothing(
    server: Playground, tmp_path: Path
) -> None:
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=60"], flags=["--max-batch-rows", "150"])
    runs = 0
    with busy(server, 5), killing_connections(server) as killed:
        # A slow machine ends fewer connections in a run.
        while runs < 12 or len(killed) <= 5:
            runs += 1
            try:
                sync.run()
            except PenstockError as error:
                if not error.retryable:
                    raise
    sync.run()
    assert all(verdict.is_equal for verdict in sync.verified())


@pytest.mark.spark
def test_kills_at_any_moment_under_spark_lose_nothing(server: Playground, tmp_path: Path) -> None:
    dice = random.Random(ROUNDS)
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=60"], flags=["--max-batch-rows", "150"])
    words = [sys.executable, "-m", "penstock.pipelines.commands.main", sync.command, *sync.words, "--parallelism", "2"]
    with busy(server):
        for _ in range(ROUNDS):
            first = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
            until(lambda first=first: first.poll() is not None or _has_committed(sync), "a commit")
            time.sleep(dice.random() * 2)
            os.killpg(first.pid, signal.SIGKILL)
            first.communicate()
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    sync_words = ["verify", sync.command, *sync.words]
    judged = subprocess.run(
        [*words[:3], *sync_words], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr


def _has_committed(sync: Sync) -> bool:
    return any((sync.folder / "warehouse/ods.db").glob("*/snapshot/snapshot-*"))
