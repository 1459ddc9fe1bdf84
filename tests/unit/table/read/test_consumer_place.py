"""Consumers of readers that find no new snapshots: kept before they expire, with no request at most polls."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.ingest.source import Limit
from penstock.ingest.spark_admission import ReadAllAvailable
from penstock.pipelines.spark_source.stream_read import TableStreamReader
from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.pipelines.table_source.source import TableSource, TableSourceSettings
from penstock.pipelines.table_source.upstream import Upstream
from penstock.storage.local import LocalStorage
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.maintenance.upkeep import expire_consumers
from penstock.table.meta.store import TableStore
from penstock.table.read.change_stream import ChangeStream
from penstock.table.read.consumer_place import ConsumerPlace
from penstock.table.schema.changes import SetOption
from penstock.table.usable import check_usable
from tests.unit.table.tables import new_table, rows

HOUR, FIRST = 3_600_000, 1_700_000_000_000
Poll = Callable[[], object]


class Clock:
    """A store whose clock the test sets, and the file of its consumer, whose time is the clock's when it is written."""

    def __init__(self, table: Table) -> None:
        self.table, self.now = table, FIRST
        ambient = replace(table.store.ambient, now_millis=lambda: self.now, sleep=self.slept)
        self.store: TableStore = replace(table.store, ambient=ambient)
        self.file = Path(table.store.paths.root) / "consumer" / "consumer-me"
        self.naps = 0

    def slept(self, _seconds: float) -> None:
        self.naps += 1
        if self.naps > 1:
            raise InterruptedError
        self.mark()

    def mark(self) -> None:
        os.utime(self.file, (1, 1))

    def was_written(self) -> bool:
        return self.file.stat().st_mtime > 1

    def after(self, millis: int, poll: Poll) -> bool:
        """Poll at a later time, and return whether that wrote the consumer."""
        self.now += millis
        self.mark()
        poll()
        return self.was_written()


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    table = new_table(tmp_path, options={"consumer.expiration-time": "1 h"})
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit()
    return Clock(table.refresh())


def of_sql(clock: Clock) -> Poll:
    return ChangeStream(clock.store, {"consumer-id": "me", "scan.mode": "latest"}).poll


def of_spark(clock: Clock) -> Poll:
    options = {"path": clock.table.path, "consumer-id": "me", "scan.mode": "latest"}
    reader = TableStreamReader(options, spark_schema(clock.table.schema))
    reader.__dict__["store"] = clock.store
    start = reader.initialOffset()
    return lambda: reader.latestOffset(start, ReadAllAvailable())


def of_pipeline(clock: Clock) -> Poll:
    warehouse = clock.table.path.rpartition("/shop.db")[0]
    settings = TableSourceSettings(CatalogSettings(warehouse), ("shop.orders",), "me")
    source = TableSource(settings)
    source._opened["shop.orders"] = Upstream("shop.orders", clock.store, {})
    end = source.latest_offsets({}, Limit(rows=None))
    # Started again after its last batch: nothing moves the consumer.
    again = TableSource(settings)
    again._opened["shop.orders"] = source._opened["shop.orders"]
    again.latest_offsets(end, Limit(rows=None))
    return lambda: again.latest_offsets(end, Limit(rows=None))


@pytest.mark.parametrize("reader", [of_sql, of_spark, of_pipeline])
def test_an_idle_reader_writes_its_consumer_again_before_it_expires(
    clock: Clock, reader: Callable[[Clock], Poll]
) -> None:
    poll = reader(clock)
    position = clock.table.consumers["me"]
    written = [clock.after(HOUR // 10 + 1, poll) for _ in range(6)]
    assert written == [False, True] * 3
    assert clock.table.consumers == {"me": position}
    assert clock.after(HOUR * 2, poll)
    os.utime(clock.file, (clock.now / 1000, clock.now / 1000))
    assert expire_consumers(clock.store) == []


def test_a_loop_over_changes_writes_its_consumer_while_it_waits(clock: Clock) -> None:
    def later(_: float) -> None:
        clock.slept(0)
        clock.now += HOUR

    store = replace(clock.store, ambient=replace(clock.store.ambient, sleep=later))
    changes = Table(store).follow(from_snapshot=2, consumer_id="me")
    with pytest.raises(InterruptedError):
        next(iter(changes))
    assert clock.was_written()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counted = Counter[str]()

    def counting(name: str) -> None:
        plain = getattr(LocalStorage, name)

        def call(*args: object, **named: object) -> object:
            counted[name] += 1
            return plain(*args, **named)

        monkeypatch.setattr(LocalStorage, name, call)

    for name in ("read", "read_range", "size", "exists", "create", "write", "write_hint", "list", "walk", "delete"):
        counting(name)
    return counted


def test_an_idle_reader_makes_no_request_for_its_consumer(clock: Clock, requests: Counter[str]) -> None:
    place = ConsumerPlace(clock.store, "me")
    place.keep(2)
    requests.clear()
    for _ in range(100):
        place.keep(2)
        place.renew(2)
        clock.now += HOUR // 1000
    assert not requests
    clock.now += HOUR
    place.keep(2)
    assert requests["write"] == 1


@pytest.mark.parametrize("reader", [of_sql, of_spark, of_pipeline])
def test_the_idle_polls_of_a_reader_with_a_consumer_cost_what_they_cost_without(
    clock: Clock, reader: Callable[[Clock], Poll], requests: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = reader(clock)
    requests.clear()
    poll()
    with_consumer = Counter(requests)
    monkeypatch.setattr(ConsumerPlace, "keep", lambda *_: None)
    monkeypatch.setattr(ConsumerPlace, "renew", lambda *_: None)
    requests.clear()
    poll()
    assert with_consumer == requests


def test_an_expiration_time_that_is_set_meanwhile_is_found_in_an_hour(tmp_path: Path) -> None:
    clock = Clock(new_table(tmp_path))
    place = ConsumerPlace(clock.store, "me")
    place.keep(1)
    clock.table.refresh().store.evolve([SetOption("consumer.expiration-time", "2 h")], check_usable)
    assert [clock.after(HOUR // 2, lambda: place.keep(1)) for _ in range(4)] == [False, True, True, True]


def test_a_consumer_that_was_set_back_stays_there(clock: Clock) -> None:
    ConsumerPlace(clock.store, "me").keep(1)
    ConsumerPlace(clock.store, "me").renew(2)
    assert clock.table.consumers == {"me": 1}
