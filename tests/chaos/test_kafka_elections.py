"""Three brokers of Kafka: a leader that dies after the others, and one that takes over although it was behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.errors import PositionLost
from penstock.pipelines.monitor.driver_process import is_alive
from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.sync import Sync
from tests.servers import launch
from tests.servers.produce import producing
from tests.shop import insert
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]
FLAGS = ("--sync-primary-keys-from-source-schema", "false", "--include-keyless", "append")
BEHIND, LEADER = 2, 3  # the first broker is the controller, and has no records


@dataclass
class Brokers:
    folder: Path
    ports: dict[int, int] = field(default_factory=dict)

    def start(self, number: int) -> None:
        port = self.ports.setdefault(number, launch.free_port())
        more = [] if number == 1 else self._of_controller(number, port)
        launch.start("kafka", self.folder / str(number), port, *more)

    def _of_controller(self, number: int, port: int) -> list[str]:
        # The last setting of a name counts.
        return [
            "process.roles=broker",
            f"node.id={number}",
            f"controller.quorum.voters=1@127.0.0.1:{self.ports[1] + 1}",
            f"listeners=PLAINTEXT://127.0.0.1:{port}",
            "broker.session.timeout.ms=3000",
            "broker.heartbeat.interval.ms=500",
        ]

    def kill(self, number: int) -> None:
        process = int((self.folder / str(number) / "pid").read_text())
        os.kill(process, signal.SIGKILL)
        until(lambda: not is_alive(process), "the end of a broker")

    def stop(self) -> None:
        for number in sorted(self.ports, reverse=True):
            if is_alive(int((self.folder / str(number) / "pid").read_text())):
                self.kill(number)

    @property
    def properties(self) -> dict[str, str]:
        return {"bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self.ports.values())}

    def leader(self, topic: str) -> int:
        try:
            found = AdminClient({"log_level": 0, **self.properties}).list_topics(topic, timeout=60)
        except KafkaException:
            return -1
        partitions = found.topics[topic].partitions  # none in a broker that has not heard of the topic yet
        return int(partitions[0].leader) if partitions else -1


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    monkeypatch.setenv("KAFKA_HEAP", "256m")
    made = Brokers(tmp_path / "brokers")
    try:
        for number in (1, BEHIND, LEADER):
            made.start(number)
        yield made
    finally:
        made.stop()


class Followed(Broker):
    """All brokers, as one that the pipeline reads."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(brokers.ports[1], brokers.folder)
        self._brokers = brokers

    @property
    def properties(self) -> dict[str, str]:
        return self._brokers.properties


def send(brokers: Brokers, topic: str, ids: range) -> None:
    with producing(brokers.properties) as producer:
        for number in ids:
            producer.produce(topic, insert("orders", {"id": number}), partition=0)


def test_records_lost_by_an_election_are_an_error_and_nothing_is_doubled(brokers: Brokers, tmp_path: Path) -> None:
    admin = AdminClient({"log_level": 0, **brokers.properties})
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    placed = NewTopic("orders", 1, replica_assignment=[[LEADER, BEHIND]], config=config)
    admin.create_topics([placed])["orders"].result()
    until(lambda: brokers.leader("orders") == LEADER, "the first leader")
    sync = Sync(Followed(brokers), tmp_path)
    spec = sync.spec("orders", *FLAGS)
    send(brokers, "orders", range(100))
    run(spec)
    brokers.kill(BEHIND)
    send(brokers, "orders", range(100, 150))
    run(spec)
    assert sync.ids("orders") == list(range(150))
    brokers.kill(LEADER)
    brokers.start(BEHIND)
    until(lambda: brokers.leader("orders") == BEHIND, "a leader that was behind")
    send(brokers, "orders", range(1000, 1080))
    # The offset 150 exists again, with another record before it: only the leader's epoch shows that.
    with pytest.raises(PositionLost) as caught:
        run(spec)
    assert "unclean.leader.election.enable" in str(caught.value)
    assert sync.ids("orders") == list(range(150))
    brokers.start(LEADER)
    with pytest.raises(PositionLost):
        run(spec)
    assert sync.ids("orders") == list(range(150))
    run(sync.spec("orders", *FLAGS, "--accept-gap"))
    kept = sync.ids("orders")
    assert set(range(1000, 1080)) <= set(kept)
    assert set(range(150)) <= set(kept)


def test_a_leader_killed_in_the_middle_of_a_run_loses_and_repeats_nothing(brokers: Brokers, tmp_path: Path) -> None:
    admin = AdminClient({"log_level": 0, **brokers.properties})
    admin.create_topics([NewTopic("orders", 1, replica_assignment=[[LEADER, BEHIND]])])["orders"].result()
    until(lambda: brokers.leader("orders") == LEADER, "the first leader")
    sync = Sync(Followed(brokers), tmp_path)
    send(brokers, "orders", range(300))
    batches = 0

    def kill(*_: object) -> None:
        nonlocal batches
        batches += 1
        if batches == 2:
            brokers.kill(LEADER)

    run(sync.spec("orders", *FLAGS, "--max-batch-rows", "50"), on_batch=kill)
    assert batches > 3
    brokers.start(LEADER)
    send(brokers, "orders", range(300, 350))
    run(sync.spec("orders", *FLAGS))
    assert sync.ids("orders") == list(range(350))
