"""PostgreSQL pipelines whose connections are cut, slow, in pieces, ended by the server again and again, or silent."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.ingest.postgres.errors import SlotBusy
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.connection import connected
from tests.chaos.proxy import proxied
from tests.integration.postgres.conftest import server_port
from tests.integration.postgres.sync import DATABASE, SLOT, PgPlayground, PgSync
from tests.waiting import ended, repeated, until

__all__ = ["server_port"]

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
ACCOUNTS = 2000
CONF = ("scan.incremental.snapshot.chunk.size=200",)
FLAGS = ("--max-batch-rows", "500")


@pytest.fixture
def server(server_port: int) -> PgPlayground:
    found = PgPlayground(server_port)
    found.start_over()
    found.create("account", "id int PRIMARY KEY, owner text, cents bigint")
    found.create("moved", "id serial PRIMARY KEY, source int, target int, cents bigint")
    found.run(f"INSERT INTO account SELECT n, 'owner ' || n % 5, 1000 FROM generate_series(1, {ACCOUNTS}) n")
    return found


def move(server: PgPlayground, dice: random.Random) -> None:
    """Some transactions over both tables: what one account loses another gains."""
    statements = []
    for _ in range(10):
        source, target, cents = dice.randint(1, ACCOUNTS), dice.randint(1, ACCOUNTS), dice.randint(1, 50)
        statements += [
            f"BEGIN; UPDATE account SET cents = cents - {cents} WHERE id = {source}; "
            f"UPDATE account SET cents = cents + {cents} WHERE id = {target}; "
            f"INSERT INTO moved (source, target, cents) VALUES ({source}, {target}, {cents}); COMMIT"
        ]
    server.run(*statements)


@contextmanager
def busy(server: PgPlayground, most: int = 300) -> Iterator[None]:
    """Transactions while the block runs; it begins when there are some.

    They are limited: the slow reader of a busy machine would get more to read the longer it needs.
    """
    dice, over, begun = random.Random(1), threading.Event(), threading.Event()

    def write() -> None:
        left = most
        while left and not over.wait(0.05):
            left -= 1
            move(server, dice)
            begun.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        until(begun.is_set, "the first transactions")
        yield
    finally:
        over.set()
        ended(thread)


def attempt(sync: PgSync) -> bool:
    """Run once. Return whether it reached the end; an error that a retry cannot mend fails the test."""
    try:
        sync.run()
    except PenstockError as error:
        if not error.retryable:
            raise
        return False
    return True


def check_equal(sync: PgSync) -> None:
    sync.run()
    assert [verdict for verdict in sync.verified().values() if not verdict.is_equal] == []


def test_connections_that_are_cut_anywhere_lose_and_repeat_nothing(server: PgPlayground, tmp_path: Path) -> None:
    dice = random.Random(3)
    with proxied(server.port) as proxy, busy(server):
        sync = PgSync(server, tmp_path, conf=[*CONF, f"port={proxy.port}"], flags=FLAGS)
        for _ in repeated(12, lambda: proxy.cut > 5, "connections that were cut"):
            proxy.cuts = [dice.choice([0, 50, 900, 3000, 9000, 20_000]) for _ in range(dice.randint(1, 6))]
            attempt(sync)
    check_equal(PgSync(server, tmp_path, conf=CONF, flags=FLAGS))


@pytest.mark.parametrize(("piece", "delay"), [(1, 0.0), (7, 0.0), (0, 0.004)], ids=["one byte", "7 bytes", "late"])
def test_pieces_and_delays_change_nothing(server: PgPlayground, tmp_path: Path, piece: int, delay: float) -> None:
    with proxied(server.port) as proxy:
        proxy.piece, proxy.delay = piece, delay
        sync = PgSync(server, tmp_path, conf=[*CONF, f"port={proxy.port}"], flags=FLAGS)
        with busy(server, most=60):
            sync.run()
            sync.run()
        sync.run()
    check_equal(PgSync(server, tmp_path, conf=CONF, flags=FLAGS))


def test_readers_that_the_server_ends_again_and_again_lose_and_repeat_nothing(
    server: PgPlayground, tmp_path: Path
) -> None:
    sync = PgSync(server, tmp_path, conf=CONF, flags=FLAGS)
    over, killed = threading.Event(), 0

    def end_them() -> None:
        nonlocal killed
        dice = random.Random(5)
        while not over.wait(dice.uniform(0.02, 0.4)):
            ended_now = server.run(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'cdc'"
            )
            killed += int(ended_now)

    with busy(server):
        thread = threading.Thread(target=end_them)
        thread.start()
        try:
            for _ in repeated(12, lambda: killed > 5, "readers that were ended"):
                attempt(sync)
        finally:
            over.set()
            ended(thread)
    check_equal(sync)


def test_a_slot_that_another_program_reads_is_busy_until_it_ends(server: PgPlayground, tmp_path: Path) -> None:
    sync = PgSync(server, tmp_path, conf=CONF, flags=FLAGS)
    sync.run()
    move(server, random.Random(2))
    other = PgAddress("127.0.0.1", server.port, "cdc", "cdc", DATABASE, name="other")
    with connected(other, replication=True) as reader:
        reader.start_stream(
            f"START_REPLICATION SLOT \"{SLOT}\" LOGICAL 0/0 (proto_version '1', publication_names '{SLOT}_pub')"
        )
        with pytest.raises(SlotBusy, match="in use") as caught:
            sync.run()
        assert caught.value.retryable
    check_equal(sync)
