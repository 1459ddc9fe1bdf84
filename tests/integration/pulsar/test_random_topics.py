"""Random messages in topics, and runs of a pipeline between them: each message is in its table once, or refused.

Topics are created, extended, emptied, deleted and created again. Runs are killed, and calls fail. PENSTOCK_CHAOS_ROUNDS
=100 plays that many seeds.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.errors import PenstockError, PositionLost
from penstock.ingest.pulsar.source import PulsarSource
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.tasks.batch_report import BatchReport
from tests.here import note_as_spark_does, run
from tests.integration.failing_calls import Killed
from tests.integration.kafka.random_troubles import Troubles
from tests.integration.play_report import history_shown
from tests.integration.pulsar.conftest import Broker
from tests.integration.pulsar.random_messages import LETTERS, TABLES, RandomMessages
from tests.integration.pulsar.sync import Sync
from tests.without_spark import run_here

pytestmark = pytest.mark.pulsar
FIRST = int(os.environ.get("PENSTOCK_CHAOS_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("PENSTOCK_CHAOS_ROUNDS", "3")))
APPEND = ("--sync-primary-keys-from-source-schema", "false", "--include-keyless", "append")
BAD = ("--on-bad-record", "dead-letter", "--max-bad-share", "100%")


@dataclass
class Play:
    """Random messages, and runs of a pipeline. `lost` are messages that it went on without."""

    topics: RandomMessages
    sync: Sync
    draw: random.Random
    limit: int | None
    as_spark: bool
    reports: dict[int, BatchReport] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    uncounted: bool = False

    @classmethod
    def of(cls, broker: Broker, folder: Path, draw: random.Random, prefix: str) -> Play:
        limit, as_spark = draw.choice((None, None, 1, 3, 20)), draw.random() < 0.5
        history = [f"-- limit {limit} as_spark {as_spark}"]
        return cls(RandomMessages(broker, draw, prefix, "lake", history), Sync(broker, folder), draw, limit, as_spark)

    def run(self) -> None:
        self.topics.add_topic()
        self.topics.send(self.draw.randint(1, 5))
        for _ in range(self.draw.randint(2, 5)):
            self.change_topics()
            self.topics.send(self.draw.randint(0, 8))
            for _ in range(self.draw.choice((0, 1, 1, 2))):
                self.run_with_trouble()
                self.topics.send(self.draw.randint(0, 2))
                if self.draw.random() < 0.25:
                    self.draw.choice((self.topics.skip, self.topics.renew))()
            self.settle()

    def change_topics(self) -> None:
        way = self.draw.random()
        if way < 0.15 and len(self.topics.partitions) < 3:
            self.topics.add_topic()
        elif way < 0.3:
            self.topics.add_partition()
        elif way < 0.5:
            self.topics.drop_read()
        elif way < 0.6:
            self.topics.skip()
        elif way < 0.7:
            self.topics.renew()

    def change_meanwhile(self) -> None:
        self.topics.send(self.draw.randint(1, 3))
        if self.draw.random() < 0.4:
            self.topics.add_partition()

    def restart(self) -> None:
        self.sync.broker.stop()
        self.sync.broker.start()

    def run_with_trouble(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            tell = self.topics.history.append
            Troubles(self.draw, tell, self.change_meanwhile, self.restart, source=PulsarSource).happen(patch)
            try:
                self.run_once()
            except (PenstockError, Killed, OSError) as error:
                tell(f"  {error!r}"[:200])

    def run_once(self, *flags: str) -> None:
        limits = ["--max-batch-rows", str(self.limit)] if self.limit else []
        checkpoint = f"{self.sync.folder}/checkpoint"
        given = [*APPEND, *BAD, *limits, "--checkpoint", checkpoint, *flags]
        spec = self.sync.spec(f"{self.topics.prefix}-.*", *given)
        self.topics.history.append(f"run {flags}")
        if not self.as_spark:
            run_here(spec, self.note)
            return
        try:
            run(spec, on_batch=self.note)
        finally:
            note_as_spark_does(Path(checkpoint))

    def note(self, identity: BatchIdentity, report: BatchReport) -> None:
        self.reports[identity.number] = report

    def settle(self) -> None:
        """Run to the end. Only what is really missing may be refused, and it must be."""
        refused = False
        try:
            self.run_once()
        except PositionLost as error:
            self.topics.history.append(f"  {error!r}"[:300])
            refused = True
            self.run_once("--accept-gap")
        topics, found = self.topics, self.found()
        may_be_lost = {message.number for message in topics.messages.values() if message.may_be_lost}
        # If no message of a topic was read before it was created again, it is unknown whether any message was lost.
        assert not refused or topics.cut or may_be_lost or topics.renewed, "nothing was lost"
        missing = topics.messages.keys() - found.keys()
        assert missing - self.lost <= may_be_lost, f"lacks {sorted(missing - self.lost - may_be_lost)}"
        # If no message of a partition was read, nothing shows that it had some.
        known = {number for number in missing - self.lost if topics.messages[number].place in topics.known}
        assert refused or not known, f"{sorted(known)} were not refused"
        assert not [number for number, times in found.items() if times > 1], f"twice: {found}"
        self.lost |= missing
        for message in topics.messages.values():
            message.is_settled, message.may_be_lost = True, False
            topics.known |= {message.place} if message.number in found else set()
        topics.cut.clear()
        topics.renewed.clear()
        # A batch that was killed between two commits, and lost its messages then, has a part of them.
        self.uncounted |= refused
        if self.uncounted:
            return
        assert sum(report.messages for report in self.reports.values()) == len(found)
        bad = sum(topics.messages[number].table == LETTERS for number in found)
        assert sum(report.bad_count for report in self.reports.values()) == bad

    def found(self) -> Counter[int]:
        """Return how often each message is in the tables."""
        there = self.sync.tables() if self.sync.warehouse.databases() else set()
        found = Counter[int]()
        for table in {*TABLES, LETTERS} & there:
            rows = self.sync.table(table).scan().to_arrow().to_pylist()
            numbers = [int(row["raw_value"].split()[1] if table == LETTERS else row["id"]) for row in rows]
            assert all(self.topics.messages[number].table == table for number in numbers)
            found.update(numbers)
        return found


_numbers = itertools.count()


@pytest.mark.parametrize("seed", SEEDS)
def test_each_message_is_in_its_table_once_or_refused(broker: Broker, tmp_path: Path, seed: int) -> None:
    play = Play.of(broker, tmp_path, random.Random(seed), f"r{os.getpid()}x{next(_numbers)}")
    with history_shown(play.topics.history):
        play.run()
