"""Plans over the recorded logs: whatever the limits, reading all ranges of all plans is reading the log."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.ingest.mysql.binlog.log_plan import LogPlan, PlanLimits
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.plan import RangePlanner
from penstock.ingest.mysql.binlog.range_cutter import STARTS, BinlogRange
from penstock.ingest.mysql.binlog.segment import XID, Segment
from penstock.ingest.mysql.ddl.history import SchemaHistory
from penstock.ingest.mysql.ddl.statements import RenameTablesStatement, TruncateTableStatement
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.read_range import range_batches
from penstock.ingest.mysql.table_choice import EveryTable
from tests.binlog_files import file_segments
from tests.unit.ingest.mysql.logs import LOGS, NAMED, UNNAMED, batches, changes

few = settings(max_examples=settings().max_examples // 20)


def plan(log: str, start: LogPosition, limits: PlanLimits, history: SchemaHistory, block: int, **more) -> LogPlan:
    segments = file_segments(LOGS / f"{log}.000001", start.pos, block_bytes=block)
    return RangePlanner(start, limits, history, **more).plan(segments)


def read(log: str, part: BinlogRange, options: BinlogOptions, block: int = 1 << 20) -> list:
    part = pickle.loads(pickle.dumps(part))
    segments = file_segments(LOGS / f"{log}.000001", part.start, part.until, block_bytes=block)
    return list(range_batches(segments, part, options, block_bytes=block))


def all_plans(log: str, limits: PlanLimits, history: SchemaHistory, block: int, **more) -> list[LogPlan]:
    at, plans = LogPosition(f"{log}.000001", 4), []
    while True:
        plans.append(plan(log, at, limits, history, block, **more))
        if plans[-1].caught_up:
            return plans
        assert at.is_before(plans[-1].end)
        at = LogPosition.from_json(json.loads(json.dumps(plans[-1].end.to_json())))


@pytest.mark.slow
@pytest.mark.parametrize("log", NAMED)
@few
@given(
    range_bytes=st.sampled_from([30, 200, 1500, 10_000]),
    plan_bytes=st.sampled_from([1, 300, 4000, 1 << 30]),
    block=st.sampled_from([100, 700, 1 << 20]),
)
def test_the_ranges_of_all_plans_cover_the_log(log: str, range_bytes: int, plan_bytes: int, block: int) -> None:
    history = SchemaHistory(mariadb=log.startswith("mariadb"))
    plans = all_plans(log, PlanLimits(plan_bytes, range_bytes), history, block)
    ranges = [part for found in plans for part in found.ranges]
    found = [batch for part in ranges for batch in read(log, part, BinlogOptions(), block)]
    assert changes(found) == changes(batches(log, BinlogOptions()))
    assert all(item.start < other.start for item, other in pairwise(ranges))


@pytest.mark.parametrize("log", ["mysql-plain", "mariadb-plain"])
def test_a_plan_by_gtids_begins_where_the_server_does_in_a_file_of_the_same_name(log: str) -> None:
    history = SchemaHistory(mariadb=log.startswith("mariadb"))
    there = LogPosition(f"{log}.000001", 900)  # of another server
    found = list(file_segments(LOGS / f"{log}.000001", 4))
    whole = RangePlanner(LogPosition(f"{log}.000001", 4), PlanLimits(), history).plan(found)
    by_gtid = RangePlanner(there, PlanLimits(by_gtid=True), SchemaHistory(mariadb=history.mariadb)).plan(found)
    one, other = (
        changes([batch for part in plan.ranges for batch in read(log, part, BinlogOptions())])
        for plan in (whole, by_gtid)
    )
    assert one == other


@pytest.mark.slow
@pytest.mark.parametrize("log", NAMED)
@few
@given(
    chosen=st.integers(0, 1 << 30),
    range_bytes=st.sampled_from([30, 200, 1500]),
    plan_bytes=st.sampled_from([300, 4000, 1 << 30]),
    block=st.sampled_from([100, 700, 1 << 20]),
)
def test_the_ranges_have_all_changes_of_the_captured_tables(
    log: str, chosen: int, range_bytes: int, plan_bytes: int, block: int
) -> None:
    whole = changes(batches(log, BinlogOptions()))
    captured = {table for number, table in enumerate(sorted(whole)) if chosen >> number % 30 & 1}
    history = SchemaHistory(mariadb=log.startswith("mariadb"))
    limits = PlanLimits(plan_bytes, range_bytes)
    plans = all_plans(log, limits, history, block, includes=lambda _database, table: table in captured)
    found = changes(
        [batch for plan in plans for part in plan.ranges for batch in read(log, part, BinlogOptions(), block)]
    )
    assert {table: found.get(table) for table in captured} == {table: whole[table] for table in captured}


@pytest.mark.parametrize("log", ["mysql-plain", "mariadb-plain", "mariadb-compressed"])
def test_a_log_of_other_tables_is_in_no_range(log: str) -> None:
    plans = all_plans(log, PlanLimits(4000, 200), SchemaHistory(mariadb="mariadb" in log), 700)
    others = all_plans(
        log, PlanLimits(4000, 200), SchemaHistory(mariadb="mariadb" in log), 700, includes=lambda *_names: False
    )
    assert [one.end for one in others] == [plan.end for plan in plans]
    # A range that begins inside a transaction is read anyway.
    assert all(part.maps for one in others for part in one.ranges)
    assert sum(len(one.ranges) for one in others) < sum(len(plan.ranges) for plan in plans) / 10


@pytest.mark.parametrize("log", NAMED)
def test_a_plan_without_limits_is_one_range_and_ends_at_the_end(log: str) -> None:
    only = plan(log, LogPosition(f"{log}.000001", 4), PlanLimits(), SchemaHistory(mariadb="mariadb" in log), 1 << 20)
    assert only.caught_up
    assert len(only.ranges) == 1
    # The server wrote one more event, its own stop.
    assert only.end.pos == (LOGS / f"{log}.000001").stat().st_size
    assert only.end.gtid.count("-") >= 2 or "nogtid" in log


@pytest.mark.parametrize("log", NAMED)
def test_the_set_at_the_end_of_plans_in_steps_is_that_of_one_plan(log: str) -> None:
    mariadb = log.startswith("mariadb")
    whole = all_plans(log, PlanLimits(), SchemaHistory(mariadb=mariadb), 1 << 20)[-1].end
    steps = all_plans(log, PlanLimits(700, 300), SchemaHistory(mariadb=mariadb), 250)
    assert steps[-1].end.gtid == whole.gtid
    assert steps[-1].end.pos == whole.pos


@pytest.mark.parametrize("log", ["mysql-plain", "mariadb-plain"])
def test_a_range_within_a_transaction_has_table_maps_and_skips_read_rows(log: str) -> None:
    plans = all_plans(log, PlanLimits(60, 30), SchemaHistory(mariadb=log.startswith("mariadb")), 100)
    inside = [found for found in plans if found.end.skip_events]
    assert inside
    assert any(part.maps for found in plans for part in found.ranges)


@pytest.mark.slow
@pytest.mark.parametrize("log", ["mysql-plain", "mariadb-plain", "mariadb-11.8-plain"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_ranges_have_their_table_maps_at_any_end_of_a_block(log: str, count: int) -> None:
    """A block may end between a table map and its rows, or after the map of the next statement of the same table."""
    start, mariadb = LogPosition(f"{log}.000001", 4), log.startswith("mariadb")
    transaction = one_transaction(log)
    expected = changes(batches(log, BinlogOptions()))
    for first in range(1, count + 1):
        segments = in_blocks(transaction, first, count)
        ranges = RangePlanner(start, PlanLimits(1 << 30, 1), SchemaHistory(mariadb=mariadb)).plan(segments).ranges
        assert len(ranges) > 10
        assert changes([batch for part in ranges for batch in read(log, part, BinlogOptions())]) == expected


def one_transaction(log: str) -> Segment:
    """All statements of a log in one transaction: its own transactions are too small to be cut in many places."""
    (whole,) = file_segments(LOGS / f"{log}.000001")
    between = STARTS[whole.kind] | (whole.kind == XID)
    between[np.flatnonzero(between)[0]] = False
    return whole.chosen(~between)


def in_blocks(segment: Segment, first: int, count: int) -> Iterator[Segment]:
    """The events of a segment as blocks of `count` events, the first of them with `first` events."""
    for end in range(first, len(segment) + count, count):
        keep = np.arange(max(end - count, 0), min(end, len(segment)))
        after = int(segment.pos[end]) if end < len(segment) else segment.after
        yield replace(segment.chosen(keep), after=after)


@pytest.mark.parametrize("log", NAMED)
def test_ddl_is_planned_once_for_any_step_size(log: str) -> None:
    mariadb = log.startswith("mariadb")
    whole, steps = SchemaHistory(mariadb=mariadb), SchemaHistory(mariadb=mariadb)
    all_plans(log, PlanLimits(), whole, 1 << 20)
    all_plans(log, PlanLimits(900, 300), steps, 250)
    assert steps.versions == whole.versions


@pytest.mark.parametrize("log", UNNAMED)
def test_ranges_of_a_binlog_without_names_are_read_with_the_schema_history(log: str) -> None:
    history = SchemaHistory(mariadb=log.startswith("mariadb"))
    found = []
    at = LogPosition(f"{log}.000001", 4)
    while True:
        step = plan(log, at, PlanLimits(2000, 500), history, 1 << 20)
        part_of_history = history.part(EveryTable(), at, step.end)
        for part in step.ranges:
            found += read(log, part, BinlogOptions(definitions=part_of_history))
        if step.caught_up:
            break
        at = step.end
    assert changes(found) == changes(batches(UNNAMED[log], BinlogOptions()))


def test_a_barrier_gets_a_separate_plan() -> None:
    def barrier(statement: object) -> bool:
        return isinstance(statement, RenameTablesStatement | TruncateTableStatement)

    log = "mysql-plain"
    plans = all_plans(log, PlanLimits(), SchemaHistory(), 1 << 20, is_barrier=barrier)
    assert [[seen.change.kind for seen in found.barrier] for found in plans] == [[], ["rename"], [], ["truncate"], []]
    assert [bool(found.ranges) for found in plans] == [True, False, True, False, True]
    assert [found.at_barrier for found in plans] == [True, True, True, True, False]
    found = [batch for item in plans for part in item.ranges for batch in read(log, part, BinlogOptions())]
    assert changes(found) == changes(batches(log, BinlogOptions()))
    assert plans[1].end.gtid != plans[0].end.gtid


def test_a_plan_can_stop_at_a_position() -> None:
    log = "mysql-plain"
    first = plan(log, LogPosition(f"{log}.000001", 4), PlanLimits(9000, 500), SchemaHistory(), 1 << 20)
    again = plan(log, LogPosition(f"{log}.000001", 4), PlanLimits(until=first.end), SchemaHistory(), 1 << 20)
    assert again.end == first.end
    assert not again.caught_up


def test_transactions_read_before_are_skipped() -> None:
    log = "mysql-plain"
    start = LogPosition(f"{log}.000001", 4)
    first = plan(log, start, PlanLimits(9000, 500), SchemaHistory(), 1 << 20)
    rest = [
        batch
        for part in plan(log, first.end, PlanLimits(), SchemaHistory(), 1 << 20).ranges
        for batch in read(log, part, BinlogOptions())
    ]
    whole = BinlogRange(f"{log}.000001", 4, 1 << 30, known=first.end.gtid)
    assert changes(read(log, whole, BinlogOptions(), 300)) == changes(rest)
