"""MongoDB pipelines whose connections are cut, slow, in pieces, or silent; with the stand-in for a server."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.mongodb.server import connection
from penstock.ingest.mongodb.server.address import MongoAddress
from tests.chaos.proxy import Proxy, proxied
from tests.integration.mongodb.conftest import server, server_address
from tests.integration.mongodb.sync import MongoPlayground, MongoSync
from tests.waiting import ended, repeated, until

__all__ = ["server", "server_address"]

pytestmark = [pytest.mark.mongodb, pytest.mark.slow]
ACCOUNTS = 1000
CONF = ("scan.incremental.snapshot.chunk.size.mb=1",)
FLAGS = ("--max-batch-rows", "300")


@dataclass
class Bank:
    """Accounts whose cents move between them while `busy` runs."""

    server: MongoPlayground
    dice: random.Random

    def open(self) -> None:
        accounts = [{"_id": number, "cents": 1000, "filling": "x" * 300} for number in range(ACCOUNTS)]
        self.server.db.account.insert_many(accounts)

    def move(self) -> None:
        source, target, cents = self.dice.randrange(ACCOUNTS), self.dice.randrange(ACCOUNTS), self.dice.randint(1, 50)
        self.server.db.account.update_one({"_id": source}, {"$inc": {"cents": -cents}})
        self.server.db.account.update_one({"_id": target}, {"$inc": {"cents": cents}})

    @contextmanager
    def busy(self, most: int = 3000) -> Iterator[None]:
        """Move cents while the block runs, at most so often: a slow reader would get more the longer it needs."""
        over, begun = threading.Event(), threading.Event()

        def write() -> None:
            left = most
            while left and not over.wait(0.02):
                left -= 1
                self.move()
                begun.set()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            until(begun.is_set, "the first changes")
            yield
        finally:
            over.set()
            ended(thread)

    def sync(self, folder: Path, proxy: Proxy | None = None, flags: Sequence[str] = FLAGS) -> MongoSync:
        # Not by the names that the server gives its members, which lead past the proxy.
        through = [f"hosts=127.0.0.1:{proxy.port}", "connection.options=directConnection=true"] if proxy else []
        return MongoSync(self.server, folder, "account", [*CONF, *through], flags)

    def check_equal(self, folder: Path) -> None:
        sync = self.sync(folder)
        sync.run()
        found = {int(key): int(row["cents"]) for key, row in sync.rows().items()}
        assert found == {account["_id"]: account["cents"] for account in self.server.db.account.find()}


@pytest.fixture
def bank(server: MongoPlayground) -> Bank:
    found = Bank(server, random.Random(1))
    found.open()
    return found


def port_of(server: MongoPlayground) -> int:
    return int(server.hosts.rpartition(":")[2])


def attempt(sync: MongoSync) -> None:
    """Run once. An error that a retry cannot mend fails the test."""
    try:
        sync.run()
    except PenstockError as error:
        if not error.retryable:
            raise


def test_connections_that_are_cut_anywhere_lose_and_repeat_nothing(bank: Bank, tmp_path: Path) -> None:
    with proxied(port_of(bank.server)) as proxy, bank.busy():
        for _ in repeated(12, lambda: proxy.cut > 5, "connections that were cut"):
            proxy.cuts = [bank.dice.choice([0, 50, 900, 3000, 9000, 60_000]) for _ in range(bank.dice.randint(3, 9))]
            attempt(bank.sync(tmp_path, proxy))
    bank.check_equal(tmp_path)


@pytest.mark.parametrize(("piece", "delay"), [(1, 0.0), (7, 0.0), (0, 0.004)], ids=["one byte", "7 bytes", "late"])
def test_pieces_and_delays_change_nothing(bank: Bank, tmp_path: Path, piece: int, delay: float) -> None:
    with proxied(port_of(bank.server)) as proxy:
        proxy.piece, proxy.delay = piece, delay
        sync = bank.sync(tmp_path, proxy)
        with bank.busy(most=300):
            sync.run()
            sync.run()
        sync.run()
    bank.check_equal(tmp_path)


def test_a_server_that_falls_silent_is_a_lost_connection(
    bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxied(port_of(bank.server)) as proxy:
        sync = bank.sync(tmp_path, proxy)
        sync.run()
        address = MongoAddress(f"127.0.0.1:{proxy.port}", options="directConnection=true")
        # Only here: a run on a busy machine may wait longer for an answer.
        with monkeypatch.context() as patch:
            patch.setattr(connection, "_SILENCE_S", 3.0)
            with pytest.raises(ConnectionLost) as caught:
                ask_while_silent(address, proxy)
        assert caught.value.retryable
        bank.move()
        sync.run()
    bank.check_equal(tmp_path)


def ask_while_silent(address: MongoAddress, proxy: Proxy) -> None:
    with connection.connected(address) as opened:
        opened.now()
        proxy.hush()
        opened.now()
