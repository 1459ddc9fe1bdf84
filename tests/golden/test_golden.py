"""Ours reads every golden table as Java does: rows at each snapshot, tag and branch, changes, description, files."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.row_kinds import ROWKIND
from penstock.table.handle import Table
from penstock.table.read.scan import Scan
from penstock.table.read.splits import Split
from tests.golden.cases import Case, Incremental, case_names
from tests.golden.descriptions import described_files, described_indexes
from tests.golden.relations import Relation, difference

case_of = functools.cache(Case)
each_case = pytest.mark.parametrize("name", case_names())


def places(of: Callable[[Case], Iterable[Any]]) -> list[tuple[str, Any]]:
    return [(name, place) for name in case_names() for place in of(case_of(name))]


def opened(name: str) -> Table:
    return penstock.open_table(str(case_of(name).table))


def assert_same(expected: Relation, read: Callable[[], pa.Table], *, kinds: bool = False) -> None:
    if expected.refusal is not None:
        pytest.skip(f"Java itself refuses: {expected.refusal}")
    wrong = difference(expected, read(), kind_column=ROWKIND if kinds else None)
    assert wrong is None, wrong


@each_case
def test_latest_rows_are_those_java_reads(name: str) -> None:
    assert_same(case_of(name).latest, lambda: opened(name).scan().to_arrow())


@each_case
def test_rows_come_from_the_buckets_java_reads_them_from(name: str) -> None:
    expected, scan = case_of(name).latest, opened(name).scan()
    with_bucket = Relation(("_bucket", *expected.columns), ("INT", *expected.types), [], unordered=expected.unordered)
    if not expected.rows:
        assert scan.to_arrow().num_rows == 0
        return
    java = with_bucket.with_rows([[b, *r] for b, r in zip(expected.buckets or [], expected.rows, strict=True)], None)
    assert_same(java, lambda: pa.concat_tables([placed(scan, split) for split in scan.plan().splits]))


def placed(scan: Scan, split: Split) -> pa.Table:
    rows = pa.Table.from_batches(scan.read(split), scan.schema)
    return rows.add_column(0, "_bucket", pa.array([split.bucket] * rows.num_rows, pa.int32()))


@pytest.mark.parametrize(("name", "snapshot"), places(lambda case: case.snapshots))
def test_rows_of_a_snapshot_are_those_java_reads(name: str, snapshot: int) -> None:
    assert_same(case_of(name).snapshots[snapshot], lambda: opened(name).scan(snapshot=snapshot).to_arrow())


@pytest.mark.parametrize(("name", "tag"), places(lambda case: case.tags))
def test_rows_of_a_tag_are_those_java_reads(name: str, tag: str) -> None:
    assert_same(case_of(name).tags[tag], lambda: opened(name).scan(tag=tag).to_arrow())


@pytest.mark.parametrize(("name", "branch"), places(lambda case: case.branches))
def test_rows_of_a_branch_are_those_java_reads(name: str, branch: str) -> None:
    assert_same(case_of(name).branches[branch], lambda: opened(name).scan(branch=branch).to_arrow())


def numbered_changes(case: Case) -> range:
    return range(len(case.incrementals))


@pytest.mark.parametrize(("name", "place"), places(numbered_changes))
def test_changes_between_snapshots_are_those_java_reads(name: str, place: int) -> None:
    incremental = case_of(name).incrementals[place]
    options = {
        "incremental-between": f"{incremental.start},{incremental.end}",
        "incremental-between-scan-mode": incremental.mode,
    }

    def read() -> pa.Table:
        return opened(name).scan(options=options).to_arrow()

    if incremental.mode == "diff" and (expected := between_states(name, incremental)) is not None:
        assert_same(expected, lambda: read().drop_columns([ROWKIND]))
    else:
        assert_same(incremental.rows, read, kinds=True)


def between_states(name: str, incremental: Incremental) -> Relation | None:
    """The rows that Java reads at the end and not at the start. Its own difference has others beside: rows of files
    that a compaction rewrote, and rows that are not merged with older files. None where columns changed.
    """
    states = case_of(name).snapshots
    end, start = states.get(incremental.end), states.get(incremental.start)
    if (
        end is None
        or end.columns != incremental.rows.columns
        or (incremental.start and (start is None or start.types != end.types))
    ):
        return None
    gone = Counter(json.dumps(row) for row in start.rows) if start is not None else Counter()
    rows = []
    for row in end.rows:
        text = json.dumps(row)
        if gone[text]:
            gone[text] -= 1
        else:
            rows.append(row)
    return end.with_rows(rows, None)


@each_case
def test_stream_has_the_changes_java_streams(name: str) -> None:
    case = case_of(name)
    if case.stream is None:
        assert opened(name).snapshots == []
        return
    start, end = case.expected["stream"]["from"], case.expected["stream"]["to"]
    ours = {part.snapshot: part.rows for part in opened(name).follow(from_snapshot=start, until=end)}
    assert {change.snapshot for change in case.stream} == {found for found, rows in ours.items() if rows.num_rows}
    for change in case.stream:
        assert_same(change.rows, functools.partial(ours.__getitem__, change.snapshot), kinds=True)


@each_case
def test_description_equals_that_of_java(name: str) -> None:
    table, expected = opened(name), case_of(name).expected
    assert table.primary_keys == expected["primary_keys"]
    assert table.partition_keys == expected["partition_keys"]
    assert {key: value for key, value in table.options.items() if key != "path"} == expected["options"]
    # A null that pypaimon writes for no comment, Java reads as a word.
    assert table.comment == (None if expected["comment"] == "null" else expected["comment"])
    assert table.schema_id == expected["schema_id"]
    assert table.bucket_mode == expected["bucket_mode"]
    assert table.tags == expected["tags"]
    assert set(table.branches) == set(expected["branches"])
    assert table.consumers == expected["consumers"]
    assert [snapshot.id for snapshot in table.snapshots] == [snapshot["id"] for snapshot in expected["snapshots"]]


@each_case
def test_files_and_their_statistics_equal_those_of_java(name: str) -> None:
    table, expected = opened(name), case_of(name).expected
    by_name = {"files": described_files, "index_files": described_indexes}
    for kind, tell in by_name.items():
        ours = sorted(tell(table.store, table.latest_snapshot), key=lambda file: str(file["file"]))
        assert ours == sorted(expected[kind], key=lambda file: str(file["file"]))
