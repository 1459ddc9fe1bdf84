"""The ranges of a batch of a server, planned without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.ingest.mysql.binlog.range_cutter import BinlogRange
from penstock.ingest.mysql.offsets import BatchContent
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.read_range import CHUNK, LOG
from penstock.ingest.mysql.source import MySqlSource
from tests.unit.ingest.mysql.test_offsets import CHUNK as ONE_CHUNK
from tests.unit.ingest.mysql.test_offsets import progress_of
from tests.unit.ingest.mysql.test_settings import settled


def test_changes_of_the_log_follow_the_rows_that_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are written in the order of the ranges: a row that was read before its change must not replace it."""
    monkeypatch.setattr(MySqlSource, "_known", lambda *_: {})
    batch = BatchContent((ONE_CHUNK,), (BinlogRange("binlog.000003", 157, 400),))
    log = LogPosition("binlog.000003", 400)
    end = replace(progress_of(), log=log, batch=batch)
    ranges = MySqlSource(settled(["shop.*"], {})).plan({}, end.to_json(), 2)
    assert [(CHUNK in range.start, LOG in range.start) for range in ranges] == [(True, False), (False, True)]
    assert [range.number for range in ranges] == [0, 1]
