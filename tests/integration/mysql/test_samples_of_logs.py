"""Each plan compares a sample of the log. A log that goes on is never taken for another one."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from penstock.ingest.mysql.binlog.log_plan import LogPlan, PlanLimits
from penstock.ingest.mysql.binlog.log_sample import require_same_log, with_sample
from penstock.ingest.mysql.binlog.plan import plan_log
from penstock.ingest.mysql.ddl.history import SchemaHistory
from tests.integration.mysql.playground import Playground

pytestmark = pytest.mark.slow


@pytest.fixture
def play(server: Playground) -> Iterator[Playground]:
    yield server
    compressed = "log_bin_compress" if server.is_mariadb else "binlog_transaction_compression"
    server.run(
        "SET GLOBAL binlog_checksum = CRC32", f"SET GLOBAL {compressed} = OFF", f"SET SESSION {_session(server)}"
    )


def _session(server: Playground, on: str = "OFF") -> str:
    # MariaDB compresses by a setting of the server, MySQL by one of the session.
    return "sql_log_bin = ON" if server.is_mariadb else f"binlog_transaction_compression = {on}"


def statements(server: Playground, dice: random.Random, first: int) -> list[str]:
    """Statements that insert the row `first`, or several from there on, or change how the log is written."""
    match dice.randint(0, 7):
        case 0:
            return ["FLUSH BINARY LOGS"]
        case 1:
            return [f"SET GLOBAL binlog_checksum = {dice.choice(['NONE', 'CRC32'])}"]
        case 2:
            on = dice.choice(["ON", "OFF"])
            return [
                f"SET GLOBAL log_bin_compress = {on}" if server.is_mariadb else f"SET SESSION {_session(server, on)}"
            ]
        case 3:
            return [
                f"INSERT INTO t VALUES ({first}, REPEAT('{dice.choice('xyz')}', {dice.choice([10, 20_000, 90_000])}))"
            ]
        case 4:
            return ["CREATE TABLE other (id INT)", "DROP TABLE other"]
        case 5:
            size = dice.choice([10, 2_000, 100_000])
            rows = [f"INSERT INTO t VALUES ({first + n}, REPEAT('x', {size}))" for n in range(40)]
            return ["BEGIN", *rows, dice.choice(["COMMIT", "ROLLBACK"])]
        case _:
            return [f"INSERT INTO t VALUES ({first}, 'x')"]


@pytest.mark.parametrize("seed", range(3))
def test_plans_of_any_size_find_their_log_again(play: Playground, seed: int) -> None:
    dice = random.Random(seed)
    play.run("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    position = with_sample(play.address, play.here(), 6003)
    history, plans = SchemaHistory(mariadb=play.is_mariadb), list[LogPlan]()
    for number in range(60):
        play.run(*statements(play, dice, number * 100))
        for _ in range(dice.randint(0, 3)):
            size = dice.choice([1, 3_000, 30_000, 1 << 30])
            limits = PlanLimits(size, dice.choice([500, 5_000, 50_000]))
            plans.append(plan_log(play.address, position, limits, 6002, history))
            position = plans[-1].end
            require_same_log(play.address, position, 6004)
    plans += play.plans(position, PlanLimits(), history)
    logged = [row["id"] for table, _, row in play.read(plans) if table == "t"]
    assert sorted(logged) == [row[0] for row in play.rows("SELECT id FROM t ORDER BY id")]
    assert any(plan.end.skip_events for plan in plans)
    assert sum(part.sample is not None for plan in plans for part in plan.ranges) > 20
