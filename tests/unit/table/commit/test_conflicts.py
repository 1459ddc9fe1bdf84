"""Compactions that meet another job's: what has to be dropped is dropped, and nothing is doubled or comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import CommitConflict
from penstock.table.buckets.layout import Layout
from penstock.table.commit.committer import CommittedSnapshots, Committer
from penstock.table.commit.conflicts import check_levels
from penstock.table.handle import Table
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.operations.bucket_compaction import BucketCompaction
from penstock.table.operations.compact import _messages
from penstock.table.operations.executor import OwnProcess
from penstock.table.operations.selection import Selection
from penstock.table.values.binary_row import decode_row, encode_row
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

COLUMNS = [("id", "INT NOT NULL"), ("v", "INT")]
MANY = 5_000  # so many that a writer's compaction leaves the upper level alone
VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true"}


def keyed(folder: Path, options: Mapping[str, str]) -> Table:
    return new_table(folder, COLUMNS, options={"bucket": "1", **options})


def write(table: Table, *values: tuple[int, int]) -> None:
    with table.writer() as writer:
        writer.write(rows(table, *values))
        writer.commit()


def full_compaction(table: Table) -> list[CommitMessage]:
    return list(_messages(BucketCompaction.of(table.store, None), Selection(), OwnProcess()))


def land(table: Table, messages: Sequence[CommitMessage]) -> CommittedSnapshots:
    return Committer(table.store, "compactor").commit(messages)


def levels(table: Table) -> list[int]:
    return sorted(entry.file.level for entry in live_entries(table.store, table.snapshots[-1]))


@pytest.mark.parametrize(
    "options",
    [{}, {"merge-engine": "partial-update"}, {"changelog-producer": "lookup"}],
    ids=["deduplicate", "partial-update", "lookup"],
)
def test_a_compaction_is_dropped_if_its_inputs_have_new_deletion_vectors(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = keyed(tmp_path, {**VECTORS, **options})
    write(table, *((number, 0) for number in range(MANY)))
    table.compact()
    write(table, *((number, 1) for number in range(1, 300)))
    assert len(levels(table)) == 2
    late = full_compaction(table)
    write(table, (2, 2), (3_000, 2))
    done = land(table, late)
    assert done.lost_compaction is not None
    assert "marked as deleted" in done.lost_compaction.message
    assert done.snapshots == ()
    found = dict(content(table))
    assert len(found) == len(content(table)) == MANY
    assert (found[2], found[3_000], found[5]) == (2, 2, 1)
    check_invariants(table)


def test_compact_repeats_a_compaction_lost_to_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = keyed(tmp_path, VECTORS)
    write(table, *((number, 0) for number in range(MANY)))
    write(table, *((number, 1) for number in range(1, 300)))
    real, late = Committer.commit, [True]

    def commit(self: Committer, *given: object, **named: object) -> CommittedSnapshots:
        if late.pop() if late else False:
            write(table, (2, 2))
        return real(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Committer, "commit", commit)
    table.compact()
    assert len(levels(table)) == 1
    assert dict(content(table))[2] == 2
    assert len(content(table)) == MANY
    check_invariants(table)


def test_a_deletion_vector_of_a_compacted_file_is_not_committed(tmp_path: Path) -> None:
    """The bucket has no vectors before or after the full compaction: only the file that is gone tells the conflict."""
    table = keyed(tmp_path, VECTORS)
    write(table, *((number, 0) for number in range(MANY)))
    table.compact()
    # The top file written anew: same rows, another name, as a full compaction after an option changed makes it.
    [upper] = live_entries(table.store, table.snapshots[-1])
    again = _rewritten_top(table)
    with table.writer() as writer:
        writer.write(rows(table, (2, 2)))
        messages = writer.prepare()
        [index] = messages[0].compact_index_changes
        assert [vector.data_file for vector in index.vector_ranges or ()] == [upper.file.name]
        assert land(table, [again]).lost_compaction is None
        done = Committer(table.store, "etl").commit(messages)
        writer.forget()
    assert done.lost_compaction is not None
    assert "compacted away" in done.lost_compaction.message
    assert index_entries(table.store, table.snapshots[-1]) == []
    table.compact()
    assert dict(content(table))[2] == 2
    assert len(content(table)) == MANY


def _rewritten_top(table: Table) -> CommitMessage:
    [entry] = live_entries(table.store, table.snapshots[-1])
    other = entry.file.name.replace("data-", "data-copy-")
    folder, storage = f"{table.path}/bucket-0", table.store.storage
    storage.write(f"{folder}/{other}", storage.read(f"{folder}/{entry.file.name}"))
    return CommitMessage(
        entry.partition,
        entry.bucket,
        entry.total_buckets,
        compact_before=(entry.file,),
        compact_after=(replace(entry.file, name=other),),
        base_snapshot=table.snapshots[-1].id,
    )


def test_a_compaction_does_not_need_its_base_snapshot(tmp_path: Path) -> None:
    table = keyed(tmp_path, {**VECTORS, "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    write(table, *((number, 0) for number in range(MANY)))
    write(table, *((number, 1) for number in range(1, 300)))
    late = full_compaction(table)
    table.analyze()
    table.expire_snapshots()
    assert table.snapshots[0].id > late[0].base_snapshot
    assert land(table, late).lost_compaction is None
    assert levels(table) == [5]
    assert len(content(table)) == MANY
    check_invariants(table)


def test_files_of_one_level_that_overlap_are_refused(tmp_path: Path) -> None:
    """Two compactions of different inputs that come out on one level: the second does not know the first."""
    table = keyed(tmp_path, {"write-only": "true"})
    write(table, (1, 0), (5, 0))
    first = full_compaction(table)
    write(table, (3, 1), (9, 1))
    second = [_without(full_compaction(table)[0], first[0])]
    assert land(table, first).lost_compaction is None
    done = land(table, second)
    assert done.lost_compaction is not None
    assert "overlap" in done.lost_compaction.message
    assert content(table) == [(1, 0), (3, 1), (5, 0), (9, 1)]
    check_invariants(table)


def _without(message: CommitMessage, other: CommitMessage) -> CommitMessage:
    names = {file.name for file in other.compact_before}
    return replace(message, compact_before=tuple(item for item in message.compact_before if item.name not in names))


@pytest.mark.parametrize(("least", "overlaps"), [(4, True), (5, True), (6, False)])
def test_key_ranges_that_touch_overlap(tmp_path: Path, least: int, overlaps: bool) -> None:
    table = keyed(tmp_path, {"write-only": "true"})
    write(table, (1, 0), (5, 0))
    land(table, full_compaction(table))
    [left] = live_entries(table.store, table.snapshots[-1])
    types = Layout.of(table.store.schema()).key_types
    keys = {"min_key": encode_row([least], types), "max_key": encode_row([9], types)}
    right = replace(left, file=replace(left.file, name="right", **keys))
    refused = pytest.raises(CommitConflict, match="overlap") if overlaps else contextlib.nullcontext()
    with refused:
        check_levels([left], [right], lambda key: decode_row(key, types), "t")


@pytest.mark.parametrize(
    "options",
    [{"merge-engine": "first-row"}, {**VECTORS, "merge-engine": "partial-update"}, {"changelog-producer": "lookup"}],
    ids=["first-row", "partial-update with vectors", "lookup"],
)
def test_a_compaction_with_lookups_in_overwritten_files_is_dropped(tmp_path: Path, options: dict[str, str]) -> None:
    """The compaction merges 6 with the row of 6 that it finds in a file which it leaves where it is."""
    table = keyed(tmp_path, options)
    write(table, *((number, 0) for number in range(MANY)))
    table.compact()
    with table.writer("late") as late:
        late.write(rows(table, (6, 1)))
        messages = late.prepare(1)
        with table.overwrite(partition={}) as overwrite:
            overwrite.write(rows(table, (1, 2)))
            overwrite.commit()
        late.forget()
        done = Committer(table.store, "late").commit(messages, 1)
    assert done.lost_compaction is not None
    assert "overwritten while it was compacted" in done.lost_compaction.message
    table.compact()
    assert sorted(content(table)) == [(1, 2), (6, 1)]
    check_invariants(table)
