"""Compaction beside the batches, and what batches owe though a compaction was lost."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from penstock.errors import StoreError, TableCorrupt
from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.commands.main import main
from penstock.pipelines.driver import compaction as compacting
from penstock.pipelines.driver.compaction import (
    DueBucket,
    bucket_groups,
    commit_compactions,
    compact_task,
    compacted,
    compacted_here,
    due_buckets,
)
from penstock.pipelines.driver.maintenance import RETRY_SECONDS, Maintenance
from penstock.pipelines.job import build
from penstock.pipelines.tasks.batch_result import SCHEMA, BatchResult
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.commit.committer import Committer
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from tests.here import run
from tests.invariants import check_invariants
from tests.shop import Shop, insert

BEHIND = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", "num-sorted-run.stop-trigger": "5"}
BACKGROUND = {"mode": "background"}
AT_ONCE = {
    "lookup": {"changelog-producer": "lookup"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "first row": {"merge-engine": "first-row"},
}
LATE = 1 << 60


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def batches(shop: Shop, first: int, count: int, **sink: object) -> None:
    for number in range(first, first + count):
        shop.put(f"{number:03}.json", insert("orders", {"id": number % 4, "name": f"v{number}"}))
        run(shop.spec(sink=sink))


def kinds(shop: Shop) -> list[CommitKind]:
    return [snapshot.commit_kind for snapshot in shop.table("orders").snapshots]


def care(shop: Shop) -> Maintenance:
    compact = compacted_here(shop.warehouse)
    return Maintenance(shop.warehouse, lambda: ["ods.orders"], lambda: "shop-x", compact)


@pytest.mark.slow
def test_batches_leave_compaction_to_the_background_until_a_bucket_has_too_many_runs(shop: Shop) -> None:
    sink = {"table-options": BEHIND, "compaction": BACKGROUND}
    batches(shop, 0, 6, **sink)
    assert CommitKind.COMPACT not in kinds(shop)
    batches(shop, 6, 1, **sink)
    assert kinds(shop)[-1] is CommitKind.COMPACT


@pytest.mark.slow
def test_a_batch_compacts_only_the_bucket_with_too_many_runs(shop: Shop) -> None:
    sink = {"table-options": BEHIND | {"bucket": "2"}, "compaction": BACKGROUND}
    shop.put("000.json", *(insert("orders", {"id": number}) for number in range(20)))
    run(shop.spec(sink=sink))
    assert runs(shop) == {0: 1, 1: 1}
    for number in range(1, 6):  # of one key: only its bucket gets a run more each time
        shop.put(f"{number:03}.json", insert("orders", {"id": 1}))
        run(shop.spec(sink=sink))
    assert CommitKind.COMPACT not in kinds(shop)
    shop.put("006.json", *(insert("orders", {"id": number}) for number in range(20)))
    run(shop.spec(sink=sink))
    assert kinds(shop)[-1] is CommitKind.COMPACT
    assert sorted(runs(shop).values()) == [1, 2]


def runs(shop: Shop) -> dict[int, int]:
    """Files by bucket: each is a run here."""
    store = shop.table("orders").store
    entries = live_entries(store, store.snapshots.latest())
    return dict(Counter(entry.bucket for entry in entries))


@pytest.mark.parametrize("more", [{}, {"changelog-producer": "lookup", "lookup-wait": "false"}], ids=["plain", "lags"])
def test_a_due_full_compaction_is_not_postponed(shop: Shop, more: dict[str, str]) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "9", "full-compaction.delta-commits": "2", **more}
    for number in range(3):
        batches(shop, number, 1, **{"table-options": options, "compaction": BACKGROUND})
        whole = {file.level for file in shop.live("orders")} == {8 + 1}
        assert whole == (number % 2 == 0)


@pytest.mark.slow
def test_background_compaction_commits_under_a_separate_user_and_ends(shop: Shop) -> None:
    batches(shop, 0, 4, **{"table-options": BEHIND, "compaction": BACKGROUND})
    rows = shop.rows("orders")
    watch = care(shop)
    watch.round()
    latest = shop.table("orders").latest_snapshot
    assert latest is not None
    assert (latest.commit_kind, latest.commit_user, latest.commit_identifier) == (
        CommitKind.COMPACT,
        "shop-x-compact",
        0,
    )
    assert shop.rows("orders") == rows
    watch.round()
    assert len(kinds(shop)) == 5
    batches(shop, 4, 4, **{"table-options": BEHIND, "compaction": BACKGROUND})
    watch.round()
    latest = shop.table("orders").latest_snapshot
    assert latest is not None
    assert latest.commit_identifier == 1


@pytest.mark.parametrize(("slots", "tasks"), [(1, 1), (4, 1), (8, 2), (40, 6)])
def test_background_compaction_uses_at_most_a_quarter_of_the_slots(shop: Shop, slots: int, tasks: int) -> None:
    batches(shop, 0, 4, **{"table-options": BEHIND, "compaction": BACKGROUND})
    [due] = due_buckets(shop.warehouse, "ods.orders")
    dues = [replace(due, bucket=number) for number in range(6)]
    groups = bucket_groups(dues, slots)
    assert len(groups) == tasks
    assert sorted(due.bucket for group in groups for due in group) == sorted(due.bucket for due in dues)


@pytest.mark.slow
def test_a_background_task_leaves_buckets_to_the_next_round_after_its_time_limit(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches(shop, 0, 4, **{"table-options": BEHIND, "compaction": BACKGROUND})
    rows = shop.rows("orders")
    groups = bucket_groups(due_buckets(shop.warehouse, "ods.orders"), 1)

    def made() -> dict[str, list[CommitMessage]]:
        numbers = pa.RecordBatch.from_arrays([pa.array([0])], ["id"])
        found = list(compact_task(shop.warehouse, groups, ErrorMark())(iter([numbers])))
        return BatchResult.of(pa.Table.from_batches(found, SCHEMA)).messages

    with monkeypatch.context() as patch:
        patch.setattr(compacting, "TASK_SECONDS", -1.0)
        assert made() == {}
    assert commit_compactions(shop.warehouse, "shop-x", made()) == set()
    assert latest(shop).commit_kind is CommitKind.COMPACT
    assert shop.rows("orders") == rows


def latest(shop: Shop) -> Snapshot:
    found = shop.table("orders").latest_snapshot
    assert found is not None
    return found


@pytest.mark.slow
def test_a_conflicting_compaction_is_dropped_with_its_files_and_rows_are_kept(shop: Shop) -> None:
    batches(shop, 0, 4, **{"table-options": BEHIND, "compaction": BACKGROUND})
    made = compacted_here(shop.warehouse)(due_buckets(shop.warehouse, "ods.orders"))
    shop.table("orders").compact()
    batches(shop, 4, 1, **{"table-options": BEHIND, "compaction": BACKGROUND})
    assert commit_compactions(shop.warehouse, "shop-x", made) == {"ods.orders"}
    assert [row["name"] for row in shop.rows("orders")] == ["v4", "v1", "v2", "v3"]
    assert shop.table("orders").remove_orphan_files(dry_run=True, older_than=LATE) == []


@pytest.mark.parametrize("options", AT_ONCE.values(), ids=AT_ONCE)
def test_compaction_needed_by_readers_runs_in_the_write_task(shop: Shop, options: dict[str, str]) -> None:
    for number in range(3):
        batches(shop, number, 1, **{"table-options": {"bucket": "1", **options}, "compaction": BACKGROUND})
        append, compact = shop.table("orders").snapshots[-2:]
        assert (append.commit_kind, compact.commit_kind) == (CommitKind.APPEND, CommitKind.COMPACT)
        assert (append.commit_user, append.commit_identifier) == (compact.commit_user, compact.commit_identifier)
        assert shop.ids("orders") == list(range(number + 1))


@pytest.mark.slow
@pytest.mark.parametrize("producer", [pytest.param("none", marks=pytest.mark.slow), "full-compaction"])
def test_inline_and_background_compaction_have_the_same_result(tmp_path: Path, producer: str) -> None:
    """Inline, in the background, or by `penstock compact` beside a job that leaves it alone."""
    ends = []
    for place in ("inline", "background", "none"):
        shop = Shop(tmp_path / place)
        options = {**BEHIND, "changelog-producer": producer, "write-only": str(place == "none").lower()}
        for number in range(8):
            batches(shop, number, 1, **{"table-options": options, "compaction": {"mode": place}})
            if place == "background":
                care(shop).round()
        words = ["--warehouse", f"{shop.folder}/warehouse", "--database", "ods", "--table", "orders"]
        assert main(["compact", *words]) == 0
        table = shop.table("orders")
        changes = table.changes(0, table.snapshots[-1].id, "changelog").to_pylist() if producer != "none" else []
        net = {row["id"]: row["name"] for row in changes if row["rowkind"] in {"+I", "+U"}}
        ends.append((shop.rows("orders"), [(file.level, file.row_count) for file in shop.live("orders")], net))
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][1] == [(3, 4)]


def test_a_background_task_starts_no_bucket_after_10_seconds(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = {"table-options": BEHIND | {"bucket": "4"}, "compaction": BACKGROUND}
    for number in range(4):
        shop.put(f"{number}.json", insert("orders", *({"id": item, "name": f"v{number}"} for item in range(40))))
        run(shop.spec(sink=sink))
    dues, seconds, begun = due_buckets(shop.warehouse, "ods.orders"), [0.0], []

    def for_six_seconds(warehouse: CatalogSettings, due: DueBucket) -> CommitMessage | None:
        begun.append(due.bucket)
        seconds[0] += 6.0
        return compacted(warehouse, due)

    monkeypatch.setattr(compacting, "compacted", for_six_seconds)
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])
    numbers = pa.RecordBatch.from_arrays([pa.array([0])], ["id"])
    list(compact_task(shop.warehouse, [dues], ErrorMark())(iter([numbers])))
    assert (len(dues), begun) == (4, [dues[0].bucket, dues[1].bucket])


def test_a_write_only_table_is_not_compacted(shop: Shop) -> None:
    batches(shop, 0, 6, **{"table-options": BEHIND | {"write-only": "true"}})
    assert due_buckets(shop.warehouse, "ods.orders") == []


def test_small_files_of_a_table_without_keys_are_merged(shop: Shop) -> None:
    sink = {"table-options": {"compaction.min.file-num": "3"}, "sync-primary-keys-from-source-schema": "false"}
    batches(shop, 0, 4, **sink)
    care(shop).round()
    assert (len(shop.live("orders")), len(shop.rows("orders"))) == (1, 4)


@pytest.mark.parametrize("options", AT_ONCE.values(), ids=AT_ONCE)
def test_a_lost_compact_snapshot_is_committed_by_the_next_batch(
    shop: Shop, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = {"table-options": {"bucket": "1", **options}}
    batches(shop, 0, 1, **sink)
    shop.put("001.json", insert("orders", {"id": 9, "name": "x"}))
    commit = Committer.commit

    class DiedError(Exception):
        pass

    def without_compaction(self: Committer, messages: object, *given: object, **named: object) -> object:
        done = commit(self, [strip(message) for message in messages], *given, **named)  # type: ignore[attr-defined, arg-type]
        assert done.snapshots
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", without_compaction)
        with pytest.raises(DiedError):
            run(shop.spec(sink=sink))
    run(shop.spec(sink=sink))
    assert shop.ids("orders") == [0, 9]
    assert all(file.level > 0 for file in shop.live("orders"))


def strip(message: object) -> object:
    """The message as if the driver died between its two halves."""
    from dataclasses import replace

    return replace(message, compact_before=(), compact_after=(), compact_changelog=(), compact_index_changes=())  # type: ignore[type-var]


@pytest.mark.parametrize("mode", ["inline", "background"])
def test_batches_without_lookup_wait_are_committed_before_compaction(shop: Shop, mode: str) -> None:
    options = {"bucket": "1", "changelog-producer": "lookup", "lookup-wait": "false"}
    batches(shop, 0, 3, **{"table-options": options, "compaction": {"mode": mode}})
    made = [
        (snapshot.commit_kind, snapshot.commit_user.endswith("-compact")) for snapshot in shop.table("orders").snapshots
    ]
    append, compact = (CommitKind.APPEND, False), (CommitKind.COMPACT, True)
    if mode == "background":
        assert made == [append] * 3
        care(shop).round()
    else:
        assert made == [append, compact] * 3
    assert all(file.level > 0 for file in shop.live("orders"))
    table = shop.table("orders")
    changes = table.changes(0, table.snapshots[-1].id).to_pylist()
    assert sorted(row["id"] for row in changes if row["rowkind"] == "+I") == [0, 1, 2]


def test_full_compactions_include_buckets_outside_of_the_batch(shop: Shop) -> None:
    options = {"bucket": "4", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"}
    for number in range(4):
        shop.put(f"{number}.json", insert("orders", {"id": number}))
        run(shop.spec(sink={"table-options": options}))
    assert shop.ids("orders") == [0, 1, 2, 3]
    assert {file.level for file in shop.live("orders")} == {5}
    table = shop.table("orders")
    changes = table.changes(0, table.snapshots[-1].id).to_pylist()
    assert sorted((row["rowkind"], row["id"]) for row in changes) == [("+I", number) for number in range(4)]


def test_a_key_that_moves_is_deleted_before_its_new_row_by_full_compactions(shop: Shop) -> None:
    options = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"}
    sink = {"primary-keys": ["id"], "partition-keys": ["name"], "table-options": options}
    # The last one is compacted in full, and writes nothing where the key 1 was.
    for number, (key, name) in enumerate([(1, "a"), (1, "b"), (2, "b"), (2, "b")]):
        shop.put(f"{number}.json", insert("orders", {"id": key, "name": name}))
        run(shop.spec(sink=sink))
    table = shop.table("orders")
    changes = table.changes(0, table.snapshots[-1].id).to_pylist()
    moved = [(row["rowkind"], row["name"]) for row in changes if row["id"] == 1]
    assert moved == [("+I", "a"), ("-D", "a"), ("+I", "b")]


def moved_key_batch(shop: Shop, options: dict[str, str], number: int, *keys: tuple[int, str], **pipeline: Any) -> None:
    """Run a batch of rows into a table whose keys move between partitions."""
    shop.put(f"{number}.json", insert("orders", *({"id": key, "name": name} for key, name in keys)))
    sink = {"primary-keys": ["id"], "partition-keys": ["name"], "table-options": {"bucket": "-1", **options}}
    # The checkpoint knows the compaction that is rolled back.
    run(shop.spec(sink=sink, pipeline={"accept-gap": "true", **pipeline}, errors={"isolate": True}))


def roll_back_compaction(shop: Shop) -> None:
    table = shop.table("orders")
    table.rollback_to(max(made.id for made in table.snapshots if made.commit_kind is CommitKind.APPEND))


@pytest.mark.parametrize("options", [AT_ONCE["lookup"], AT_ONCE["vectors"]], ids=["lookup", "vectors"])
def test_a_batch_makes_up_for_a_compaction_of_moved_keys_that_was_rolled_back(
    shop: Shop, options: dict[str, str]
) -> None:
    moved_key_batch(shop, options, 0, (1, "a"), (2, "a"))
    moved_key_batch(shop, options, 1, (1, "b"), (2, "c"))
    roll_back_compaction(shop)
    # Nothing of the partitions "a" and "b" is in this batch.
    moved_key_batch(shop, options, 2, (2, "c"))
    assert [(row["id"], row["name"]) for row in shop.rows("orders")] == [(1, "b"), (2, "c")]
    append, compact = shop.table("orders").snapshots[-2:]
    assert (append.commit_kind, compact.commit_kind) == (CommitKind.APPEND, CommitKind.COMPACT)
    assert append.commit_user == compact.commit_user
    assert all(file.level > 0 for file in shop.live("orders"))
    check_invariants(shop.table("orders"))


def test_a_table_that_is_parked_by_a_lost_compaction_misses_no_batch(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_key_batch(shop, AT_ONCE["lookup"], 0, (1, "a"), (2, "a"))
    moved_key_batch(shop, AT_ONCE["lookup"], 1, (1, "b"), (2, "c"))
    roll_back_compaction(shop)

    def fails(_warehouse: CatalogSettings, due: DueBucket) -> NoReturn:
        raise TableCorrupt("a file is damaged", table=due.table)

    with monkeypatch.context() as patch:
        patch.setattr(compacting, "compacted", fails)
        moved_key_batch(shop, AT_ONCE["lookup"], 2, (3, "c"))
    assert list(build.job(shop.spec()).parking().tables) == ["ods.orders"]
    moved_key_batch(shop, AT_ONCE["lookup"], 3, (4, "c"), **{"retry-parked": True})
    rows = sorted((row["id"], row["name"]) for row in shop.rows("orders"))
    assert rows == [(1, "b"), (2, "c"), (3, "c"), (4, "c")]
    check_invariants(shop.table("orders"))


def test_a_bucket_for_which_a_commit_waits_is_compacted_after_the_time_limit_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches(shop, 0, 4, **{"table-options": BEHIND, "compaction": BACKGROUND})
    [due] = due_buckets(shop.warehouse, "ods.orders")
    monkeypatch.setattr(compacting, "TASK_SECONDS", -1.0)
    for at_once in (False, True):
        numbers = pa.RecordBatch.from_arrays([pa.array([0])], names=["group"])
        dues = [[replace(due, at_once=at_once)]]
        assert len(list(compact_task(shop.warehouse, dues, ErrorMark())(iter([numbers])))) == at_once


def test_maintenance_runs_by_time_for_idle_tables(shop: Shop) -> None:
    options = {
        "bucket": "1",
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        "snapshot.time-retained": "1 ms",
    }
    batches(shop, 0, 3, **{"table-options": options})
    now = [0.0]
    watch = Maintenance(shop.warehouse, lambda: ["ods.orders"], lambda: "shop-x", None, 60.0, lambda: now[0])
    watch.round()
    assert shop.snapshots("orders") == 1
    batches(shop, 3, 2, **{"table-options": options})
    watch.round()
    assert shop.snapshots("orders") > 1
    now[0] = 61.0
    watch.round()
    assert shop.snapshots("orders") == 1


def test_a_failed_compaction_does_not_stop_maintenance_of_other_tables(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"bucket": "1", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    batches(shop, 0, 3, **{"table-options": {**options, "snapshot.time-retained": "1 ms"}})
    now, requested = [0.0], []

    def compact(due: object) -> NoReturn:
        requested.append(due)
        raise StoreError("the store does not answer")

    watch = Maintenance(
        shop.warehouse, lambda: ["ods.missing", "ods.orders"], lambda: "shop-x", compact, 60.0, lambda: now[0]
    )
    watch.round()
    watch.round()
    assert shop.snapshots("orders") == 1
    failed = [record.getMessage() for record in caplog.records if "event=care_failed" in record.getMessage()]
    assert [line.split(" reason=")[0] for line in failed if "ods.missing" in line] == [
        "event=care_failed table=ods.missing step=compaction",
        "event=care_failed table=ods.missing step=maintenance",
    ]
    now[0] = RETRY_SECONDS
    watch.round()
    assert len([record for record in caplog.records if "table=ods.missing" in record.getMessage()]) == 4
