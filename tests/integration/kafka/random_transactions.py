"""Transactions of a random play: short ones, and one that stays open while a pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from penstock.ingest.kafka.cluster import KafkaCluster
from tests.integration.kafka.random_messages import Row
from tests.integration.kafka.random_records import ABORTED, Record
from tests.waiting import LIMIT_S, until

if TYPE_CHECKING:
    from tests.integration.kafka.random_topics import RandomTopics

_SHORT, _LONG = "short", "long"
_LEVELS = ("read_committed", "read_uncommitted")
_TIMEOUT_MILLIS = 600_000


@dataclass
class Transaction:
    """Records of a transaction, and the rows that its keys had before, None if they had none."""

    records: list[Record] = field(default_factory=list)
    before: dict[tuple[str, int], Row | None] = field(default_factory=dict)


@dataclass
class Transactions:
    """Transactions in the topics of a play."""

    topics: RandomTopics
    producers: dict[str, Producer] = field(default_factory=dict)
    current: Producer | None = None  # of the records that are sent now
    noted: Transaction | None = None
    open: Transaction | None = None

    @property
    def held(self) -> set[tuple[str, int]]:
        """The keys that the open transaction changes."""
        return set() if self.open is None else set(self.open.before)

    def hold(self, table: str, keys: list[int]) -> None:
        if self.noted is not None:
            for key in keys:
                self.noted.before.setdefault((table, key), self.topics.rows[table].get(key))

    def note(self, record: Record) -> None:
        if self.noted is not None:
            self.noted.records.append(record)

    def first_open(self, place: tuple[str, int]) -> int | None:
        """Return the offset of the first record of the open transaction in a partition."""
        records = () if self.open is None else self.open.records
        return min((record.offset for record in records if record.place == place), default=None)

    def short(self, *, commits: bool) -> None:
        """Produce a few records in a transaction, which is committed or aborted."""
        self.topics.say(f"transaction, commits={commits}")
        self._end(_SHORT, self._begin(_SHORT), commits=commits)

    def open_or_end(self) -> None:
        """Begin a transaction that stays open, or end the one that is open."""
        if self.open is not None:
            self.end_open(commits=self.topics.draw.random() < 0.5)
            return
        self.topics.say("transaction opened")
        self.open = self._begin(_LONG)

    def end_open(self, *, commits: bool = True) -> None:
        if self.open is not None:
            self.topics.say(f"transaction ends, commits={commits}")
            ended, self.open = self.open, None
            self._end(_LONG, ended, commits=commits)

    def _begin(self, name: str) -> Transaction:
        topics = self.topics
        if name not in self.producers:
            settings = {"transactional.id": f"{topics.prefix}-{name}", "transaction.timeout.ms": _TIMEOUT_MILLIS}
            self.producers[name] = Producer({"log_level": 0, **settings, **topics.broker.properties})
            self.producers[name].init_transactions(LIMIT_S)
        producer = self.producers[name]
        producer.begin_transaction()
        made = Transaction()
        self.current, self.noted = producer, made
        for _ in range(topics.draw.randint(1, 3)):
            topics.change(topics.draw.choice(("insert", "update", "delete")), topics.draw.choice(topics.tables))
        self.current = self.noted = None
        producer.flush(LIMIT_S)
        return made

    def _end(self, name: str, made: Transaction, *, commits: bool) -> None:
        if commits:
            self.producers[name].commit_transaction(LIMIT_S)
        else:
            self.producers[name].abort_transaction(LIMIT_S)
            if not self.topics.reads_uncommitted:
                for record in made.records:
                    record.fate = ABORTED
                for (table, key), row in made.before.items():
                    self.topics.rows[table].pop(key, None)
                    if row is not None:
                        self.topics.rows[table][key] = row
        self._wait_for_markers()

    def _wait_for_markers(self) -> None:
        """Wait until readers of committed records come past the ends of transactions that have ended."""
        places = [place for place in self.topics.all_places() if self.first_open(place) is None]
        properties = self.topics.broker.properties
        # These repeat requests until a broker that was restarted answers.
        stable, all_ = (KafkaCluster({**properties, "isolation.level": level}) for level in _LEVELS)
        until(lambda: stable.latest(places) == all_.latest(places), "the ends of all transactions")
