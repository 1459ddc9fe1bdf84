"""Recorded logs with XA transactions: one committed, one rolled back, and one whose commit is in the second file."""

from __future__ import annotations

import pytest

from penstock.ingest.mysql.binlog.decode import Decoder
from penstock.ingest.mysql.binlog.log_plan import LogPlan, PlanLimits
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.plan import RangePlanner
from penstock.ingest.mysql.ddl.history import SchemaHistory
from penstock.ingest.mysql.errors import UnsupportedBinlogEvent
from penstock.ingest.mysql.position import LogPosition
from tests.binlog_files import file_segments
from tests.unit.ingest.mysql.logs import LOGS

RECORDED = ["mysql-xa", "mariadb-xa", "mariadb-11.8-xa"]


def planned(file: str, prepared: tuple[str, ...] | None) -> LogPlan:
    planner = RangePlanner(
        LogPosition(file, 4), PlanLimits(prepared=prepared), SchemaHistory(mariadb=file.startswith("mariadb"))
    )
    return planner.plan(file_segments(LOGS / file))


def rows(file: str) -> list[dict[str, object]]:
    decoder = Decoder(BinlogOptions())
    return [
        row
        for segment in file_segments(LOGS / file)
        for batch in decoder.decode(segment)
        for row in batch.rows.to_pylist()
    ]


@pytest.mark.parametrize("log", RECORDED)
def test_rows_of_a_prepared_transaction_are_refused(log: str) -> None:
    with pytest.raises(UnsupportedBinlogEvent, match="XA transaction"):
        rows(f"{log}.000001")


@pytest.mark.parametrize("log", RECORDED)
def test_a_plan_knows_what_is_prepared_at_its_end_and_no_later(log: str) -> None:
    first = planned(f"{log}.000001", ())
    assert first.prepared is not None
    (left,) = first.prepared
    assert first.lone_commits == ()
    second = planned(f"{log}.000002", first.prepared)
    assert (second.prepared, second.lone_commits) == ((), ())
    assert rows(f"{log}.000002") == [{"id": 2}]
    # If the first file of the log is purged, only the commit is left, without its rows.
    (alone,) = planned(f"{log}.000002", ()).lone_commits
    assert alone.name == left
    assert alone.file == f"{log}.000002"
