"""Ranges that are read together yield the rows and counts of the same ranges read one by one."""

from __future__ import annotations

import itertools
import json
import pickle
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from penstock.errors import ConfigError, PenstockError
from penstock.formats import decode
from penstock.formats.change import DecodeOptions, DecodeResult, Messages
from penstock.ingest import decoded_source, joined_ranges
from penstock.ingest.files.source import FilesSource
from penstock.ingest.joined_ranges import JoinedRanges, RangeShape, joinable
from penstock.ingest.source import Range
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.small_batches import copied, read_rows
from penstock.pipelines.job import build
from penstock.pipelines.tasks import joined_reader
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.range_report import RangeReport
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, unpacked
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.table.values.arrow_types import arrow_schema
from tests.here import Log, driver_of, run
from tests.shop import Shop, change, insert

TABLES = ("orders", "users", "goods")


@dataclass
class Shapes(dict[str, RangeShape]):
    """What is known of places: `shape`, unless it is None, also of files that nobody has read."""

    shape: RangeShape | None = None

    def get(self, place: str, default: Any = None) -> Any:
        return self.shape or super().get(place, default)


@pytest.fixture(autouse=True)
def shapes(monkeypatch: pytest.MonkeyPatch) -> Shapes:
    found = Shapes()
    monkeypatch.setattr(joined_ranges, "_shapes", found)
    monkeypatch.setattr(joined_reader, "_pauses", {})
    return found


def messages(seed: int, count: int, first: int) -> list[str]:
    chance = random.Random(seed)
    found = []
    for number in range(first, first + count):
        table, key = chance.choice(TABLES), chance.randrange(20)
        kind = chance.choice(("INSERT", "UPDATE", "DELETE"))
        row = {"id": key, "name": f"n{number}", "q": number}
        found.append(change(kind, table, row, old=[{"name": "before"}] if kind == "UPDATE" else None))
    return found


def prepared(
    folder: Path, parts: Sequence[Sequence[str]], writers: int = 2, **sections: Any
) -> tuple[BatchDriver, TaskInput]:
    """Tables that exist, and a batch of these files."""
    shop = Shop(folder)
    first = [insert(table, {"id": 0, "name": "x", "q": 1}) for table in TABLES]
    if "no-primary-key" in sections.get("sink", {}):
        first, *parts = ([_keyless(text) for text in part] for part in (first, *parts))
    shop.put("0", *first)
    spec = shop.spec(**sections)
    run(spec)
    for number, part in enumerate(parts, 1):
        shop.put(f"{number}", *part)
    job = build.ready(spec)
    log = Log.at(Path(job.checkpoint) / "log.json")
    driver = driver_of(job, log, 1, writers, None)
    start = log.ends[-1]
    [task] = driver.reader.inputs(start, driver.reader.latest_offsets(start, job.trigger.limit, None))
    return driver, task


def _keyless(text: str) -> str:
    return text.replace('"pkNames": ["id"]', '"pkNames": []')


def read(driver: BatchDriver, task: TaskInput) -> tuple[dict[Any, list[Any]], list[RangeReport] | str]:
    """Return the rows of each bucket in their order, and the reports or the error."""
    reader = copied(driver.reader)
    try:
        table = pa.Table.from_batches(list(reader.read(task))).sort_by(
            [("range", "ascending"), ("position", "ascending")]
        )
    except PenstockError as error:
        return {}, str(error)
    rows: dict[Any, list[Any]] = {}
    reports: list[RangeReport] = []
    for blob in table.to_pylist():
        if blob["table"] == NO_TABLE:
            report = pickle.loads(blob["blob"])
            if isinstance(report, PenstockError):
                return {}, str(report)
            reports.append(report)
            continue
        schema = reader.warehouse.layout(blob["table"], blob["schema_id"]).schema
        batch, kinds = unpacked(blob["blob"], arrow_schema(schema.fields))
        place = blob["table"], blob["partition"], blob["bucket"], blob["writer"]
        rows.setdefault(place, []).extend(zip(kinds.tolist(), batch.to_pylist(), strict=True))
    return rows, sorted(reports, key=lambda report: report.range.number)


def facts(reports: list[RangeReport] | str) -> Any:
    if isinstance(reports, str):
        return reports
    whole = BatchReport(reports)
    kinds: dict[str, list[int]] = {}
    for table, report in whole.tables:
        kinds[table] = [a + b for a, b in zip(kinds.get(table, [0] * 4), report.kinds, strict=True)]
    return (
        [(report.range, report.span, report.messages, report.bytes, report.newest) for report in reports],
        (whole.rows, whole.sources, whole.newest, whole.passed_over, whole.drifts, whole.keyless, kinds),
        [(place, table, bad.count, bad.shown) for place, table, bad in whole.bad if bad.count],
        [truncation for report in reports for truncation in report.truncations],
    )


