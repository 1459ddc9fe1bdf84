"""Expiry: what goes, what holds it, in which order, and what a crash leaves."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError, TableCorrupt
from penstock.table.errors import SnapshotMissing
from penstock.table.maintenance.file_deletion import ExpiryResult
from penstock.table.maintenance.kept_states import tagged
from penstock.table.maintenance.retention import Retention, RetentionRule
from penstock.table.maintenance.snapshot_expiry import WEEK, expire_snapshots
from penstock.table.maintenance.tag_deletion import delete_tag
from penstock.table.maintenance.tags import create_tag, replace_tag
from penstock.table.maintenance.upkeep import expire_consumers
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.snapshot import BATCH_IDENTIFIER
from penstock.table.meta.store import TableStore
from penstock.table.operations.executor import OwnProcess
from penstock.table.schema.changes import SetOption, apply_changes
from penstock.table.schema.schema_files import schema_json
from tests.golden.cases import case_names
from tests.orphans import remove_orphans
from tests.simulation.store import MUTATIONS, Died, Disk, Fault, Operation, SimStore, StoreFailure, at
from tests.unit.table.maintenance.tables import (
    LATE,
    ROOT,
    check_whole,
    disk_of,
    files,
    golden,
    open_table,
    orphans,
    put_snapshot,
)

NOW = 1_900_000_000_000


def keep(store: TableStore, most: int, **more: int) -> ExpiryResult:
    return expire_snapshots(store, retain_max=most, retain_min=min(most, 1), protect_users=0, **more)


def log(store: TableStore) -> list[Operation]:
    assert isinstance(store.storage, SimStore)
    return store.storage.log


def with_options(store: TableStore, **options: str) -> TableStore:
    changes = [SetOption(name.replace("__", "-").replace("_", "."), value) for name, value in options.items()]
    changed = apply_changes(store.schema(), changes, True, now=1)
    store.storage.write(store.paths.schema(changed.id), schema_json(changed))
    return store


@pytest.mark.parametrize("case", case_names())
def test_expiry_of_golden_tables_leaves_no_orphans(case: str) -> None:
    store = golden(case)
    expire_consumers(store, older_than=LATE)
    before, latest = orphans(store), store.snapshots.latest_id()
    for most in (3, 1):
        keep(store, most)
        check_whole(store)
        assert orphans(store) <= before
    assert store.snapshots.ids() == ([latest] if latest else [])
    remove_orphans(store, older_than=LATE, executor=OwnProcess())
    check_whole(store)


@pytest.mark.parametrize(
    "case", ["tags_expired", "changelog_lookup", "dv_pk", "layout_data_dir", "bucket_dynamic", "statistics"]
)
def test_expiry_is_limited_per_round_and_continues(case: str) -> None:
    one_by_one, at_once = golden(case), golden(case)
    while keep(one_by_one, 1, max_deletes=1).snapshots:
        check_whole(one_by_one)
    assert keep(at_once, 1).snapshots > 1
    assert files(one_by_one) == files(at_once)


def test_expiry_deletes_in_the_order_hint_snapshots_data_manifests() -> None:
    store = golden("changelog_lookup")
    keep(store, 1)
    gone = [item.path.removeprefix(f"{ROOT}/") for item in log(store) if item.name in {"write", "delete"}]
    kinds = [path.partition("/")[0] for path in gone]
    assert gone[0] == "snapshot/EARLIEST"
    assert kinds == sorted(kinds, key=["snapshot", "bucket-0", "bucket-1", "index", "manifest"].index)


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}, [5, 6]),
        (
            {
                "snapshot.num-retained.min": "2",
                "snapshot.num-retained.max": "3",
                "snapshot.time-retained": "100000 d",
            },
            [4, 5, 6],
        ),
        ({"snapshot.num-retained.min": "2", "snapshot.time-retained": "1 ms"}, [5, 6]),
        ({"snapshot.num-retained.min": "2", "snapshot.time-retained": "100000 d"}, [1, 2, 3, 4, 5, 6]),
        ({"snapshot.num-retained.min": "1", "snapshot.expire.limit": "2"}, [3, 4, 5, 6]),
        ({}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_options_decide_which_snapshots_are_kept(options: dict[str, str], ids: list[int]) -> None:
    store = golden("layout_data_dir")
    changed = apply_changes(store.schema(), [SetOption(*pair) for pair in options.items()], True, now=1)
    if options:
        store.storage.write(store.paths.schema(changed.id), schema_json(changed))
    expire_snapshots(store, protect_users=0)
    assert store.snapshots.ids() == ids


def test_the_minimum_of_kept_snapshots_must_not_exceed_the_maximum() -> None:
    store = golden("layout_data_dir")
    with pytest.raises(ConfigError, match="at least one"):
        expire_snapshots(store, retain_max=3, retain_min=0)
    with pytest.raises(ConfigError, match="to keep, 2, are fewer than the fewest, 3"):
        expire_snapshots(store, retain_max=2, retain_min=3)
    assert expire_snapshots(store, retain_max=2, protect_users=0).snapshots == 4


def test_older_than_is_an_instant() -> None:
    store = golden("layout_data_dir")
    third = store.snapshots.get(3).time_millis
    expire_snapshots(store, retain_min=1, older_than=third, protect_users=0)
    assert store.snapshots.ids()[0] == 3


def test_consumers_keep_snapshots_they_have_not_read() -> None:
    store = golden("layout_data_dir")
    consumers = ConsumerFiles(store.storage, ROOT)
    consumers.put("a", 4)
    consumers.put("b", 3)
    assert keep(store, 1).end == 3
    consumers.delete("b")
    assert keep(store, 1).end == 4
    assert expire_consumers(store) == []
    assert expire_consumers(store, older_than=LATE) == ["a"]
    assert keep(store, 1).end == 6
    check_whole(store)


def test_idle_consumers_are_removed_by_option() -> None:
    store = with_options(golden("layout_data_dir"), consumer_expiration__time="1 d")
    ConsumerFiles(store.storage, ROOT).put("a", 4)
    assert expire_consumers(store) == ["a"]


def users(store: TableStore, *named: tuple[str, int, int]) -> None:
    """Snapshots after the last, each of (user, identifier, hours before now)."""
    latest = store.snapshots.latest_id() or 0
    for place, (user, identifier, hours) in enumerate(named, latest + 1):
        time = NOW - hours * 3_600_000
        put_snapshot(store, latest, place, commit_user=user, commit_identifier=identifier, time_millis=time)


def test_the_newest_snapshot_of_each_user_is_kept_for_a_week() -> None:
    store = golden("append_unaware")
    first = (store.snapshots.latest_id() or 0) + 1
    users(store, ("ours", 1, 400), ("gone", 1, 399), ("ours", 2, 100), ("idle", 1, 99), ("ours", 3, 2), ("ours", 4, 1))
    expire_snapshots(store, retain_min=1, retain_max=1)
    assert store.snapshots.ids()[0] == first + 3  # idle's: ours has newer ones, gone's is over a week old
    expire_snapshots(store, retain_min=1, retain_max=1, protect_users=50 * 3_600_000)
    assert store.snapshots.ids() == [first + 5]


@pytest.mark.parametrize(("before", "after", "kept"), [(400, 300, 3), (100, 99, 1), (400, 1, 1)])
def test_a_user_with_a_clock_that_was_wrong_is_kept_as_long_as_others(before: int, after: int, kept: int) -> None:
    store = golden("append_unaware")
    first = (store.snapshots.latest_id() or 0) + 1
    years = 24 * 365 * 50
    users(store, ("ours", 1, before), ("gone", 1, -years), ("ours", 2, after), ("ours", 3, 1))
    expire_snapshots(store, retain_min=1, retain_max=1)
    assert store.snapshots.ids()[0] == first + kept


def test_the_snapshot_after_those_that_may_expire_dates_one_of_a_clock_that_was_wrong() -> None:
    """It counted as old as the one before: a job that continues after an hour would have committed its batch twice."""
    store = golden("append_unaware")
    first = (store.snapshots.latest_id() or 0) + 1
    users(store, ("ours", 1, 400), ("stopped", 1, -24 * 365 * 50), ("ours", 2, 1))
    expire_snapshots(store, retain_min=1, retain_max=1)
    assert store.snapshots.ids()[0] == first + 1


def test_snapshots_of_batch_commits_are_not_kept_as_proof() -> None:
    store = golden("append_unaware")
    users(store, ("batch", BATCH_IDENTIFIER, 2), ("ours", 1, 1))
    expire_snapshots(store, retain_min=1, retain_max=1)
    assert len(store.snapshots.ids()) == 1


def test_the_search_for_snapshots_of_users_is_bounded() -> None:
    store = golden("append_unaware")
    first = (store.snapshots.latest_id() or 0) + 1
    users(store, ("idle", 1, 9), *(("ours", number, 8) for number in range(1, 230)))
    expire_snapshots(store, retain_min=1, retain_max=1, max_deletes=1000)
    assert store.snapshots.ids()[0] == first
    assert WEEK == 7 * 86_400_000


def test_tags_keep_their_files_until_they_are_deleted() -> None:
    store = golden("tags_expired")
    keep(store, 1)
    check_whole(store)
    held = files(store)
    for name in ("t1", "t0", "t3"):
        delete_tag(store, name)
        check_whole(store)
        assert orphans(store) == set()
    assert len(files(store)) < len(held) - 3


@pytest.mark.parametrize("case", ["branches", "branch_fast_forward"])
def test_branches_keep_their_files(case: str) -> None:
    store = golden(case)
    delete_tag(store, "base")
    users(store, ("ours", 1, 1))
    keep(store, 1)
    check_whole(store)
    name = "dev" if case == "branches" else "b1"
    keep(store.on_branch(name), 1)
    check_whole(store)
    assert orphans(store) == set()


def test_changelogs_are_kept_after_their_snapshots_and_expire_separately() -> None:
    store = golden("changelog_decoupled")
    before = files(store)
    keep(store, 1)
    assert store.snapshots.ids() == [6]
    assert store.snapshots.changelogs.numbers() == [1, 2, 3, 4, 5]
    assert {path for path in before if "/changelog-" in path} <= files(store)
    check_whole(store)
    store = with_options(
        store, changelog_num__retained_max="3", changelog_num__retained_min="1", changelog_time__retained="100000 d"
    )
    assert keep(store, 1).changelogs == 3
    assert store.snapshots.changelogs.numbers() == [4, 5]
    assert store.snapshots.changelogs.earliest() == 4
    check_whole(store)
    assert orphans(store) == set()


def test_without_a_producer_written_rows_are_kept_as_changelog() -> None:
    store = golden("levels_partial")
    options = {"changelog.num-retained.max": "1000000", "changelog.time-retained": "100000 d", "write-only": "true"}
    changed = apply_changes(store.schema(), [SetOption(*pair) for pair in options.items()], True, now=1)
    store.storage.write(store.paths.schema(changed.id), schema_json(changed))
    latest = store.snapshots.latest_id() or 0
    written = {entry for entry in files(store) if "data-" in entry}
    keep(store, 1)
    check_whole(store)
    assert store.snapshots.changelogs.numbers() == list(range(1, latest))
    left = {entry for entry in files(store) if "data-" in entry}
    assert left <= written
    assert orphans(store) == set()
    reset = apply_changes(
        changed,
        [SetOption("changelog.time-retained", "1 ms"), SetOption("changelog.num-retained.min", "1")],
        True,
        now=1,
    )
    store.storage.write(store.paths.schema(reset.id), schema_json(reset))
    while keep(store, 1, max_deletes=2).changelogs:
        check_whole(store)  # a file may wait for the changelog of the snapshot that took it away
    assert orphans(store) == set()
    assert {entry for entry in files(store) if "data-" in entry} < left


def test_retention_options_decide_if_changelogs_are_decoupled() -> None:
    assert not Retention.of({}).decoupled
    assert Retention.of({"changelog.num-retained.min": "11"}).decoupled
    assert Retention.of({"changelog.time-retained": "2 h"}).decoupled
    assert not Retention.of({"changelog.time-retained": "30 min"}).decoupled
    assert Retention.of({"snapshot.num-retained.max": "20", "changelog.num-retained.max": "30"}).decoupled
    assert not RetentionRule(1, None, 0).beyond(RetentionRule(1, None, 0))


def test_empty_folders_are_deleted_if_configured() -> None:
    store = golden("all_deleted")
    folders = {path.rpartition("/")[0] for path in files(store) if "bucket-" in path}
    changed = apply_changes(store.schema(), [SetOption("snapshot.clean-empty-directories", "true")], True, now=1)
    store.storage.write(store.paths.schema(changed.id), schema_json(changed))
    keep(store, 1)
    left = {path.rpartition("/")[0] for path in files(store) if "bucket-" in path}
    assert left < folders
    for folder in folders - left:
        assert not store.storage.exists(f"{ROOT}/{folder}")
        assert not store.storage.exists(f"{ROOT}/{folder.rpartition('/')[0]}")


def test_a_missing_manifest_stops_expiry_before_any_delete() -> None:
    store = golden("layout_data_dir")
    store.storage.delete(store.paths.manifest(store.snapshots.get(3).delta_manifest_list))
    before = files(store)
    with pytest.raises(TableCorrupt, match="manifest"):
        keep(store, 1)
    assert files(store) == before


def test_a_concurrent_tag_keeps_its_files_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_of("layout_data_dir")
    store, tagger = open_table(disk), open_table(disk)
    delete = store.storage.delete

    def tag_first(path: str) -> None:
        if path.endswith("snapshot-3"):
            create_tag(tagger, "saved", 3)
        delete(path)
        if path.endswith("snapshot-3"):
            with pytest.raises(SnapshotMissing):
                create_tag(tagger, "late", 2)

    monkeypatch.setattr(store.storage, "delete", tag_first)
    keep(store, 1)
    check_whole(open_table(disk))
    assert orphans(open_table(disk)) == set()


def test_a_tag_is_removed_if_its_snapshot_expired_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_of("layout_data_dir")
    store, tagger = open_table(disk), open_table(disk)
    create = tagger.storage.create

    def expire_first(path: str, data: bytes) -> bool:
        keep(store, 1)
        return create(path, data)

    monkeypatch.setattr(tagger.storage, "create", expire_first)
    with pytest.raises(SnapshotMissing, match="expired while it was being tagged"):
        create_tag(tagger, "late", 2)
    check_whole(open_table(disk))
    assert orphans(open_table(disk)) == set()


def test_a_tag_stays_where_it_is_if_its_new_snapshot_expired_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_of("layout_data_dir")
    store, tagger = open_table(disk), open_table(disk)
    create_tag(store, "moved", 3)
    write = tagger.storage.write

    def expire_first(path: str, data: bytes) -> None:
        if path.endswith("/tag-moved"):
            keep(store, 1)
        write(path, data)

    monkeypatch.setattr(tagger.storage, "write", expire_first)
    with pytest.raises(SnapshotMissing, match="expired while it was being tagged"):
        replace_tag(tagger, "moved", 2)
    assert [snapshot.id for snapshot in tagged(open_table(disk))] == [3]
    check_whole(open_table(disk))


def numbers_of(disk: Disk, fault: Fault) -> list[int]:
    """The operations of a round at which this fault makes a difference of its own."""
    store = open_table(disk)
    opened = len(log(store))
    keep(store, 1)
    changing = {
        Fault.AFTER: MUTATIONS,
        Fault.DIES_BEFORE: MUTATIONS,
        Fault.DIES_AFTER: MUTATIONS,
        Fault.STALE: {"list"},
    }
    wanted = changing.get(fault)
    return [item.number for item in log(store)[opened:] if wanted is None or item.name in wanted]


@pytest.mark.parametrize("case", ["changelog_decoupled", pytest.param("bucket_dynamic", marks=pytest.mark.slow)])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.STALE])
def test_a_crash_at_any_operation_of_expiry_keeps_the_table_complete(case: str, fault: Fault) -> None:
    wanted = golden(case)
    keep(wanted, 1)
    for number in numbers_of(disk_of(case), fault):
        disk = disk_of(case)
        try:
            keep(open_table(disk, at(number, fault)), 1)
        except (Died, StoreFailure, TableCorrupt):
            pass
        store = open_table(disk)
        check_whole(store)
        keep(store, 1)
        remove_orphans(store, older_than=LATE, executor=OwnProcess())
        check_whole(store)
        assert files(store) - {"snapshot/LATEST"} == files(wanted) - {"snapshot/LATEST"}
