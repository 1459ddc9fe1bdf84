"""A pipeline over Pulsar that is killed, and bad records with the ids of their messages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.commands.main import main
from penstock.table.commit.committer import Committer
from tests.here import run
from tests.integration.pulsar.conftest import Broker
from tests.integration.pulsar.sync import Sync
from tests.shop import insert
from tests.waiting import until

pytestmark = pytest.mark.pulsar

ROOT = Path(__file__).resolve().parents[3]


class Died(Exception):
    """The driver's death, as far as the tables can tell."""


def test_a_batch_is_committed_once_after_a_death_between_two_tables(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, sync = broker.topic(partitions=2), Sync(broker, tmp_path)
    # Rows that come twice are seen: there are no keys.
    flags = ("--sync-primary-keys-from-source-schema", "false", "--include-keyless", "append")
    broker.send(topic, insert("orders", {"id": 1}), insert("users", {"id": 1}))
    run(sync.spec(topic, *flags))
    broker.send(topic, *(insert(table, {"id": number}) for number in (2, 3) for table in ("orders", "users")))
    commit = Committer.commit

    def dying(self: Committer, *given: Any, **named: Any) -> object:
        if self.store.name == "ods.users":
            raise Died
        return commit(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", dying)
        with pytest.raises(Died):
            run(sync.spec(topic, *flags))
    assert (sync.ids("orders"), sync.ids("users")) == ([1, 2, 3], [1])
    broker.send(topic, insert("orders", {"id": 4}))
    run(sync.spec(topic, *flags))
    assert (sync.ids("orders"), sync.ids("users")) == ([1, 2, 3, 4], [1, 2, 3])


def test_a_schema_change_is_followed(broker: Broker, tmp_path: Path) -> None:
    topic, sync = broker.topic(), Sync(broker, tmp_path, "json")
    broker.send(topic, '{"id": 1}')
    run(sync.spec(topic, "--table", "t"))
    broker.send(topic, '{"id": 2, "coupon": "TEA5"}')
    run(sync.spec(topic, "--table", "t"))
    assert [row["coupon"] for row in sync.rows("t")] == [None, "TEA5"]


def test_dead_letters_show_the_id_and_are_replayed(broker: Broker, tmp_path: Path) -> None:
    topic, sync = broker.topic(), Sync(broker, tmp_path)
    flags = ("--on-bad-record", "dead-letter")
    broker.send(topic, insert("orders", {"id": 1}), '{"broken', insert("orders", {"id": 2}), batched=True)
    run(sync.spec(topic, *flags))
    assert sync.ids("orders") == [1, 2]
    (letter,) = sync.rows("__penstock_dead_letters")
    place, _, position = letter["source_position"].rpartition("@")
    assert place == f"persistent://public/default/{topic}"
    assert position.endswith(":1")  # the second message of its batch
    assert (letter["offset"], letter["raw_value"]) == (None, b'{"broken')
    words = sync.flags(topic, *flags)
    words.remove("--until-caught-up")
    main(["dlq", "pulsar-sync-database", "replay", *words])
    (again,) = sync.rows("__penstock_dead_letters")  # still bad
    assert (again["source_position"], again["attempt"]) == (letter["source_position"], 1)


def test_metadata_columns_are_those_of_messages(broker: Broker, tmp_path: Path) -> None:
    topic, sync = broker.topic(), Sync(broker, tmp_path, "json")
    broker.send(topic, '{"id": 1}', partition_key="k", properties={"h": "v"})
    run(sync.spec(topic, "--table", "t", "--metadata-column", "topic,key,headers,timestamp,partition"))
    (row,) = sync.rows("t")
    assert (row["topic"], row["key"], row["partition"]) == (f"persistent://public/default/{topic}", "k", -1)
    assert dict(row["headers"]) == {"h": "v"}
    assert abs(row["timestamp"].timestamp() - time.time()) < 600


@pytest.mark.spark
@pytest.mark.slow
def test_a_killed_job_continues_exactly_once(broker: Broker, tmp_path: Path) -> None:
    topic, sync = broker.topic(), Sync(broker, tmp_path, "json")
    broker.send(topic, *(json.dumps({"id": number}) for number in range(50)), batched=True)
    words = sync.flags(topic, "--table", "t", "--trigger", "1s")
    words.remove("--until-caught-up")
    command = [sys.executable, "-m", "penstock.pipelines.commands.main", "pulsar-sync-table", *words]
    with (tmp_path / "log").open("wb") as log:
        job = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            snapshots, log_text = tmp_path / "warehouse" / "ods.db" / "t" / "snapshot", (tmp_path / "log").read_text
            until(lambda: snapshots.exists() or job.poll() is not None, "the first snapshot")
            assert job.poll() is None, log_text()
            broker.send(topic, *(json.dumps({"id": number}) for number in range(50, 500)), batched=True)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    run_again = subprocess.run(
        [*command, "--until-caught-up"], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert run_again.returncode == 0, run_again.stderr
    assert sync.ids("t") == list(range(500))  # an append table: a message that was read twice would show


SCRIPT = """
import sys
from penstock.ingest.pulsar.client import client
opened = client({"pulsar.client.serviceUrl": sys.argv[1]})
consumer, producer = opened.subscribe(sys.argv[2], "lake"), opened.create_producer(sys.argv[2])
for _ in range(20):
    producer.send_async(b"x" * 1000, None)
"""


def test_a_process_that_ends_writes_no_lines_of_the_client(broker: Broker) -> None:
    command = [sys.executable, "-c", SCRIPT, broker.url, broker.topic()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stdout) == (0, "")
