"""Topics of a random play: what was produced, and which of it a pipeline must have in which table."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.random_messages import Change, Format, Row
from tests.integration.kafka.random_records import FUTURE, LOST, TABLES, Place, Record
from tests.integration.kafka.random_transactions import Transactions
from tests.waiting import LIMIT_S

_COMPACTED = {
    "cleanup.policy": "compact,delete",  # records may be deleted by offset, too
    "segment.ms": "5",  # of the times of records
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


@dataclass
class RandomTopics:
    """Random records in topics of a broker."""

    broker: Broker
    draw: random.Random
    format: Format
    prefix: str
    history: list[str]
    has_keys: bool = True
    full_deletes: bool = True
    bad: bool = True  # malformed messages may come
    nulls: bool = True
    has_transactions: bool = True
    rows: dict[str, dict[int, Row]] = field(default_factory=dict)
    places: dict[tuple[str, int], Place] = field(default_factory=dict)
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    number: int = 0
    reads_uncommitted: bool = False  # readers read records of transactions that are open or were aborted
    compacts: bool = False  # brokers delete records whose key has a later one
    may_stay_open: bool = False  # transactions may be open during runs

    def __post_init__(self) -> None:
        self.producer = Producer({"log_level": 0, "linger.ms": 0, **self.broker.properties})
        self.transactions = Transactions(self)
        self.tables = [TABLES[0]] if self.format.name == "json" else list(TABLES)

    @property
    def config(self) -> dict[str, str]:
        """The settings of topics."""
        return _COMPACTED if self.compacts else {}

    # Topics

    def add_topic(self) -> None:
        name = f"{self.prefix}-{len(self.partitions)}"
        self.partitions[name] = count = self.draw.randint(1, 4)
        self.say(f"topic {name} with {count} partitions")
        self.broker.topic(count, name, **self.config)
        self.know_partitions(name)

    def add_partition(self) -> None:
        name = self.draw.choice(list(self.partitions))
        if self.partitions[name] < 6:
            self.partitions[name] += 1
            self.say(f"topic {name} gets partition {self.partitions[name] - 1}")
            self.broker.add_partition(name, self.partitions[name])
            self.know_partitions(name)

    def know_partitions(self, topic: str) -> None:
        """Wait until the producers know all partitions of a topic."""
        self.admin = AdminClient({"log_level": 0, **self.broker.properties})  # one that knows partitions asks no more
        for producer in (self.producer, *self.transactions.producers.values()):
            while len(producer.list_topics(topic, LIMIT_S).topics[topic].partitions) < self.partitions[topic]:
                time.sleep(0.05)

    def lose(self, record: Record, *, surely: bool) -> None:
        record.deleted = True
        if record.fate == FUTURE:
            record.may_be_lost, record.fate = (False, LOST) if surely else (True, FUTURE)

    def delete_records(self, *, unread: bool, surely: bool = True) -> bool:
        """Delete records of one partition: only such as were read, or some that were not. Return whether any."""
        place = self.draw.choice(self.all_places())
        here = [record for record in self.records if record.place == place and not record.deleted]
        some = [record for record in here if (record.fate == FUTURE) == unread and not self.waits(record)]
        if not some:
            return False
        last = self.draw.choice(some)
        offset = last.offset + 1
        for record in here:
            if record.offset < offset:
                self.lose(record, surely=surely)
        self.say(f"delete records of {place} before {offset}, unread={unread}")
        where = TopicPartition(*place, offset)
        self.admin.delete_records([where])[where].result()
        return True

    def renew_topic(self, *, surely: bool = True) -> None:
        self.transactions.end_open()
        name = self.draw.choice(list(self.partitions))
        self.say(f"topic {name} deleted and created")
        for record in self.records:
            if record.place[0] == name and not record.deleted:
                self.lose(record, surely=surely)
        self.broker.renew(name, self.partitions[name], **self.config)
        self.know_partitions(name)

    def all_places(self) -> list[Place]:
        return [(topic, number) for topic, count in self.partitions.items() for number in range(count)]

    # Records

    def act(self, times: int) -> None:
        for _ in range(times):
            self._act()

    def _act(self) -> None:
        actions = {"insert": 8, "update": 6, "delete": 3, "move": 1, "column": 2, "widen": 1, "drop_column": 1}
        actions |= {
            "malformed": int(self.bad),
            "tombstone": 1,
            "bad_value": int(self.bad and self.format.has_bad_values),
        }
        actions |= {"transaction": int(self.has_transactions), "aborted": int(self.has_transactions)}
        # A record of a key that moves has the new one only: the delete of the old one would be compacted away.
        actions |= {"move": 0} if self.compacts else {}
        actions |= {"open": int(self.may_stay_open)}
        action = self.draw.choices(list(actions), list(actions.values()))[0]
        table = self.draw.choice(self.tables)
        match action:
            case "transaction" | "aborted":
                self.transactions.short(commits=action == "transaction")
            case "open":
                self.transactions.open_or_end()
            case "malformed":
                value = self.format.malformed(self.draw)
                self.send(Record(self.draw.choice(self.all_places()), "malformed"), value, b"%d" % self.next())
            case "bad_value" if self.rows.get(table):
                self.bad_value(table)
            case "tombstone":
                self.send(Record(self.draw.choice(self.all_places()), "tombstone"), None, self.format.key(0))
            case _:
                self.change(action, table)
        self.flush()

    def change(self, action: str, table: str) -> None:
        types = self.types.setdefault(table, {"id": "INT", "n": "INT", "s": "INT", "v": "VARCHAR(20)"})
        rows = self.rows.setdefault(table, {})
        deletes = self.format.has_deletes
        # Keys of an open transaction change no more until it ends: it may be aborted.
        held = self.transactions.held
        free = [key for key in rows if (table, key) not in held]
        match action:
            case "column":
                if len(types) < 8:
                    types[f"c{len(types)}"] = "INT"
            case "widen":
                types["n"] = "BIGINT"
            case "update" if free:
                key = self.draw.choice(free)
                self.put(table, rows[key] if deletes else None, self.new_row(table, key))
            case "delete" if free and deletes:
                key = self.draw.choice(free)
                only = not self.full_deletes and self.draw.random() < 0.4
                self.put(table, rows[key] | {"s": self.next()}, None, is_key_only=only)
            case "move" if free and deletes and self.has_keys:
                key = self.draw.choice(free)
                self.number += 1
                new = self.new_key(table)
                self.places[table, new] = self.places[table, key]
                self.put(table, rows[key], self.new_row(table, new))
            case _:
                for _ in range(self.draw.randint(1, 4)):
                    again = self.draw.random() < 0.2
                    gone = [key for name, key in self.places if name == table and key not in rows]
                    gone = [key for key in gone if (table, key) not in held]
                    key = self.draw.choice(gone) if gone and again else self.new_key(table)
                    self.put(table, None, self.new_row(table, key))

    def bad_value(self, table: str) -> None:
        """Send a row with a value that is not of its declared type."""
        row = self.new_row(table, self.new_key(table)) | {"n": 1, "s": "abc"}  # it passes a filter
        change = Change(table, None, row, dict(self.types[table]), self.millis())
        value = self.format.value(change, self.has_keys)
        record = Record(self.draw.choice(self.all_places()), "bad value", table=table)
        self.send(record, value, self.format.key(row["id"]), change.millis)

    def new_key(self, table: str) -> int:
        return self.next() * 10 + TABLES.index(table)

    def millis(self) -> int:
        return 1_700_000_000_000 + self.next()

    def next(self) -> int:
        self.number += 1
        return self.number

    def new_row(self, table: str, key: int) -> Row:
        row: Row = {"id": key, "n": self.draw.randint(0, 99), "s": self.next()}
        for name in self.types[table]:
            if name not in row:
                null = self.nulls and self.draw.random() < 0.2
                row[name] = None if null else self.draw.randint(1, 9) if name != "v" else f"v{self.next()}"
        return row

    def put(self, table: str, before: Row | None, after: Row | None, *, is_key_only: bool = False) -> None:
        rows, millis = self.rows[table], self.millis()
        self.transactions.hold(table, [image["id"] for image in (before, after) if image is not None])
        if before is not None:
            rows.pop(before["id"], None)
        if after is not None:
            rows[after["id"]] = after
        change = Change(table, before, after, dict(self.types[table]), millis, is_key_only)
        key = change.row["id"]
        place = self.places.setdefault((table, key), self.draw.choice(self.all_places()))
        value = self.format.value(change, self.has_keys)
        self.send(Record(place, repr(value), change), value, self.format.key(key), millis)
        # Debezium lets a delete be followed by a tombstone, so that compaction removes both.
        if after is None and not self.compacts and self.draw.random() < 0.3:
            self.send(Record(place, "tombstone"), None, self.format.key(key), millis)

    def send(self, record: Record, value: bytes | None, key: bytes, millis: int = 0) -> None:
        self.records.append(record)
        producer = self.transactions.current or self.producer
        self.transactions.note(record)

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            record.offset = message.offset()

        topic, partition = record.place
        headers = [("h", b"1")] if self.draw.random() < 0.1 else None
        stamp = millis or self.millis()
        producer.produce(topic, value, key, partition, on_delivery=delivered, timestamp=stamp, headers=headers)
        text = "" if record.change is None else f"{record.change.before} -> {record.change.after}"
        self.say(f"  {record.place} {record.what[:12] if record.change is None else record.change.table} {text}")

    def flush(self) -> None:
        assert self.producer.flush(LIMIT_S) == 0

    def say(self, what: str) -> None:
        self.history.append(what)

    # What a pipeline must have

    def waits(self, record: Record) -> bool:
        """Return whether readers do not get the record yet, because a transaction before it is open."""
        first = None if self.reads_uncommitted else self.transactions.first_open(record.place)
        return first is not None and record.offset >= first

    def settle(self, fate_of: Callable[[str], str | None]) -> None:
        """Let all records that were not read yet be read for the tables that this function returns."""
        for record in self.records:
            if record.fate == FUTURE and not self.waits(record):
                record.fate = None if record.source_table is None else fate_of(record.source_table)

    def read_for(self, target: str) -> list[Record]:
        return [record for record in self.records if target in {record.fate, *record.also} and record.change]
