"""Compaction is a policy, not a place: inline or elsewhere it is one function, and it gives way where data does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import Layout
from penstock.table.compaction.bucket_compactor import BucketCompactor
from penstock.table.compaction.policy import Policy
from penstock.table.handle import Table
from penstock.table.meta.data_file import FileSource
from penstock.table.meta.entries import FileKind
from penstock.table.meta.live import delta_entries, live_entries
from penstock.table.meta.snapshot import CommitKind
from penstock.table.operations.compact import compact_table
from penstock.table.operations.selection import Selection
from penstock.table.options.table_options import TableOptions
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

LATE = 1 << 60
KINDS = {
    "plain": {},
    "lookup": {"changelog-producer": "lookup"},
    "full": {"changelog-producer": "full-compaction"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "first row": {"merge-engine": "first-row"},
}
AT_ONCE = ("lookup", "vectors", "first row")  # what readers see hangs on compaction


def table_of(folder: Path, kind: str, **more: str) -> Table:
    options = {"bucket": "2", "num-sorted-run.compaction-trigger": "3", **KINDS[kind]}
    return new_table(folder, options={**options, **{name.replace("_", "-"): value for name, value in more.items()}})


def add(table: Table, *ids: int, turn: int = 0) -> None:
    with table.writer("etl") as writer:
        writer.write(rows(table, *((number, f"{turn}", None) for number in ids)))
        writer.commit()


def levels(table: Table) -> Counter[int]:
    assert table.latest_snapshot is not None
    return Counter(entry.file.level for entry in live_entries(table.store, table.latest_snapshot))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_inline_and_dedicated_compaction_have_the_same_result(tmp_path: Path, kind: str) -> None:
    inline, apart = table_of(tmp_path / "inline", kind), table_of(tmp_path / "apart", kind, write_only="true")
    for turn in range(3):
        for table in (inline, apart):
            add(table, *range(turn, turn + 5), turn=turn)
        if kind in AT_ONCE or kind == "full":
            apart.compact(full=kind == "full")
    for table in (inline, apart):
        table.compact(full=True)
        check_invariants(table)
    assert content(inline) == content(apart)
    assert levels(inline) == levels(apart)
    if kind in {"lookup", "full"}:
        changes = [
            Counter(
                tuple(row.values())
                for snapshot in table.snapshots
                for row in table.changes(snapshot.id - 1, snapshot.id).to_pylist()
            )
            for table in (inline, apart)
        ]
        assert changes[0] == changes[1]


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_a_batch_are_in_its_append_snapshot_even_if_compacted(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path, kind)
    for turn in range(4):
        add(table, *range(8), turn=turn)
    appended = [item for item in table.snapshots if item.commit_kind is CommitKind.APPEND]
    assert [item.delta_record_count for item in appended] == [8] * 4
    for snapshot in appended:
        entries = delta_entries(table.store, snapshot)
        assert {(entry.kind, entry.file.level, entry.file.source) for entry in entries} == {
            (FileKind.ADD, 0, int(FileSource.APPEND))
        }
    assert any(item.commit_kind is CommitKind.COMPACT for item in table.snapshots)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_conflicting_compaction_is_dropped_and_the_rows_are_kept(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path, kind)
    for turn in range(2):
        add(table, *range(8), turn=turn)
    with table.writer("etl") as writer:
        writer.write(rows(table, *((number, "late", None) for number in range(4, 12))))
        messages = writer.prepare()
        assert any(message.compact_before for message in messages)
        table.compact(full=True, options={"compaction.force-rewrite-all-files": "true"})
        made = writer.commit_messages(messages)
        # Where rows show by compaction only, what was lost is done again at once; elsewhere the next batch of this
        # writer makes it good, in buckets that it does not write to itself.
        again = [CommitKind.COMPACT] if kind in AT_ONCE else []
        assert [snapshot.commit_kind for snapshot in made] == [CommitKind.APPEND, *again]
        assert (levels(table)[0] == 0) == (kind in AT_ONCE)
        writer.write(rows(table, (100, "next", None)))
        made = writer.commit()
        assert [snapshot.commit_kind for snapshot in made][:1] == [CommitKind.APPEND]
    if kind in AT_ONCE:
        assert levels(table)[0] == 0
    expected = "0" if kind == "first row" else "late"
    table.compact(full=True)
    found = {row[0]: row[1] for row in content(table)}
    assert len(found) == 13
    assert found[5] == expected
    assert found[100] == "next"
    check_invariants(table)
    assert table.remove_orphan_files(dry_run=True, older_than=LATE) == []


def test_a_dedicated_compaction_is_repeated_after_a_conflicting_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.table.operations import compact as compacting

    table = table_of(tmp_path, "plain", write_only="true")
    for turn in range(3):
        add(table, *range(4), turn=turn)
    plain, met = compacting._messages, []

    def with_another(*arguments: object) -> object:
        yield from plain(*arguments)  # type: ignore[arg-type]
        if not met:
            met.append(True)
            table.compact(full=True)
            add(table, 3, turn=9)

    monkeypatch.setattr(compacting, "_messages", with_another)
    table.compact(full=True)
    assert met
    assert {row[0]: row[1] for row in content(table)} == {0: "2", 1: "2", 2: "2", 3: "9"}
    check_invariants(table)
    assert table.remove_orphan_files(dry_run=True, older_than=LATE) == []


def test_a_bucket_with_too_many_runs_is_compacted_below_the_limit(tmp_path: Path) -> None:
    table = table_of(tmp_path, "plain", write_only="true")
    for turn in range(12):
        add(table, 1, turn=turn)
    assert levels(table)[0] == 12
    with table.writer("etl", options={"write-only": "false"}) as writer:
        writer.write(rows(table, (1, "last", None)))
        writer.commit()
    assert sum(levels(table).values()) <= 6  # the stop trigger: three more than the trigger
    assert content(table) == [(1, "last", None)]


def test_levels_have_separate_formats_and_compressions(tmp_path: Path) -> None:
    options = {"file.format.per.level": "0:avro,5:orc", "file.compression.per.level": "0:snappy,5:zstd"}
    table = new_table(tmp_path, options={"bucket": "1", "file.format": "parquet", "num-levels": "6", **options})
    for turn in range(4):
        add(table, *range(4), turn=turn)
    assert table.latest_snapshot is not None
    formats = {entry.file.format for entry in live_entries(table.store, table.latest_snapshot)}
    assert formats == {"avro"}
    before = content(table)
    table.compact(full=True)
    [entry] = live_entries(table.store, table.refresh().latest_snapshot)  # type: ignore[arg-type]
    assert (entry.file.level, entry.file.format) == (5, "orc")
    assert content(table) == before


def at(table: Table, millis: int) -> Table:
    return Table(replace(table.store, ambient=replace(table.store.ambient, now_millis=lambda: millis)))


def test_everything_is_compacted_once_per_interval(tmp_path: Path) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "9", "compaction.optimization-interval": "1 h"}
    table, hour = new_table(tmp_path, options=options), 3_600_000
    start = 1_700_000_000_000
    seen = []
    for turn, moment in enumerate((0, 1, hour, hour + 2, hour + 3)):
        add(at(table, start + moment), *range(4), turn=turn)
        seen.append(dict(levels(table)))
    # The first file is alone; the second meets it, and nothing was ever compacted; then an hour goes by.
    assert seen == [{0: 1}, {9: 1}, {0: 1, 9: 1}, {9: 1}, {0: 1, 9: 1}]


def test_gentle_lookups_leave_level_0_for_some_commits(tmp_path: Path) -> None:
    table = table_of(tmp_path, "lookup", **{"lookup-compact": "gentle", "lookup-compact.max-interval": "3"})
    seen = []
    for turn in range(6):
        with table.writer("etl", options={"num-sorted-run.compaction-trigger": "50"}) as writer:
            writer.write(rows(table, (1, f"{turn}", None)))
            writer.commit()
        seen.append(levels(table)[0])
    assert seen == [1, 2, 0, 1, 2, 0]
    changes = [row for snapshot in table.snapshots for row in table.changes(snapshot.id - 1, snapshot.id).to_pylist()]
    assert [(row["rowkind"], row["name"]) for row in changes] == [("+I", "2"), ("-U", "2"), ("+U", "5")]
    check_invariants(table)


def test_the_offpeak_ratio_applies_in_its_hours() -> None:
    hours = {
        "compaction.offpeak.start.hour": "22",
        "compaction.offpeak.end.hour": "6",
        "compaction.offpeak-ratio": "50",
    }
    ratios = {hour: Policy.of(TableOptions(hours), hour=hour).size_ratio for hour in (21, 22, 0, 5, 6)}
    assert ratios == {21: 1, 22: 51, 0: 51, 5: 51, 6: 1}
    assert Policy.of(TableOptions({**hours, "compaction.offpeak.start.hour": "2"}), hour=4).size_ratio == 51
    assert Policy.of(TableOptions({"compaction.offpeak-ratio": "50"}), hour=4).size_ratio == 1


def compactor_of(table: Table, target_bytes: int) -> BucketCompactor:
    entries = live_entries(table.store, table.snapshots[-1])
    sizes = {"target-file-size": f"{target_bytes} b", "source.split.open-file-cost": "1 b"}
    layout = Layout.of(replace(table.definition, options={**table.options, **sizes}))
    state = TableState(table.store, table.snapshots[-1]).bucket(entries[0].partition, entries[0].bucket)
    return BucketCompactor(BucketFiles(table.store, layout, entries[0].partition, entries[0].bucket), state)


def sizes(table: Table) -> list[int]:
    return sorted(entry.file.size for entry in live_entries(table.store, table.snapshots[-1]))


def appended(tmp_path: Path, *rows: int, **options: str) -> Table:
    """Return an append table without buckets, with one file per number of rows."""
    given = {"bucket": "-1", "write-only": "true", **options}
    table = new_table(tmp_path, [("id", "INT")], keys=(), options=given)
    for count in rows:
        with table.writer() as writer:
            # In this order the numbers do not compress well.
            writer.write(pa.table({"id": pa.array([id_ * 7919 % count for id_ in range(count)], pa.int32())}))
            writer.commit()
    return table


def test_small_files_are_due_before_many_large_ones(tmp_path: Path) -> None:
    """Java packs the files below 70 percent of the target size, and does not count the others."""
    table = appended(tmp_path, 10, 20_000, 20_000, 20_000, 20_000, 10, 10)
    compactor = compactor_of(table, int(sizes(table)[-1] / 1.1))
    assert compactor.is_due()
    assert sorted(file.size for file in compactor.compact_due().before) == sizes(table)[:3]


def test_medium_files_do_not_make_small_ones_due(tmp_path: Path) -> None:
    """Files of 70 to 100 percent of the target size counted as small, and no compaction rewrote them."""
    table = appended(tmp_path, 10, 10, 20_000, 20_000, 20_000)
    compactor = compactor_of(table, int(sizes(table)[-1] / 0.8))
    assert not compactor.is_due()
    assert compactor.compact_due().before == ()


@pytest.mark.parametrize(("deleted", "is_due"), [(10, False), (6_000, True)])
def test_a_large_file_is_due_for_many_deleted_rows(tmp_path: Path, deleted: int, is_due: bool) -> None:
    table = appended(tmp_path, 20_000, **{"deletion-vectors.enabled": "true"})
    table.delete(f"id < {deleted}")
    compactor = compactor_of(table, int(sizes(table)[-1] / 1.1))
    assert compactor.is_due() == is_due
    assert len(compactor.compact_due().before) == is_due


@pytest.mark.parametrize("share", [0.5, 0.8, 1.2])
def test_files_due_in_an_append_table_are_those_compacted(tmp_path: Path, share: float) -> None:
    """Files of 70 percent of the target size and more were reported as due, and no compaction rewrote them."""
    table = new_table(tmp_path, [("id", "INT")], keys=(), options={"bucket": "-1", "write-only": "true"})
    for _ in range(3):
        with table.writer() as writer:
            writer.write(pa.table({"id": pa.array(range(2_000), pa.int32())}))
            writer.commit()
    entries = live_entries(table.store, table.snapshots[-1])
    target = {"target-file-size": f"{int(entries[0].file.size / share)} b"}
    layout = Layout.of(replace(table.definition, options={**table.options, **target}))
    state = TableState(table.store, table.snapshots[-1]).bucket(entries[0].partition, entries[0].bucket)
    files = BucketFiles(table.store, layout, entries[0].partition, entries[0].bucket)
    compactor = BucketCompactor(files, state)
    assert len(entries) == 3
    assert compactor.is_due() == bool(compactor.compact(full=True).before) == (share == 0.5)


def test_partitions_among_which_keys_move_are_compacted_together(tmp_path: Path) -> None:
    columns = [("p", "INT NOT NULL"), ("id", "INT NOT NULL"), ("v", "INT")]
    options = {"bucket": "-1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "100"}
    table = new_table(tmp_path, columns, keys=("id",), partitions=("p",), options=options)
    with table.writer(commit_user="u") as writer:
        for number, partition in enumerate((1, 2), 1):  # the key moves
            writer.write(rows(table, (partition, 7, number)))
            writer.commit(number)
    for chosen in (Selection([{"p": 2}]), Selection(where="p = 1")):
        with pytest.raises(ConfigError, match="cannot be compacted alone") as refused:
            compact_table(table.store, only=chosen)
        assert "compact the whole table" in str(refused.value.hint)
    assert compact_table(table.store)
    # Nothing waits in the other partition.
    with table.writer(commit_user="u") as writer:
        writer.write(rows(table, (2, 7, 3)))
        writer.commit(3)
    assert compact_table(table.store, partitions=[{"p": 2}])
    assert content(table) == [(2, 7, 3)]
