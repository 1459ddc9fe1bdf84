"""Entries that are damaged at the broker, in the reading of a range. The client is a stand-in that drops them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pulsar
import pytest

from penstock.errors import SourceError
from penstock.ingest.pulsar import partition_reader, read
from penstock.ingest.pulsar.partition_reader import EntryChunk
from penstock.ingest.pulsar.position import Position
from penstock.ingest.pulsar.read import read_range
from penstock.ingest.pulsar.settings import PulsarSettings
from penstock.ingest.source import Range

NAME = "persistent://public/default/t"


@dataclass
class Entry:
    number: int

    def message_id(self) -> int:
        return self.number

    def length(self) -> int:
        return 1


class Broker:
    """Entries 0 to 4 of ledger 7. `damaged` has how many further readings drop an entry.

    `silences` has how often a reading, by its number, receives nothing for a moment before its first entry.
    """

    def __init__(self, damaged: dict[int, int], silences: dict[int, int] | None = None) -> None:
        self.damaged, self.silences, self.opened = damaged, silences or {}, 0

    def reader(self, _properties: object, _place: object, first: Position) -> Broker:
        self.opened += 1
        self.left = [number for number in range(5) if (7, number) >= first.place[:2]]
        return self

    def read_next(self, _millis: int) -> Entry:
        if self.silences.get(self.opened, 0):
            self.silences[self.opened] -= 1
            raise pulsar.Timeout("no message")
        while self.left:
            number = self.left.pop(0)
            if self.damaged.get(number, 0) == 0:
                return Entry(number)
            self.damaged[number] -= 1
            line = f"[{NAME}, reader-5d1, 4] Discarding corrupted message at 7:{number}"
            logging.getLogger("penstock.pulsar").error(line)
        raise pulsar.Timeout("no message")

    def close(self) -> None:
        pass


def entries_read(monkeypatch: pytest.MonkeyPatch, broker: Broker, *, accept_gap: bool) -> list[int]:
    monkeypatch.setattr(partition_reader, "reader", broker.reader)
    monkeypatch.setattr(partition_reader, "position_and_size", lambda number: (Position(7, number, 0), 1))
    monkeypatch.setattr(partition_reader, "partition_name", lambda _: NAME)
    monkeypatch.setattr(read, "_fetched", lambda _place, chunk, *_: chunk)
    settings: Any = PulsarSettings({"pulsar.client.serviceUrl": "pulsar://h:1"}, ("t",), accept_gap=accept_gap)
    range_ = Range(0, f"{NAME}/-1", str(Position.before(7, 0)), str(Position(7, 4, 0)), 1)
    chunks: list[EntryChunk] = list(read_range(settings, range_, patience=5.0))  # type: ignore[arg-type]
    return [entry for chunk in chunks for _, entry, _ in chunk.entries]


@pytest.mark.parametrize("accept_gap", [False, True])
def test_an_entry_that_is_damaged_at_the_broker_is_passed_over_if_a_gap_is_accepted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, accept_gap: bool
) -> None:
    broker = Broker({2: 99})
    if not accept_gap:
        with pytest.raises(SourceError, match="arrived damaged") as caught:
            entries_read(monkeypatch, broker, accept_gap=False)
        assert "--accept-gap" in (caught.value.hint or "")
        return
    assert entries_read(monkeypatch, broker, accept_gap=True) == [0, 1, 3, 4]
    assert "event=gap_accepted" in caplog.text
    assert "entry=7:2" in caplog.text


def test_the_last_entry_of_a_range_may_be_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert entries_read(monkeypatch, Broker({4: 99}), accept_gap=True) == [0, 1, 2, 3]


def test_a_slow_broker_does_not_end_a_range_whose_last_entry_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker({4: 99}, silences={4: 2})
    assert entries_read(monkeypatch, broker, accept_gap=True) == [0, 1, 2, 3]
    assert broker.silences == {4: 0}


def test_an_entry_that_a_network_damaged_is_read_again_before_a_gap_is_accepted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker({1: 1, 3: 2})
    assert entries_read(monkeypatch, broker, accept_gap=True) == [0, 1, 2, 3, 4]
    assert broker.opened == 3
    assert "event=gap_accepted" not in caplog.text