ODD = {
    "nothing": "",
    "damaged": '{"type": "INSERT", "data',
    "skipped": json.dumps({"type": "QUERY", "database": "shop", "table": "orders", "isDdl": False, "data": None}),
    "truncated": json.dumps({"type": "TRUNCATE", "database": "shop", "table": "users", "isDdl": True, "data": None}),
    "new column": insert("orders", {"id": 5, "name": "x", "q": 1, "more": "y"}),
    "new table": insert("others", {"id": 5, "name": "x", "q": 1}),
    "does not fit": insert("goods", {"id": 5, "name": "x", "q": "many"}),
    "lacks a column": change("UPDATE", "goods", {"id": 5, "name": "x"}, old=[{"name": "y"}]),
}


RULES: dict[str, dict[str, Any]] = {
    "transform": {"transform": [{"source-table": "shop.*", "projection": "*, q * 2 as twice", "filter": "q % 3 <> 0"}]},
    "expectation": {"expect": [{"source-table": "shop.*", "condition": "q % 5 <> 0", "action": "drop"}]},
    "metadata": {"sink": {"metadata-columns": ["offset", "partition"]}},
    "history": {"sink": {"deletes": "history"}},
    "dynamic buckets": {"sink": {"table-options": {"bucket": "-1"}}},
    "keyless": {"sink": {"no-primary-key": "append", "table-options": {"bucket": "-1"}}},
    "keyless with buckets": {
        "sink": {"no-primary-key": "append", "table-options": {"bucket": "3", "bucket-key": "id"}},
    },
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("action", ["fail", "skip"])
def test_joined_ranges_yield_what_each_of_them_yields(tmp_path: Path, shapes: Shapes, odd: str, action: str) -> None:
    parts = [messages(seed, 40, 100 * seed) for seed in range(4)]
    parts[2].insert(20, ODD[odd] or parts[2][20])
    driver, task = prepared(tmp_path, parts, errors={"bad-record": action})
    assert len(task.ranges) == 4
    alone = read(driver, task)
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    together = read(driver, task)
    assert facts(together[1]) == facts(alone[1])
    assert together[0] == alone[0]
    joins = odd in {"nothing", "skipped", "lacks a column"}
    assert [pause.next for pause in joined_reader._pauses.values()] == [1 if joins else 2]


@pytest.mark.parametrize("part", RULES)
def test_joined_ranges_yield_the_same_with_the_rules_of_a_pipeline(tmp_path: Path, shapes: Shapes, part: str) -> None:
    """Also to the same writers: of a task that is run again, some writers may have the first blobs."""
    driver, task = prepared(tmp_path, [messages(seed, 40, 100 * seed) for seed in range(4)], 3, **RULES[part])
    alone = read(driver, task)
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    together = read(driver, task)
    assert facts(together[1]) == facts(alone[1])
    assert together[0] == alone[0]
    assert not isinstance(alone[1], str)
    assert sum(map(len, alone[0].values())) > 60
    assert [pause.next for pause in joined_reader._pauses.values()] == ([] if part in {"metadata", "history"} else [1])


def test_the_old_row_of_one_range_does_not_meet_the_new_row_of_another(tmp_path: Path, shapes: Shapes) -> None:
    """An update of aliyun-json is two messages of one partition."""
    shop, form = Shop(tmp_path), {"source": {"value.format": "aliyun-json"}, "sink": {"deletes": "soft"}}
    shop.put("0", aliyun("INSERT", "t", 1), aliyun("INSERT", "u", 1))
    run(shop.spec(**form))
    shop.put("1", aliyun("UPDATE_BEFORE", "t", 1), aliyun("INSERT", "u", 2))
    shop.put("2", aliyun("UPDATE_AFTER", "t", 7), aliyun("INSERT", "u", 3))
    shapes.shape = RangeShape(0.001, 1.0, 1.0)
    run(shop.spec(**form))
    # Of a key that had moved, the old row would be left, marked as deleted.
    assert shop.ids("t") == [7]
    assert shop.ids("u") == [1, 2, 3]


def aliyun(operation: str, table: str, number: int) -> str:
    source = {"dbType": "MySQL", "dbName": "d", "tableName": table}
    schema = {"dataColumn": [{"name": "id", "type": "LONG"}], "primaryKey": ["id"], "source": source}
    side = "before" if operation == "UPDATE_BEFORE" else "after"
    return json.dumps({"schema": schema, "payload": {"op": operation, side: {"dataColumn": {"id": number}}}})


def test_a_failure_of_a_transform_is_that_of_its_range(tmp_path: Path, shapes: Shapes) -> None:
    parts = [messages(seed, 40, 100 * seed) for seed in range(4)]
    parts[2].insert(20, insert("goods", {"id": 5, "name": "x", "q": 2**31 - 1}))
    rule = {"source-table": "shop.*", "projection": f"*, q * {2**33} as far"}
    driver, task = prepared(tmp_path, parts, transform=[rule])
    alone = read(driver, task)
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    together = read(driver, task)
    assert "overflow" in str(alone[1])
    assert together == alone


def test_counts_are_of_one_run_of_a_task_that_spark_runs_again(tmp_path: Path, shapes: Shapes) -> None:
    """Some writers have the output of its first run, in which other ranges were joined."""
    driver, task = prepared(tmp_path, [messages(seed, 40, 100 * seed) for seed in range(4)], 3)
    tables = [pa.Table.from_batches(list(copied(driver.reader).read(task)))]
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    tables.append(pa.Table.from_batches(list(copied(driver.reader).read(task))))
    for runs in itertools.product((0, 1), repeat=3):
        found = [
            row for writer, run in enumerate(runs) for row in tables[run].to_pylist() if row["writer"] % 3 == writer
        ]
        reports = [pickle.loads(row["blob"]) for row in found if row["table"] == NO_TABLE]
        counted = BatchReport(sorted(reports, key=lambda report: report.range.number))
        assert sum(counted.rows.values()) == sum(row["rows"] for row in found if row["table"] != NO_TABLE)
        assert [range.messages for range in counted.ranges] == [40, 40, 40, 40]


def test_ranges_without_messages_are_read_together(tmp_path: Path, shapes: Shapes) -> None:
    driver, task = prepared(tmp_path, [["one"], ["two"]])
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    with patch.object(FilesSource, "read", lambda *_: iter(())):
        rows, reports = read(driver, task)
    assert not rows
    assert [(report.range.number, report.messages) for report in reports] == [(0, 0), (1, 0)]


def test_an_error_of_decoding_is_reported_by_the_range_that_has_it(tmp_path: Path, shapes: Shapes) -> None:
    """It replaces the report, so that Spark does not run the task again."""

    def refused(name: str, found: Messages, options: DecodeOptions) -> DecodeResult:
        raise ConfigError(f"{len(found)} messages are refused")

    driver, task = prepared(tmp_path, [messages(seed, 3 + seed, 100 * seed) for seed in range(2)])
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    with patch.object(joined_ranges, "decode", refused), patch.object(decoded_source, "decode", refused):
        [*_, last] = copied(driver.reader).read(task)
        assert str(pickle.loads(last["blob"][0].as_py())).startswith("4 messages are refused")


def test_messages_that_are_far_more_than_expected_are_not_in_memory_together(
    tmp_path: Path, shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, task = prepared(tmp_path, [messages(seed, 40, 100 * seed) for seed in range(4)])
    alone = read(driver, task)
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    monkeypatch.setattr(joined_ranges, "MOST_ROWS", 50)
    together: list[int] = []
    monkeypatch.setattr(JoinedRanges, "of", lambda ranges, _: together.append(len(ranges)))
    assert read(driver, task)[0] == alone[0]
    assert not together


def test_a_process_that_reads_a_batch_alone_joins_more(
    tmp_path: Path, shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, task = prepared(tmp_path, [messages(seed, 40, 100 * seed) for seed in range(4)])
    weight = sum(range_.weight for range_ in task.ranges)
    shapes.shape = RangeShape(0.001, 1.5 * joined_ranges.MOST_BYTES / weight, 10.0)
    together: list[int] = []
    of = JoinedRanges.of
    monkeypatch.setattr(JoinedRanges, "of", lambda ranges, parts: (together.append(len(ranges)), of(ranges, parts))[1])
    rows = read(driver, task)[0]
    assert together == [2, 2]
    read_rows(copied(driver.reader), [task])
    assert together == [2, 2, 4]
    assert rows


def test_the_time_of_joined_ranges_is_counted(tmp_path: Path, shapes: Shapes) -> None:
    driver, task = prepared(tmp_path, [messages(seed, 40, 100 * seed) for seed in range(4)])
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    with patch.object(joined_ranges, "decode", lambda *found: (time.sleep(0.05), decode(*found))[1]):
        reports = read(driver, task)[1]
    assert sum(report.seconds["decode"] for report in reports if isinstance(report, RangeReport)) > 0.05


def test_after_readings_without_effect_ranges_are_read_one_by_one_for_a_while(tmp_path: Path, shapes: Shapes) -> None:
    parts = [[*messages(seed, 10, 100 * seed), ODD["damaged"]] for seed in range(2)]
    driver, task = prepared(tmp_path, parts, errors={"bad-record": "skip"})
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    left = []
    for _ in range(6):
        read(driver, task)
        left += [pause.left for pause in joined_reader._pauses.values()]
    assert left == [2, 1, 3, 2, 1, 5]


def test_a_place_with_bad_records_does_not_keep_others_from_being_joined(tmp_path: Path, shapes: Shapes) -> None:
    parts = [[*messages(seed, 10, 100 * seed), *([ODD["damaged"]] if seed == 1 else [])] for seed in range(4)]
    driver, task = prepared(tmp_path, parts, errors={"bad-record": "skip"})
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    halves = [replace(task, ranges=task.ranges[:2]), replace(task, ranges=task.ranges[2:])]
    for _ in range(8):
        for half in halves:
            read(driver, half)
    assert [pause.next for pause in joined_reader._pauses.values()] == [8, 1]


def test_an_update_that_moves_between_ranges_keeps_its_order(tmp_path: Path, shapes: Shapes) -> None:
    """The later range has the newer row, however the rows are grouped."""
    parts = [[insert("orders", {"id": 7, "name": f"range {number}", "q": number})] for number in range(3)]
    driver, task = prepared(tmp_path, parts)
    shapes.shape = RangeShape(0.001, 1.0, 10.0)
    [(_, rows)] = read(driver, task)[0].items()
    assert [row["name"] for _, row in rows] == ["range 0", "range 1", "range 2"]


def ranges(*numbers: int, weight: int = 10) -> list[Range]:
    return [Range(number, f"topic/{number}", 0, weight, weight) for number in numbers]


def numbers(groups: Any) -> list[list[int]]:
    return [[range_.number for range_ in group] for group in groups]


def test_ranges_are_joined_that_are_small_and_follow_each_other(
    shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert numbers(joinable(ranges(0, 1, 2))) == [[0], [1], [2]]
    shapes.shape = RangeShape(1.0, 100.0, 5.0)
    assert numbers(joinable(ranges(0, 1, 2, 5, 6, 8))) == [[0, 1, 2], [5, 6], [8]]
    monkeypatch.setattr(joined_ranges, "MOST_ROWS", 35)
    assert numbers(joinable(ranges(0, 1, 2, 3))) == [[0, 1], [2, 3]]
    assert numbers(joinable(ranges(0, 1, 2, 3), 1000)) == [[0], [1], [2], [3]]
    shapes.shape = RangeShape(1.0, 100.0, 5000.0)
    assert numbers(joinable(ranges(0, 1))) == [[0], [1]]


@pytest.mark.parametrize("known", [1.0, 0.0])
def test_a_range_at_whose_place_no_message_was_is_read_too(shapes: Shapes, known: float) -> None:
    """A range of nothing but markers of transactions has no messages, and the next one at its place may have some."""
    one, two = ranges(0, 1)
    found = {one.place: RangeShape(known, 100 * known, 5.0), two.place: RangeShape(0.0, 0.0, 0.0)}
    joined_ranges._shapes.update(found)
    assert numbers(joinable([one, two])) == [[0, 1]]


def test_what_is_known_of_places_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place that was read longest ago is forgotten first: files come and go, and partitions of topics stay."""
    monkeypatch.setattr(joined_ranges, "_shapes", {})
    monkeypatch.setattr(joined_ranges, "PLACES_KEPT", 3)
    for range_ in ranges(0, 1, 2, 0, 3):
        joined_ranges.remember(range_, 20, 2000, 4)
    assert joined_ranges._shapes == dict.fromkeys(["topic/2", "topic/0", "topic/3"], RangeShape(2.0, 200.0, 5.0))


def test_what_is_known_of_places_may_be_forgotten_while_ranges_are_read(
    shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined_ranges, "PLACES_KEPT", 3)
    some = ranges(0, 1, 3, 4)
    shapes.update({range_.place: RangeShape(1.0, 100.0, 5.0) for range_ in some})
    found = []
    for group in joinable(some):
        found += [range_.number for range_ in group]
        for range_ in group:
            joined_ranges.remember(range_, 20, 2000, 4)
    assert found == [0, 1, 3, 4]
