"""Write-only jobs that write one bucket at the same time: the order of their commits is the order of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.errors import StoreError
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.handle import Table
from tests.seeds import seeds
from tests.unit.table.tables import Columns, content, new_table, rows

WRITE_ONLY = {"bucket": "1", "write-only": "true"}
WIDE: Columns = [("id", "BIGINT NOT NULL"), ("left", "STRING"), ("right", "STRING"), ("number", "BIGINT")]


def jobs(table: Table, count: int = 2, **options: str) -> list[Any]:
    """Return writers of separate jobs that all begin now."""
    return [table.writer(commit_user=f"job-{number}", options=options or None) for number in range(count)]


def live_files(table: Table) -> list[Any]:
    return [file for split in table.scan().plan().splits for file in split.files]


def check_numbers_are_apart(table: Table) -> None:
    files = sorted(live_files(table), key=lambda file: file.min_sequence)
    assert all(left.max_sequence < right.min_sequence for left, right in pairwise(files))


def stored_files(table: Table) -> set[str]:
    return {file.name for file in Path(table.path).glob("bucket-*/*") if file.is_file()}


def test_the_later_commit_wins_in_any_order_of_writes(tmp_path: Path) -> None:
    table = new_table(tmp_path, WIDE, options=WRITE_ONLY)
    first, second = jobs(table)
    with first, second:
        second.write(rows(table, (1, "second", None, 1), (2, "second", None, 2)))
        first.write(rows(table, (1, "first", None, 1), (3, "first", None, 3)))
        first.write(rows(table, (1, "first again", None, 1)))
        first.commit(identifier=1)
        second.commit(identifier=1)
    expected = [(1, "second", None, 1), (2, "second", None, 2), (3, "first", None, 3)]
    assert content(table) == expected
    check_numbers_are_apart(table)
    assert stored_files(table) == {file.name for file in live_files(table)}
    table.compact(full=True)
    assert content(table) == expected


@pytest.mark.parametrize("producer", ["none", "input"])
def test_jobs_fill_different_columns_of_a_row(tmp_path: Path, producer: str) -> None:
    options = {**WRITE_ONLY, "merge-engine": "partial-update", "changelog-producer": producer}
    table = new_table(tmp_path, WIDE, options=options)
    left, right = jobs(table)
    for round_number in range(3):
        with left, right:
            left.write(rows(table, (1, f"left {round_number}", None, None)))
            right.write(rows(table, (1, None, f"right {round_number}", None)))
            left.commit(identifier=round_number)
            right.commit(identifier=round_number)
    assert content(table) == [(1, "left 2", "right 2", None)]
    check_numbers_are_apart(table)
    if producer == "input":
        assert table.changes(0, 6).num_rows == 6


def test_a_sequence_field_decides_before_the_order_of_commits(tmp_path: Path) -> None:
    table = new_table(tmp_path, WIDE, options={**WRITE_ONLY, "sequence.field": "number"})
    first, second = jobs(table)
    with first, second:
        first.write(rows(table, (1, "newer", None, 9), (2, "same", None, 5)))
        second.write(rows(table, (1, "older", None, 8), (2, "same, later", None, 5)))
        first.commit(identifier=1)
        second.commit(identifier=1)
    assert content(table) == [(1, "newer", None, 9), (2, "same, later", None, 5)]


def test_sums_of_several_jobs_add_up(tmp_path: Path) -> None:
    options = {**WRITE_ONLY, "merge-engine": "aggregation", "fields.number.aggregate-function": "sum"}
    table = new_table(tmp_path, WIDE, options=options)
    writers = jobs(table, 4)
    for number, writer in enumerate(writers):
        writer.write(rows(table, (1, None, None, 10**number)))
    for writer in writers:
        writer.commit(identifier=1)
    assert content(table) == [(1, None, None, 1111)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation", "fields.number.aggregate-function": "sum"},
        {"merge-engine": "first-row"},
        {"sequence.field": "number"},
        {"merge-engine": "partial-update", "fields.number.sequence-group": "left"},
        {"deletion-vectors.enabled": "true"},
        {"file.format": "avro"},
        {"file.format": "orc"},
    ],
    ids=lambda options: ",".join(f"{key}={value}" for key, value in options.items()) or "deduplicate",
)
@pytest.mark.parametrize("seed", seeds(4))
def test_interleaved_jobs_end_as_one_job_that_commits_in_their_order(
    tmp_path: Path, options: dict[str, str], seed: int
) -> None:
    random = Random(seed)
    shared = new_table(tmp_path / "shared", WIDE, options={**WRITE_ONLY, **options})
    alone = new_table(tmp_path / "alone", WIDE, options={**WRITE_ONLY, **options})
    writers, written = jobs(shared, 3), [[], [], []]
    committed: Sequence[int] = (0, 0, 0)
    for _ in range(25):
        job = random.randrange(3)
        if random.random() < 0.6 or not written[job]:
            values = (random.randrange(5), *(random.choice([None, f"{job}{random.random():.3}"]) for _ in range(2)))
            batch = rows(shared, (*values, random.choice([None, random.randrange(4)])))
            writers[job].write(batch)
            written[job].append(batch)
            continue
        with alone.writer(commit_user="alone") as serial:
            for batch in written[job]:
                serial.write(batch)
            serial.commit(identifier=sum(committed))
        writers[job].commit(identifier=committed[job])
        committed = [count + (number == job) for number, count in enumerate(committed)]
        written[job] = []
        if random.random() < 0.3:
            shared.compact(full=random.random() < 0.5)
    shared.compact(full=True)
    alone.compact(full=True)
    assert content(shared) == content(alone)


def test_jobs_of_a_table_that_is_not_write_only_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, WIDE, options={"bucket": "1"})
    first, second = jobs(table)
    with first, second:
        first.write(rows(table, (1, "first", None, 1)))
        second.write(rows(table, (1, "second", None, 1)))
        first.commit(identifier=1)
        with pytest.raises(ForeignWriter) as refused:
            second.commit(identifier=1)
    assert "write-only" in str(refused.value)


def test_a_writer_may_be_write_only_by_its_own_options(tmp_path: Path) -> None:
    table = new_table(tmp_path, WIDE, options={"bucket": "1"})
    first, second = jobs(table, **{"write-only": "true"})
    with first, second:
        first.write(rows(table, (1, "first", None, 1)))
        second.write(rows(table, (1, "second", None, 1)))
        first.commit(identifier=1)
        second.commit(identifier=1)
    assert content(table) == [(1, "second", None, 1)]


def test_jobs_that_assign_dynamic_buckets_to_new_keys_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, WIDE, options={**WRITE_ONLY, "bucket": "-1"})
    first, second = jobs(table)
    with first, second:
        first.write(rows(table, (1, "first", None, 1)))
        second.write(rows(table, (1, "second", None, 1)))
        first.commit(identifier=1)
        with pytest.raises(ForeignWriter):
            second.commit(identifier=1)
    assert content(table) == [(1, "first", None, 1)]
    assert stored_files(table) == {file.name for file in live_files(table)}


def test_a_partition_that_was_rescaled_meanwhile_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, WIDE, options=WRITE_ONLY)
    first, second = jobs(table)
    with first, second:
        first.write(rows(table, (1, "first", None, 1)))
        second.write(rows(table, (1, "second", None, 1)))
        first.commit(identifier=1)
        table.rescale(buckets=2)
        with pytest.raises(Exception, match="2") as refused:
            second.commit(identifier=1)
    assert isinstance(refused.value, Exception)
    assert content(table) == [(1, "first", None, 1)]


def test_rows_that_their_own_batch_replaced_count_as_numbers(tmp_path: Path) -> None:
    table = new_table(tmp_path, WIDE, options=WRITE_ONLY)
    first, second = jobs(table)
    with first, second:
        second.write(rows(table, *((2, "replaced", None, number) for number in range(50)), (2, "last", None, 0)))
        first.write(rows(table, (2, "first", None, 1), (3, "first", None, 1)))
        first.commit(identifier=1)
        second.commit(identifier=1)
    assert content(table) == [(2, "last", None, 0), (3, "first", None, 1)]
    check_numbers_are_apart(table)


def test_only_the_files_that_were_renumbered_are_replaced(tmp_path: Path) -> None:
    table = new_table(tmp_path, WIDE, options={**WRITE_ONLY, "bucket": "2"})
    first, second = jobs(table)
    keys = range(20)  # of both buckets
    with first, second:
        first.write(rows(table, (1, "first", None, 1)))
        second.write(rows(table, *((key, "second", None, key) for key in keys)))
        first.commit(identifier=1)
        second.commit(identifier=1)
    assert set(content(table)) == {(key, "second", None, key) for key in keys}
    assert stored_files(table) == {file.name for file in live_files(table)}


def test_a_renumbered_commit_without_a_reply_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, WIDE, options=WRITE_ONLY)
    first, second = jobs(table)
    second.write(rows(table, (1, "second", None, 1)))
    messages = second.prepare()
    first.write(rows(table, (1, "first", None, 1)))
    first.commit()
    commits, snapshots = type(table.store.commits), type(table.store.snapshots)
    put = commits.commit_snapshot

    def without_reply(self: Any, *given: Any) -> bool:
        put(self, *given)
        broken.setattr(snapshots, "latest", unreachable)
        raise OSError("the reply is lost")

    def unreachable(self: Any) -> None:
        raise OSError("the store is down")

    with monkeypatch.context() as broken:
        broken.setattr(commits, "commit_snapshot", without_reply)
        with pytest.raises(StoreError):
            second.commit_messages(messages)
    second.commit_messages(messages)
    assert content(table) == [(1, "second", None, 1)]
    assert len(table.snapshots) == 2
    assert stored_files(table) >= {file.name for file in live_files(table)}
