"""Pipelines of PostgreSQL, MongoDB and Pulsar whose process is killed at named points, one after the other.

They are the commands of users, without Spark: the checkpoint is the product's own. The source changes between kills.
Tables with a key equal the source, the one without a key has each message once, and no batch is committed twice (I5).
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.table.handle import Table
from tests.chaos.bank import ROOT
from tests.integration.mongodb.conftest import server as mongo
from tests.integration.mongodb.conftest import server_address
from tests.integration.mongodb.sync import MongoPlayground, MongoSync
from tests.integration.postgres.conftest import server as postgres
from tests.integration.postgres.conftest import server_port
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.integration.pulsar.conftest import Broker, broker
from tests.integration.pulsar.sync import Sync
from tests.invariants import check_invariants

__all__ = ["broker", "mongo", "postgres", "server_address", "server_port"]

pytestmark = [pytest.mark.slow]

LOGS, COMMITTER = "penstock.pipelines.ledger.batch_logs:BatchLogs", "penstock.table.commit.committer:Committer"
# The source's own points: its class, and what it reads a range with.
OWN = {
    "postgres": ("penstock.ingest.postgres.source:PgSource", "penstock.ingest.postgres.read_range:PgRangeReading._log"),
    "mongodb": (
        "penstock.ingest.mongodb.source:MongoSource",
        "penstock.ingest.mongodb.read_range:MongoRangeReading._log",
    ),
    "pulsar": (
        "penstock.ingest.pulsar.source:PulsarSource",
        "penstock.ingest.pulsar.partition_reader:PartitionReader.chunk",
    ),
}


def points(kind: str) -> dict[str, str]:
    source, read = OWN[kind]
    return {
        "planned, not in the checkpoint": f"{LOGS}.plan:before:1",
        "in the checkpoint, nothing read": f"{LOGS}.plan:after:1",
        "while the log is read": f"{read}:after:1",
        "files written, nothing committed": "penstock.pipelines.driver.commit:Commits.commit:before:1",
        "between the commits of tables": f"{COMMITTER}.commit:after:1",
        "committed, not done in the checkpoint": f"{LOGS}.finish:before:1",
        "done, the source does not know": f"{source}.mirror:before:1",
        "the source knows": f"{source}.mirror:after:1",
    }


@dataclass
class Killed:
    """The command of a pipeline, which is killed at each point after some changes of its source."""

    kind: str
    command: Sequence[str]
    change: Callable[[], None]
    tables: Callable[[], Sequence[Table]]
    logs: list[str] = field(default_factory=list)

    def run(self, kill: str | None) -> int:
        child = ["-m", "tests.chaos.source_child", kill] if kill else ["-m", "penstock.pipelines.commands.main"]
        words = [sys.executable, "-W", "ignore", *child, *self.command]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
        self.logs.append(done.stdout + done.stderr)
        return done.returncode

    def at_every_point(self) -> None:
        self.change()
        assert self.run(None) == 0, self.logs[-1]
        for name, kill in points(self.kind).items():
            self.change()
            assert self.run(kill) == -signal.SIGKILL, f"{name}: {self.logs[-1]}"
        assert self.run(None) == 0, self.logs[-1]
        for table in self.tables():
            check_invariants(table)


@pytest.mark.postgres
def test_a_process_of_postgres_that_is_killed_at_each_point_loses_and_repeats_nothing(
    postgres: PgPlayground, tmp_path: Path
) -> None:
    dice, numbers = random.Random(4), iter(range(10_000))
    postgres.create("account", "id int PRIMARY KEY, cents bigint")
    postgres.create("entry", "number int PRIMARY KEY, account int")
    postgres.run("INSERT INTO account SELECT n, 0 FROM generate_series(0, 199) n")

    def change() -> None:
        statements = []
        for _ in range(20):
            account, number = dice.randrange(200), next(numbers)
            statements.append(
                f"BEGIN; INSERT INTO entry VALUES ({number}, {account}); "
                f"UPDATE account SET cents = cents + 1 WHERE id = {account}; COMMIT"
            )
        postgres.run(*statements)

    sync = PgSync(postgres, tmp_path)
    killed = Killed(
        "postgres", [sync.command, *sync.words], change, lambda: [sync.target("account"), sync.target("entry")]
    )
    killed.at_every_point()
    entries = [int(number) for number in sync.target("entry").scan().to_arrow().column("number").to_pylist()]
    assert sorted(entries) == list(range(next(numbers)))
    found = postgres.run("SELECT json_object_agg(id, cents) FROM account")
    assert {key: row["cents"] for key, row in sync.rows("account").items()} == {
        int(key): cents for key, cents in json.loads(found).items()
    }


@pytest.mark.mongodb
def test_a_process_of_mongodb_that_is_killed_at_each_point_loses_and_repeats_nothing(
    mongo: MongoPlayground, tmp_path: Path
) -> None:
    dice = random.Random(5)
    mongo.db.account.insert_many([{"_id": number, "cents": 0} for number in range(200)])
    mongo.db.entry.insert_one({"_id": -1, "account": 0})

    def change() -> None:
        for _ in range(20):
            account = dice.randrange(200)
            mongo.db.account.update_one({"_id": account}, {"$inc": {"cents": 1}}, upsert=True)
            mongo.db.entry.insert_one({"account": account})
        mongo.db.account.delete_one({"_id": dice.randrange(200)})

    sync = MongoSync(mongo, tmp_path)
    killed = Killed(
        "mongodb",
        ["mongodb-sync-database", *sync.words],
        change,
        lambda: [sync.target("account"), sync.target("entry")],
    )
    killed.at_every_point()
    assert {int(key): int(row["cents"]) for key, row in sync.rows("account").items()} == {
        account["_id"]: account["cents"] for account in mongo.db.account.find()
    }
    assert len(sync.rows("entry")) == mongo.db.entry.count_documents({})


@pytest.mark.pulsar
def test_a_process_of_pulsar_that_is_killed_at_each_point_loses_and_repeats_nothing(
    broker: Broker, tmp_path: Path
) -> None:
    topic, sync, sent = broker.topic(partitions=2), Sync(broker, tmp_path, "json"), 0

    def change() -> None:
        nonlocal sent
        broker.send(topic, *(json.dumps({"id": number}) for number in range(sent, sent + 60)), batched=sent % 2 == 0)
        sent += 60

    words = sync.flags(topic, "--table", "t", "--checkpoint", f"{tmp_path}/checkpoint")
    Killed("pulsar", ["pulsar-sync-table", *words], change, lambda: [sync.table("t")]).at_every_point()
    assert sync.ids("t") == list(range(sent))
