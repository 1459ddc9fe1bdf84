"""Dumps of the recorded logs: every event is at its place whether it states one or not, and none can go missing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from penstock.errors import SourceError
from penstock.ingest.mysql.binlog import segment as events
from penstock.ingest.mysql.binlog.event_stream import DumpRequest
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.errors import BinlogReset, ChecksumMismatch, LogGap
from penstock.ingest.mysql.position import LogPosition
from tests.unit.ingest.mysql.dumped import Event, decoded, dump, from_start, heartbeat, recorded, rotation, segments
from tests.unit.ingest.mysql.logs import batches, changes

MYSQL = ["mysql-plain", "mysql-compressed"]
OLD = ["mariadb-plain", "mariadb-compressed"]
NEW = ["mariadb-11.8-plain", "mariadb-11.8-compressed", "mariadb-11.8-nochecksum"]
IN_FILE_ONLY = {events.FORMAT_DESCRIPTION, events.ROTATE}


def has_checksum(name: str) -> bool:
    return "nochecksum" not in name


def places(found: list) -> list[tuple[int, int]]:
    return [pair for segment in found for pair in zip(segment.pos.tolist(), segment.kind.tolist(), strict=True)]


@pytest.mark.parametrize("log", MYSQL + OLD + NEW)
@pytest.mark.parametrize("at_once", [1, 3, 1 << 30])
def test_every_event_of_a_dump_has_its_position(log: str, at_once: int) -> None:
    found = list(segments(dump(log), from_start(log), at_once))
    wanted = [(event.pos, event.kind) for event in recorded(log) if event.kind not in IN_FILE_ONLY]
    assert places(found) == wanted
    last = recorded(log)[-1]
    assert found[-1].after == last.pos + len(last.raw)


@pytest.mark.parametrize("log", MYSQL + OLD + NEW)
def test_the_rows_of_a_dump_are_those_of_the_file(log: str) -> None:
    assert changes(decoded(segments(dump(log), from_start(log)))) == changes(batches(log, BinlogOptions()))


@pytest.mark.parametrize("log", ["mysql-plain", *OLD])
def test_zero_positions_are_ignored(log: str) -> None:
    """As MariaDB sends them since 11.4 for whatever goes through a transaction's cache."""
    cached = {events.TABLE_MAP, events.MARIADB_ANNOTATE, *range(23, 33), *range(165, 172)} - {events.HEARTBEAT}
    sent = [event.stating(0, checksum=True) if event.kind in cached else event for event in dump(log)]
    assert sum(event.stated == 0 for event in sent) > 50
    assert changes(decoded(segments(sent, from_start(log)))) == changes(batches(log, BinlogOptions()))


@pytest.mark.parametrize("log", MYSQL + OLD + NEW)
def test_a_missing_event_is_detected(log: str) -> None:
    sent = dump(log)
    last_stated = max(place for place, event in enumerate(sent) if event.stated)
    for missing in range(2, last_stated):
        with pytest.raises(LogGap) as caught:
            list(segments(sent[:missing] + sent[missing + 1 :], from_start(log)))
        assert caught.value.facts["file"] == f"{log}.000001"


@pytest.mark.parametrize("log", OLD + NEW)
def test_a_dump_without_the_annotations_is_refused(log: str) -> None:
    sent = [event for event in dump(log) if event.kind != events.MARIADB_ANNOTATE]
    with pytest.raises(LogGap, match="binlog events are missing"):
        list(segments(sent, from_start(log)))


@pytest.mark.parametrize("log", MYSQL + NEW)
def test_a_repeated_event_is_refused(log: str) -> None:
    sent = dump(log)
    with pytest.raises(LogGap):
        list(segments([*sent[:40], sent[39], *sent[40:]], from_start(log)))


