"""Samples of recorded logs: the same log is recognized, however it is read; a log with another event is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat

import pytest

from penstock.ingest.mysql.binlog import log_sample
from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.log_sample import MOST_BYTES, compared, continued, sample_before
from penstock.ingest.mysql.binlog.segment import Segment
from penstock.ingest.mysql.errors import BinlogReset, ChecksumMismatch, LogGap, UnsupportedBinlogEvent
from penstock.ingest.mysql.position import LogPosition, LogSample
from penstock.ingest.mysql.server.address import ServerAddress
from tests.unit.ingest.mysql.dumped import Event, dump, from_start, rotation, segments

LOGS = ["mysql-plain", "mysql-compressed", "mariadb-plain", "mariadb-11.8-plain"]


def whole(log: str) -> Segment:
    (found,) = segments(dump(log), from_start(log))
    return found


def dumped_from(log: str, first: int, at_once: int, until: int | None = None) -> list[Segment]:
    """What a server sends from a position inside the file on."""
    sent = dump(log)
    begin = next(place for place, event in enumerate(sent) if event.pos == first and event.kind != events.ROTATE)
    heads = [rotation(f"{log}.000001", first), sent[1].stating(0, checksum=True)]
    request = DumpRequest(LogPosition(f"{log}.000001", first), 1, until)
    return list(segments([*heads, *sent[begin:]], request, at_once))


def compare(found: list[Segment], sample: LogSample) -> list[int]:
    return [int(pos) for segment in compared(found, "f", sample) for pos in segment.pos]


@pytest.mark.parametrize("log", LOGS)
def test_a_sample_is_the_same_with_any_number_of_packets_at_once(log: str) -> None:
    read = whole(log)
    for place in range(1, len(read), 7):
        sample = sample_before(read, int(read.pos[place]))
        assert sample is not None
        assert sample.last - sample.first <= MOST_BYTES
        for at_once in (1, 5, 1 << 30):
            found = dumped_from(log, sample.first, at_once)
            assert compare(found, sample) == [int(pos) for segment in found for pos in segment.pos]


@pytest.mark.parametrize("log", LOGS)
def test_a_sample_ends_at_the_position_and_begins_at_a_given_one(log: str) -> None:
    read = whole(log)
    for place in range(2, len(read)):
        sample = sample_before(read, int(read.pos[place]), int(read.pos[place - 1]))
        if int(read.end[place - 1] - read.start[place - 1]) <= MOST_BYTES:
            assert sample is not None
            assert (sample.first, sample.last) == (int(read.pos[place - 1]), int(read.pos[place]))
    assert sample_before(read, int(read.pos[0])) is None
    assert sample_before(read, int(read.pos[2]), int(read.pos[2])) is None


def test_a_large_event_is_not_in_a_sample() -> None:
    read = whole("mysql-plain")
    place = len(read) // 2
    end = read.end.copy()
    end[place] = read.start[place] + MOST_BYTES + 1
    pos = read.pos.copy()
    pos[place + 1 :] += int(end[place] - read.end[place])
    large = replace(read, end=end, pos=pos, after=read.after + int(end[place] - read.end[place]))
    sample = sample_before(large, int(pos[place + 1]))
    assert sample is not None
    assert sample.last == int(pos[place])
    after = sample_before(large, int(pos[place + 3]))
    assert after is not None
    assert after.first == int(pos[place + 1])


def test_events_before_transactions_that_were_left_out_are_not_in_a_sample() -> None:
    log = "mysql-plain"
    sent = dump(log)
    starts = [place for place, event in enumerate(sent) if event.kind in events.TRANSACTION_STARTS]
    (found,) = segments(sent[: starts[3]] + sent[starts[5] :], from_start(log, by_gtid=True))
    sample = sample_before(found, sent[starts[6]].pos)
    assert sample is not None
    assert sample.first == sent[starts[5]].pos
    # The position is one after transactions that were left out: nothing is known of the bytes before it.
    before = sample_before(found, sent[starts[5]].pos)
    assert before is None or before.last < sent[starts[3]].pos


@pytest.mark.parametrize("log", LOGS)
def test_another_time_server_or_content_of_an_event_is_noticed(log: str) -> None:
    read = whole(log)
    sample = sample_before(read, int(read.pos[-1]))
    assert sample is not None
    place = len(read) - 2
    for at in (0, 5, events.HEADER):
        raw = bytearray(read.raw)
        raw[int(read.start[place]) + at] ^= 1
        with pytest.raises(BinlogReset, match="other events") as caught:
            compare([replace(read, raw=raw)], sample)
        assert caught.value.exit_code == 4
    shorter = read.chosen(read.pos < sample.first)
    with pytest.raises(BinlogReset):
        compare([replace(shorter, after=sample.first)], sample)


def test_checksums_sizes_and_positions_do_not_belong_to_a_sample() -> None:
    """A server leaves them out for a reader that does not know them, or does not state them."""
    log = "mariadb-11.8-plain"
    read = whole(log)
    stated = [
        event if event.kind == events.ROTATE else event.stating(event.stated, checksum=True) for event in dump(log)
    ]
    silent = [stated[0], stated[1], *(_without_position(event) for event in stated[2:])]
    (found,) = segments(silent, from_start(log))
    sample = sample_before(read, read.after)
    assert sample is not None
    assert sample_before(found, found.after) == sample


def continued_log(
    log: str, dumps: list[Event] | Iterator[list[Event]], position: LogPosition, monkeypatch: pytest.MonkeyPatch
) -> list[Segment]:
    """The segments after a position of a server with this log, or that sends another one each time."""
    each = repeat(dumps) if isinstance(dumps, list) else dumps

    @contextmanager
    def dumping(_: object, request: DumpRequest) -> Iterator[Iterator[Segment]]:
        sent = next(each)
        begin = next(
            place for place, event in enumerate(sent) if event.pos == request.start.pos and event.kind != events.ROTATE
        )
        heads = [rotation(f"{log}.000001", request.start.pos), sent[1].stating(0, checksum=True)]
        yield segments([*heads, *sent[begin:]], request)

    monkeypatch.setattr(log_sample, "dumping", dumping)
    with continued(ServerAddress("h", 1, "u", "p"), DumpRequest(position, 1)) as found:
        return list(found)


def position_within(log: str, sent: list[Event], place: int) -> LogPosition:
    sample = sample_before(whole(log), sent[place].pos)
    assert sample is not None
    assert sample.last == sent[place].pos
    return LogPosition(f"{log}.000001", sent[place].pos, sample=sample)


@pytest.mark.parametrize("log", LOGS)
def test_an_unknown_or_missing_event_after_a_sample_is_not_another_log(
    log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = dump(log)
    position = position_within(log, sent, len(sent) // 2)
    assert continued_log(log, sent, position, monkeypatch)[0].pos[0] == position.pos
    later = len(sent) // 2 + 2
    with pytest.raises(UnsupportedBinlogEvent):
        continued_log(log, [*sent[:later], _of_unknown_kind(sent[later]), *sent[later + 1 :]], position, monkeypatch)
    with pytest.raises(LogGap):
        continued_log(log, [*sent[:later], *sent[later + 1 :]], position, monkeypatch)


@pytest.mark.parametrize("log", LOGS)
def test_an_event_of_a_sample_that_was_damaged_once_is_not_another_log(
    log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = dump(log)
    place = len(sent) // 2
    position = position_within(log, sent, place)
    event = sent[place - 1]
    damaged = replace(event, raw=event.raw[:-5] + bytes([event.raw[-5] ^ 1]) + event.raw[-4:])
    dumps = iter([[*sent[: place - 1], damaged, *sent[place:]], sent, sent])
    with pytest.raises(ChecksumMismatch) as caught:
        continued_log(log, dumps, position, monkeypatch)
    assert caught.value.retryable


@pytest.mark.parametrize("log", LOGS)
def test_a_sample_that_begins_within_an_event_of_the_log_is_of_another_one(
    log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = dump(log)
    position = position_within(log, sent, len(sent) // 2)
    assert position.sample is not None
    begin = next(place for place, event in enumerate(sent) if event.pos == position.sample.first and place)
    with pytest.raises(BinlogReset):
        continued_log(log, [*sent[:begin], _of_unknown_kind(sent[begin]), *sent[begin + 1 :]], position, monkeypatch)


def _of_unknown_kind(event: Event) -> Event:
    flags = b"\0\0"  # not to be ignored
    changed = replace(event, raw=event.raw[:4] + b"\xfa" + event.raw[5:17] + flags + event.raw[19:])
    return changed.stating(event.stated, checksum=True)


def _without_position(event: Event) -> Event:
    return event if event.kind in events.TRANSACTION_STARTS else event.stating(0, checksum=True)
