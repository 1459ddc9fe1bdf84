"""Two jobs that write to the same keys: the one that commits later is refused, or both are right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.errors import CommitConflict, StoreError
from penstock.table.buckets.bucket_state import TableState
from penstock.table.commit.committer import Committer
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.commit.foreign_writers import check_not_overwritten
from penstock.table.dynamic_buckets.assigner import Assigner
from penstock.table.errors import HistoryExpired
from penstock.table.handle import Table
from penstock.table.maintenance.rollback import rollback_to
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.operations.write import TableWriter
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

Row = tuple[object, ...]
KEYED = [("id", "INT NOT NULL"), ("v", "INT")]
PARTITIONED = [("p", "INT NOT NULL"), ("id", "INT NOT NULL"), ("v", "INT")]
SHORT_HISTORY = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}


def keyed(folder: Path, options: Mapping[str, str]) -> Table:
    return new_table(folder, KEYED, options={"bucket": "1", **options})


def partitioned(folder: Path) -> Table:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}
    return new_table(folder, PARTITIONED, keys=("p", "id"), partitions=("p",), options=options)


def write(table: Table, *values: Row) -> None:
    with table.writer() as writer:
        writer.write(rows(table, *values))
        writer.commit()


def second_task(table: Table) -> TableWriter:
    """A writer that opens other buckets for new keys than one that runs alone does."""
    writer = table.writer(commit_user="pipeline")
    writer._routes.assigner = Assigner(writer.store, writer.layout, writer._state, 1, 2)
    return writer


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"deletion-vectors.enabled": "true"},
        {"changelog-producer": "lookup"},
        {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    ],
)
def test_rows_of_others_between_sequence_numbers_of_a_writer_are_detected(
    tmp_path: Path, options: dict[str, str]
) -> None:
    """The first rows of the batch are replaced by its last one: its files begin at a later number than it did."""
    table = keyed(tmp_path, options)
    write(table, *((number, 0) for number in range(30)))
    with table.writer(commit_user="pipeline") as writer:
        writer.write(rows(table, (2, 1), (2, 2), *((number, 1) for number in range(3, 90)), (2, 3)))
        messages = writer.prepare(0)
        assert messages[0].new_files[0].min_sequence > 30
        write(table, (2, 100))
        with pytest.raises(ForeignWriter):
            writer.commit_messages(messages, 0)
    assert (2, 100) in content(table)
    assert len(content(table)) == 30
    check_invariants(table)


def test_a_writer_that_prepares_twice_is_not_foreign_to_itself(tmp_path: Path) -> None:
    table = keyed(tmp_path, {"write-only": "true"})
    with table.writer(commit_user="pipeline") as writer:
        writer.write(rows(table, (1, 1)))
        first = writer.prepare(0)
        writer.write(rows(table, (1, 2)))
        second = writer.prepare(1)
        writer.commit_messages(first, 0)
        writer.commit_messages(second, 1)
    assert content(table) == [(1, 2)]


def test_a_writer_whose_base_snapshot_has_expired_is_refused(tmp_path: Path) -> None:
    table = keyed(tmp_path, {"write-only": "true", **SHORT_HISTORY})
    write(table, (1, 0))
    with table.writer(commit_user="pipeline") as writer:
        writer.write(rows(table, (1, 111)))
        messages = writer.prepare(0)
        for value in (221, 222):
            write(table, (1, value))
        table.analyze()
        table.expire_snapshots()
        assert len(table.snapshots) == 1
        with pytest.raises(HistoryExpired, match="have expired") as refused:
            writer.commit_messages(messages, 0)
    assert refused.value.facts["work_began_at_snapshot"] == 1
    assert "snapshot.time-retained" in str(refused.value.hint)
    assert content(table) == [(1, 222)]
    check_invariants(table)


def test_a_commit_without_rows_needs_no_history(tmp_path: Path) -> None:
    table = keyed(tmp_path, SHORT_HISTORY)
    for value in range(3):
        write(table, (1, value))
    assert table.snapshots[0].id > 1
    done = Committer(table.store, "pipeline").commit((), 1, force_empty=True)
    assert len(done.snapshots) == 1


def test_a_writer_is_refused_after_a_rollback_of_its_table(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    write(table, (1, 1, 0))
    write(table, (1, 2, 0))
    with table.writer(commit_user="pipeline") as writer:
        writer.write(rows(table, (1, 2, 1)))
        rollback_to(table.store, 1)
        with pytest.raises(ForeignWriter, match="rolled back"):
            writer.commit(0)
    assert content(table) == [(1, 1, 0)]


@pytest.mark.parametrize("bucket", ["1", "-1"])
@pytest.mark.parametrize("later", [1, 2])
def test_a_rollback_is_noticed_when_others_have_used_the_snapshot_ids_again(
    tmp_path: Path, bucket: str, later: int
) -> None:
    """Pipelines commit messages of tasks, which have no writer that knows its snapshot."""
    options = {"bucket": bucket, "snapshot.num-retained.min": "10"}
    table = new_table(tmp_path, PARTITIONED, keys=("p", "id"), partitions=("p",), options=options)
    write(table, (1, 1, 0))
    write(table, (1, 2, 0))
    begun = table.snapshots[-1].id
    with table.writer(commit_user="pipeline") as writer:
        writer.write(rows(table, (1, 2, 1)))
        messages = writer.prepare(0)
        rollback_to(table.store, begun - 1)
        for value in range(later):
            write(table, (1, 3, value))
        with pytest.raises(ForeignWriter, match="rolled back") as refused:
            Committer(table.store, "pipeline").commit(messages, 0)
    assert refused.value.facts["work_began_at_snapshot"] == begun
    assert content(table) == [(1, 1, 0), (1, 3, later - 1)]
    check_invariants(table)


def test_a_compaction_is_dropped_when_its_table_was_rolled_back(tmp_path: Path) -> None:
    table = keyed(tmp_path, {"write-only": "true"})
    write(table, (1, 0))
    write(table, (1, 1))
    partition = live_entries(table.store, table.snapshots[-1])[0].partition
    state = TableState(table.store, table.snapshots[-1]).bucket(partition, 0)
    message = CommitMessage(
        partition, 0, 1, compact_before=state.files[:1], base_snapshot=state.snapshot, base_mark=state.mark
    )
    rollback_to(table.store, 1)
    write(table, (1, 2))
    with pytest.raises(CommitConflict, match="rolled back"):
        check_not_overwritten(table.store, [message], table.store.snapshots.latest(), None)


def test_two_jobs_do_not_assign_two_dynamic_buckets_to_one_key(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    with second_task(table) as writer:
        writer.write(rows(table, (1, 7, 1)))
        write(table, (1, 7, 2))
        with pytest.raises(ForeignWriter, match="dynamic buckets"):
            writer.commit(0)
    assert content(table) == [(1, 7, 2)]


@pytest.mark.parametrize("meanwhile", ["truncate", "overwrite"])
def test_known_keys_are_not_written_to_a_bucket_whose_index_was_dropped(tmp_path: Path, meanwhile: str) -> None:
    table = partitioned(tmp_path)
    write(table, *((1, number, 0) for number in range(6)))
    with table.writer(commit_user="pipeline") as writer:
        writer.write(rows(table, (1, 5, 1)))
        if meanwhile == "truncate":
            table.truncate()
        else:
            with table.overwrite(partition={}) as other:
                other.write(rows(table, (1, 5, 2)))
        with pytest.raises(CommitConflict):
            writer.commit(0)
    write(table, (1, 5, 3))
    assert content(table) == [(1, 5, 3)]
    check_invariants(table)


def test_jobs_with_known_keys_of_different_buckets_do_not_conflict(tmp_path: Path) -> None:
    table = partitioned(tmp_path)
    write(table, *((1, number, 0) for number in range(4)))
    with table.writer(commit_user="pipeline") as writer:
        writer.write(rows(table, (1, 0, 1), (2, 0, 1)))
        write(table, (1, 9, 9))  # opens a third bucket
        writer.commit(0)
    assert content(table) == [(1, 0, 1), (1, 1, 0), (1, 2, 0), (1, 3, 0), (1, 9, 9), (2, 0, 1)]
    check_invariants(table)


def test_a_commit_with_a_reused_snapshot_id_is_not_reported_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The put succeeds, as the id is free again; the snapshot would lie before all that readers see."""
    table = keyed(tmp_path, {"write-only": "true"})
    write(table, (1, 0))
    real, others = SnapshotFiles.create, [True]

    def create(self: SnapshotFiles, snapshot: Snapshot) -> bool:
        if others.pop() if others else False:
            for number in (2, 3):
                write(table, (number, 0))
            expire_snapshots(table.store, retain_max=1, retain_min=1, protect_users=0)
            assert [item.id for item in table.snapshots] == [3]
        return real(self, snapshot)

    monkeypatch.setattr(SnapshotFiles, "create", create)
    with table.writer(commit_user="pipeline") as writer:
        writer.write(rows(table, (9, 9)))
        with pytest.raises(StoreError):
            writer.commit(1)
    assert [item.id for item in table.snapshots] == [3]
    with table.writer(commit_user="pipeline") as writer:
        writer.write(rows(table, (9, 9)))
        assert len(writer.commit(1)) == 1
    assert content(table) == [(1, 0), (2, 0), (3, 0), (9, 9)]
    check_invariants(table)