@pytest.mark.parametrize("log", ["mysql-plain", "mariadb-plain", *NEW])
def test_a_dump_that_starts_within_a_transaction(log: str) -> None:
    """The server repeats the file's format without a position, and heartbeats come in between."""
    whole = dump(log)
    rows = [place for place, event in enumerate(whole) if event.kind in events.ROWS | events.COMPRESSED]
    for first in rows[:: len(rows) // 8]:
        begin = whole[first].pos
        description = whole[1].stating(0, checksum=True)
        beat = [heartbeat(f"{log}.000001", 7)] if has_checksum(log) else []
        sent = [rotation(f"{log}.000001", begin), description, whole[first], *beat, *whole[first + 1 :]]
        request = DumpRequest(LogPosition(f"{log}.000001", begin), 1)
        wanted = [(event.pos, event.kind) for event in whole[first:] if event.kind not in IN_FILE_ONLY]
        assert places(list(segments(sent, request, at_once=5))) == wanted


@pytest.mark.parametrize("log", MYSQL + OLD + NEW)
def test_a_dump_from_a_gtid_set_may_leave_out_whole_transactions_only(log: str) -> None:
    whole = dump(log)
    starts = [place for place, event in enumerate(whole) if event.kind in events.TRANSACTION_STARTS]
    request = from_start(log, by_gtid=True)
    for before, after in ((starts[0], starts[4]), (starts[9], starts[10]), (starts[3], starts[-1])):
        sent = whole[:before] + whole[after:]
        wanted = [(event.pos, event.kind) for event in sent[1:] if event.kind not in IN_FILE_ONLY]
        assert places(list(segments(sent, request, at_once=7))) == wanted
    inside = next(place for place in range(starts[5], len(whole)) if whole[place].kind not in events.TRANSACTION_STARTS)
    if log != "mysql-compressed":  # there a transaction is one event, and the next transaction may follow anything
        with pytest.raises(LogGap):
            list(segments(whole[:inside] + whole[inside + 1 :], request))


def test_the_end_may_be_within_a_transaction() -> None:
    log = "mariadb-11.8-plain"
    whole = dump(log)
    rows = [event for event in whole if event.kind in events.ROWS]
    until = rows[len(rows) // 2].pos
    found = list(segments(whole, from_start(log, until=until), at_once=2))
    wanted = [(event.pos, event.kind) for event in whole[1:] if event.kind not in IN_FILE_ONLY and event.pos < until]
    assert places(found) == wanted


def test_an_event_of_another_size_than_its_packet_is_refused() -> None:
    sent = dump("mariadb-11.8-plain")
    sent[12] = Event(sent[12].raw + b"x", sent[12].pos)
    with pytest.raises(ChecksumMismatch, match="differ in size") as caught:
        list(segments(sent, from_start("mariadb-11.8-plain")))
    assert caught.value.retryable


@pytest.mark.parametrize("log", MYSQL + OLD + NEW[:2])
def test_each_changed_bit_of_an_event_that_is_no_row_is_an_error_that_may_pass(log: str) -> None:
    """Also of those that name the file and its format: a wrong end of a file would stay in the checkpoint."""
    sent, dice = [*dump(log), rotation(f"{log}.000002", 4)], random.Random(log)
    for place in (0, 1, 2, len(sent) // 2, len(sent) - 1):
        raw = sent[place].raw
        bits = range(8 * len(raw))
        for bit in bits if len(raw) < 60 else dice.sample(bits, 100):
            changed = bytearray(raw)
            changed[bit // 8] ^= 1 << bit % 8
            damaged = [*sent[:place], replace(sent[place], raw=bytes(changed)), *sent[place + 1 :]]
            failed, found = _tried(damaged, from_start(log))
            assert failed is None or failed.retryable, (place, bit, failed)
            # The other fields of events that a server creates for the dump are not read.
            assert failed or places(found) == places(list(segments(sent, from_start(log)))), (place, bit)
            assert {segment.file for segment in found} <= {f"{log}.000001"}


def _tried(sent: list[Event], request: DumpRequest) -> tuple[SourceError | None, list[events.Segment]]:
    try:
        return None, list(segments(sent, request))
    except SourceError as error:
        return error, []


@pytest.mark.parametrize("log", ["mysql-plain", "mariadb-plain"])
def test_a_file_that_was_begun_again_is_not_the_file_of_the_position(log: str) -> None:
    begun = int.from_bytes(recorded(log)[0].raw[:4], "little")
    request = from_start(log)
    same = replace(request, start=replace(request.start, begun=begun))
    assert {segment.begun for segment in segments(dump(log), same)} == {begun}
    other = replace(request, start=replace(request.start, begun=begun - 1))
    with pytest.raises(BinlogReset, match="begun at another time") as caught:
        list(segments(dump(log), other))
    assert caught.value.facts["begun_before"] != caught.value.facts["begun_now"]
    # By GTIDs the server finds the place: the file of the position may be of another server.
    assert list(segments(dump(log), replace(other, by_gtid=True)))
