"""Damaged events of recorded logs with corrected checksums: they are read, or refused with file and position."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.log_plan import PlanLimits
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.plan import RangePlanner
from penstock.ingest.mysql.binlog.segment import CHECKSUM, HEADER
from penstock.ingest.mysql.binlog.unpack import unpacked
from penstock.ingest.mysql.ddl.history import SchemaHistory
from penstock.ingest.mysql.position import LogPosition
from tests.binlog_files import file_segments
from tests.fuzz.mutations import changed, changed_in_place, held, seeds
from tests.unit.ingest.mysql.logs import LOGS

# Events are damaged here with their checksums put right, so only logs with checksums are of use.
FILES = sorted(path.name for path in LOGS.iterdir() if "nochecksum" not in path.name)


@cache
def _events(name: str) -> tuple[bytes, tuple[bytes, ...]]:
    raw, at, events = (LOGS / name).read_bytes(), 4, []
    while at < len(raw):
        size = int.from_bytes(raw[at + 9 : at + 13], "little")
        events.append(raw[at : at + size])
        at += size
    return raw[:4], tuple(events)


def _damaged(name: str, chance: random.Random) -> bytes:
    """A short piece of the log, with one event's body changed, and its length and checksum made to agree."""
    magic, events = _events(name)
    begin = chance.randrange(1, len(events))
    piece = list(events[begin : begin + 60])
    place = chance.randrange(min(len(piece), 40))
    piece[place] = _with_body(piece[place], chance)
    out = magic + events[0]
    for event in piece:
        header = bytearray(event[:HEADER])
        header[13:17] = (len(out) + len(event)).to_bytes(4, "little")
        whole = bytes(header) + event[HEADER:-CHECKSUM]
        out += whole + zlib.crc32(whole).to_bytes(CHECKSUM, "little")
    return out


def _with_body(event: bytes, chance: random.Random) -> bytes:
    body = event[HEADER:-CHECKSUM]
    body = changed_in_place(body, chance) if chance.random() < 0.6 and body else changed(body, chance)
    header = bytearray(event[:HEADER])
    header[9:13] = (HEADER + len(body) + CHECKSUM).to_bytes(4, "little")
    return bytes(header) + body + event[-CHECKSUM:]


def _read(path: Path, *, mariadb: bool) -> None:
    decoder = Decoder(BinlogOptions(partial_images=True))
    for segment in file_segments(path):
        for plain in unpacked(segment, 1 << 20):
            for batch in decoder.decode(plain):
                batch.rows.validate(full=True)


def _plan(path: Path, *, mariadb: bool) -> None:
    start = LogPosition(path.name, 4)
    planner = RangePlanner(start, PlanLimits(range_bytes=1 << 12), SchemaHistory(mariadb=mariadb))
    planner.plan(file_segments(path))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("read", [_read, _plan])
def test_a_damaged_event_is_read_or_refused_with_its_place(name, read, request, tmp_path) -> None:
    ended: Counter[str] = Counter()
    path = tmp_path / "log.000001"
    np.seterr(all="ignore")
    for chance in seeds(request, 150, 5000):
        path.write_bytes(case := _damaged(name, chance))
        ended[held(lambda: read(path, mariadb="mariadb" in name), case, "file", "pos", size=len(case))] += 1
    # Without names of columns in the log, rows are refused wherever they stand.
    assert ended["well"] > min(10, ended.total() // 15) or ended.total() < 15 or "minimal" in name or "nometa" in name
