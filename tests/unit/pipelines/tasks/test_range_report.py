"""The report of a range, by table: everything recorded of a table can be forgotten or replaced at once."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.formats.change import BAD_VALUE, BadRecord, SourceSchema
from penstock.ingest.source import Range
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.batch_result import BatchResult
from penstock.pipelines.tasks.range_report import RangeReport, TableReport
from penstock.row_kinds import DELETE, INSERT

SCHEMA = SourceSchema("text", "shop", "orders", ())


def of_orders(rows: int) -> TableReport:
    report = TableReport(sources={("shop", "orders")}, dropped=1, nulled=2, inexact=5, partial=3)
    report.omitted, report.unfitted = ("note",), 4
    report.count(np.full(rows, INSERT, np.int8))
    report.see(np.array([5, 7, 6], np.int64))
    report.bad.add([BadRecord(9, BAD_VALUE, "no number", b"x")])
    report.drifts.append(SeenSchema("ods.orders", SCHEMA, (0, 9)))
    report.commented["shop", "orders"] = SeenSchema("ods.orders", SCHEMA, (0, 9))
    return report


def test_counts_of_a_forgotten_table_are_removed() -> None:
    report = RangeReport(Range(0, "orders/0", 0, 10), tables={"ods.orders": of_orders(2)})
    assert report.forget("ods.orders") == 1
    batch = BatchReport([report])
    assert not batch.passed_over, "values made null are counted for a table that is not written"
    assert (batch.rows, batch.newest, batch.sources, batch.drifts, batch.commented) == ({}, {}, {}, {}, {})
    assert batch.bad_count == 0
    assert report.newest is None
    assert report.forget("ods.orders") == 0


def test_rows_of_a_table_left_out_are_filtered_and_its_bad_records_kept() -> None:
    report = RangeReport(Range(0, "orders/0", 0, 10), tables={"ods.orders": of_orders(2)})
    report.leave_out("ods.orders")
    report.leave_out("ods.users")
    batch = BatchReport([report])
    assert batch.passed_over == {"rows.left.out": 6}
    assert (batch.drifts, batch.bad_count) == ({}, 1)


def test_a_replay_replaces_all_reports_of_its_tables() -> None:
    first = RangeReport(Range(0, "orders/0", 0, 10), tables={"ods.orders": of_orders(2), "ods.users": of_orders(1)})
    again = RangeReport(Range(0, "orders/0", 0, 10))
    again.table("ods.orders").count(np.array([INSERT, DELETE, DELETE], np.int8))
    result = BatchResult(reports=[first])
    result.replace(BatchResult(reports=[again]), {"ods.orders"})
    done = BatchReport(result.reports)
    assert done.rows == {"ods.orders": 3, "ods.users": 1}
    assert first.tables["ods.orders"].kinds == [1, 0, 0, 2]
    assert list(done.drifts) == ["ods.users"]
    assert done.newest == {"ods.users": 7}
    assert done.passed_over == {
        "append.deletes.dropped": 1,
        "values.nulled": 2,
        "values.inexact": 5,
        "updates.without.columns": 3,
    }


@pytest.mark.parametrize("times", [[], [-1, -1]])
def test_rows_of_a_source_snapshot_have_no_event_time(times: list[int]) -> None:
    report = TableReport()
    report.see(np.array(times, np.int64))
    assert report.newest is None
