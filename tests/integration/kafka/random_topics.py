"""Topics of a random play: what was produced, and which of it a pipeline must have in which table."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import IsolationLevel, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.random_messages import Change, Format, Row

Place = tuple[str, int]
TABLES = ("t0", "t1", "t2", "t3")
FUTURE = "future"  # the fate of a record that was not read yet
LOST, SKIPPED = "lost", "skipped"  # fates of records that were deleted before they were read, or precede the start


@dataclass(slots=True)
class Record:
    """A record of a topic. `change` is None for what is no change: malformed messages and tombstones.

    `fate` is the table that it was read for, None if its source table was left out; `also` are tables that may have it
    too, because a run that was killed read it with other settings.
    """

    place: Place
    what: str
    change: Change | None = None
    table: str | None = None  # the source table of a bad value
    fate: str | None = FUTURE
    also: set[str | None] = field(default_factory=set)
    may_be_lost: bool = False

    @property
    def source_table(self) -> str | None:
        return self.table if self.change is None else self.change.table

    offset: int = -1
    deleted: bool = False  # no longer in the topic


@dataclass
class RandomTopics:
    """Random records in topics of a broker."""

    broker: Broker
    draw: random.Random
    format: Format
    prefix: str
    told: list[str]
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
    transactional: Producer | None = None
    open: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer({"log_level": 0, "linger.ms": 0, **self.broker.properties})
        self.tables = [TABLES[0]] if self.format.name == "json" else list(TABLES)

    # Topics

    def add_topic(self) -> None:
        name = f"{self.prefix}-{len(self.partitions)}"
        self.partitions[name] = count = self.draw.randint(1, 4)
        self.say(f"topic {name} with {count} partitions")
        self.broker.topic(count, name)
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
        for producer in filter(None, (self.producer, self.transactional)):
            while len(producer.list_topics(topic, 10).topics[topic].partitions) < self.partitions[topic]:
                time.sleep(0.05)

    def lose(self, one: Record, *, surely: bool) -> None:
        one.deleted = True
        if one.fate == FUTURE:
            one.may_be_lost, one.fate = (False, LOST) if surely else (True, FUTURE)

    def delete_records(self, *, unread: bool, surely: bool = True) -> bool:
        """Delete records of one partition: only such as were read, or some that were not. Return whether any."""
        place = self.draw.choice(self.all_places())
        here = [one for one in self.records if one.place == place and not one.deleted]
        some = [one for one in here if (one.fate == FUTURE) == unread]
        if not some:
            return False
        last = self.draw.choice(some)
        offset = last.offset + 1
        for one in here:
            if one.offset < offset:
                self.lose(one, surely=surely)
        self.say(f"delete records of {place} before {offset}, unread={unread}")
        where = TopicPartition(*place, offset)
        self.admin.delete_records([where])[where].result()
        return True

    def renew_topic(self, *, surely: bool = True) -> None:
        name = self.draw.choice(list(self.partitions))
        self.say(f"topic {name} deleted and created")
        for one in self.records:
            if one.place[0] == name and not one.deleted:
                self.lose(one, surely=surely)
        self.broker.renew(name, self.partitions[name])
        self.know_partitions(name)

    def all_places(self) -> list[Place]:
        return [(topic, number) for topic, count in self.partitions.items() for number in range(count)]

    # Records

    def act(self, times: int) -> None:
        for _ in range(times):
            self._act()

    def _act(self) -> None:
        actions = {"insert": 8, "update": 6, "delete": 3, "move": 1, "column": 2, "widen": 1, "drop_column": 1}
        actions |= {"malformed": int(self.bad), "tombstone": 1, "bad_value": int(self.bad and self.format.declares)}
        actions |= {"transaction": int(self.has_transactions), "aborted": int(self.has_transactions)}
        action = self.draw.choices(list(actions), list(actions.values()))[0]
        table = self.draw.choice(self.tables)
        match action:
            case "transaction" | "aborted":
                self.in_transaction(commits=action == "transaction")
            case "malformed":
                self.send(Record(self.draw.choice(self.all_places()), "malformed"), b'{"broken', b"k")
            case "bad_value" if self.rows.get(table):
                self.bad_value(table)
            case "tombstone" if self.format.name.startswith("debezium"):
                self.send(Record(self.draw.choice(self.all_places()), "tombstone"), None, b'{"id": 0}')
            case _:
                self.change(action, table)
        self.flush()

    def change(self, action: str, table: str) -> None:
        types = self.types.setdefault(table, {"id": "INT", "n": "INT", "s": "INT", "v": "VARCHAR(20)"})
        rows = self.rows.setdefault(table, {})
        deletes = self.format.has_deletes
        match action:
            case "column":
                if len(types) < 8:
                    types[f"c{len(types)}"] = "INT"
            case "widen":
                types["n"] = "BIGINT"
            case "update" if rows:
                key = self.draw.choice(list(rows))
                self.put(table, rows[key] if deletes else None, self.new_row(table, key))
            case "delete" if rows and deletes:
                key = self.draw.choice(list(rows))
                only = not self.full_deletes and self.draw.random() < 0.4
                self.put(table, rows[key] | {"s": self.next()}, None, is_key_only=only)
            case "move" if rows and deletes and self.has_keys:
                key = self.draw.choice(list(rows))
                self.number += 1
                new = self.new_key(table)
                self.places[table, new] = self.places[table, key]
                self.put(table, rows[key], self.new_row(table, new))
            case _:
                for _ in range(self.draw.randint(1, 4)):
                    again = self.draw.random() < 0.2
                    gone = [key for name, key in self.places if name == table and key not in rows]
                    key = self.draw.choice(gone) if gone and again else self.new_key(table)
                    self.put(table, None, self.new_row(table, key))

    def bad_value(self, table: str) -> None:
        """Send a row with a value that is not of its declared type."""
        row = self.new_row(table, self.new_key(table)) | {"n": 1, "s": "abc"}  # it passes a filter
        change = Change(table, None, row, dict(self.types[table]), self.millis())
        text = self.format.write(change, self.has_keys)
        record = Record(self.draw.choice(self.all_places()), "bad value", table=table)
        self.send(record, text.encode(), json.dumps({"id": row["id"]}).encode(), change.millis)

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
        if before is not None:
            rows.pop(before["id"], None)
        if after is not None:
            rows[after["id"]] = after
        change = Change(table, before, after, dict(self.types[table]), millis, is_key_only)
        key = change.row["id"]
        place = self.places.setdefault((table, key), self.draw.choice(self.all_places()))
        text = self.format.write(change, self.has_keys)
        self.send(Record(place, text, change), text.encode(), json.dumps({"id": key}).encode(), millis)

    def send(self, record: Record, value: bytes | None, key: bytes, millis: int = 0) -> None:
        if self.transactional is not None and self.open:
            self.open.append(record)
            producer = self.transactional
        else:
            self.records.append(record)
            producer = self.producer

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            record.offset = message.offset()

        topic, partition = record.place
        headers = [("h", b"1")] if self.draw.random() < 0.1 else None
        stamp = millis or self.millis()
        producer.produce(topic, value, key, partition, on_delivery=delivered, timestamp=stamp, headers=headers)
        text = "" if record.change is None else f"{record.change.before} -> {record.change.after}"
        self.say(f"  {record.place} {record.what[:12] if record.change is None else record.change.table} {text}")

    def in_transaction(self, *, commits: bool) -> None:
        """Produce a few records in a transaction, which is committed or aborted."""
        if self.transactional is None:
            name = f"{self.prefix}-producer"
            self.transactional = Producer({"log_level": 0, "transactional.id": name, **self.broker.properties})
            self.transactional.init_transactions(30)
        before = ({name: dict(rows) for name, rows in self.rows.items()}, dict(self.places))
        self.say(f"transaction, commits={commits}")
        self.transactional.begin_transaction()
        self.open = [Record(("", 0), "begin")]
        for _ in range(self.draw.randint(1, 3)):
            self.change(self.draw.choice(("insert", "update", "delete")), self.draw.choice(self.tables))
        found, self.open = self.open[1:], []
        self.transactional.flush(30)
        if commits:
            self.transactional.commit_transaction(30)
            self.records += found
        else:
            self.transactional.abort_transaction(30)
            self.rows, self.places = before
        self.wait_for_markers()

    def wait_for_markers(self) -> None:
        """Wait until readers of committed records come past the end of the transaction."""
        asked = {TopicPartition(*place): OffsetSpec.latest() for place in self.all_places()}
        levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        while True:
            answers = [self.admin.list_offsets(asked, isolation_level=level) for level in levels]
            stable, all_ = ([found[place].result().offset for place in asked] for found in answers)
            if stable == all_:
                return
            time.sleep(0.01)

    def flush(self) -> None:
        assert self.producer.flush(30) == 0

    def say(self, what: str) -> None:
        self.told.append(what)

    # What a pipeline must have

    def settle(self, fate_of: Callable[[str], str | None]) -> None:
        """Let all records that were not read yet be read for the tables that this function returns."""
        for one in self.records:
            if one.fate == FUTURE:
                one.fate = None if one.source_table is None else fate_of(one.source_table)

    def read_for(self, target: str) -> list[Record]:
        return [one for one in self.records if target in {one.fate, *one.also} and one.change]
