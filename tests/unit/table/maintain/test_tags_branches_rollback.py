"""Tags, branches and rollback: what they make, what they refuse, what a crash leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.maintain.branches import create_branch, delete_branch, fast_forward
from penstock.table.maintain.expire import expire_snapshots
from penstock.table.maintain.orphans import remove_orphans
from penstock.table.maintain.retagging import replace_tag
from penstock.table.maintain.rollback import rollback_to
from penstock.table.maintain.tags import create_tag, delete_tag, expire_tags, tag_files
from penstock.table.meta.branches import branch_names
from penstock.table.meta.errors import BranchMissing, SnapshotMissing, TagMissing
from penstock.table.meta.live import live_entries
from penstock.table.meta.store import TableStore
from penstock.table.schema.changes import AddColumn, SetOption, evolve
from tests.simulation.store import Died, Disk, Fault, StoreFailure, at
from tests.unit.table.maintain.tables import (
    LATE,
    check_whole,
    disk_of,
    files,
    golden,
    open_table,
    orphans,
    put_snapshot,
)
from tests.unit.table.tables import new_table, rows

HOUR = 3_600_000


def names(store: TableStore, snapshot_id: int) -> set[str]:
    return {entry.file.name for entry in live_entries(store, store.snapshots.get(snapshot_id))}


# tags


def test_a_tag_is_of_the_latest_snapshot_unless_another_is_named() -> None:
    store = golden("layout_data_dir")
    assert create_tag(store, "latest").snapshot == store.snapshots.get(6)
    assert create_tag(store, "third", 3).snapshot == store.snapshots.get(3)
    assert tag_files(store).names() == ["latest", "third"]
    check_whole(store)


def test_tags_that_cannot_be_made_are_refused() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "a", 2)
    with pytest.raises(ConfigError, match=r"already[\s\S]*snapshot: 2"):
        create_tag(store, "a", 3)
    with pytest.raises(SnapshotMissing, match="9 does not exist"):
        create_tag(store, "b", 9)
    with pytest.raises(SnapshotMissing, match="no snapshot to tag"):
        create_tag(golden("empty_table"), "b")
    with pytest.raises(TagMissing):
        delete_tag(store, "b")


def test_tags_end_by_themselves_when_their_time_is_over() -> None:
    store = golden("layout_data_dir")
    evolve(store.schemas, [SetOption("tag.default-time-retained", "2 h")], True, now=1)
    create_tag(store, "short", 2, retain_millis=1)
    create_tag(store, "long", 2, retain_millis=HOUR)
    assert create_tag(store, "by option", 2).retained_nanos == 2 * HOUR * 1_000_000
    store.ambient.now_millis()
    assert expire_tags(store) == ["short"]
    assert tag_files(store).names() == ["by option", "long"]


def test_files_go_with_the_last_tag_that_holds_them() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "a", 2)
    create_tag(store, "b", 2)
    create_tag(store, "c", 4)
    expire_snapshots(store, retain_max=1, protect_users=0)
    held = files(store)
    delete_tag(store, "a")
    assert files(store) == held - {"tag/tag-a"}
    for name in ("b", "c"):
        delete_tag(store, name)
        check_whole(store)
        assert orphans(store) == set()


def test_a_tag_of_a_living_snapshot_takes_nothing_with_it() -> None:
    store = golden("layout_data_dir")
    before = files(store)
    create_tag(store, "a", 2)
    delete_tag(store, "a")
    assert files(store) == before


def test_tags_older_than_everything_are_given_up_without_a_trace() -> None:
    for case in ("changelog_decoupled", "levels_partial", "dv_pk", "tags_expired"):
        store = golden(case)
        first = store.snapshots.ids()[0]
        create_tag(store, "old", first)
        expire_snapshots(store, retain_max=1, protect_users=0)
        check_whole(store)
        delete_tag(store, "old")
        check_whole(store)
        assert orphans(store) == set(), case


def test_a_snapshot_that_only_a_tag_holds_can_be_tagged_again() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "a", 2)
    expire_snapshots(store, retain_max=1, protect_users=0)
    held = names(store, 6) | {entry.file.name for entry in live_entries(store, tag_files(store).get("a").snapshot)}
    create_tag(store, "b", 2)
    delete_tag(store, "a")
    check_whole(store)
    assert {path.rpartition("/")[2] for path in files(store) if "/data-" in path} == held
    replace_tag(store, "b", 6)
    with pytest.raises(SnapshotMissing, match="2 has expired"):
        create_tag(store, "c", 2)


def test_a_tag_made_while_the_other_of_its_snapshot_goes_keeps_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = disk_of("layout_data_dir")
    store, tagger = open_table(disk), open_table(disk)
    create_tag(store, "a", 2)
    expire_snapshots(store, retain_max=1, protect_users=0)
    delete = store.storage.delete

    def tag_first(path: str) -> None:
        if path.endswith("tag-a"):
            create_tag(tagger, "saved", 2)
        delete(path)

    monkeypatch.setattr(store.storage, "delete", tag_first)
    delete_tag(store, "a")
    check_whole(open_table(disk))
    assert orphans(open_table(disk)) == set()


def test_tags_made_before_a_time_are_given_up_by_the_clock_on_the_wall() -> None:
    store = golden("layout_data_dir")
    store = replace(store, ambient=replace(store.ambient, zone_offset_millis=lambda _: 8 * HOUR))
    create_tag(store, "ends", 2, retain_millis=1000 * HOUR)
    made = store.ambient.now_millis()
    assert expire_tags(store, older_than=made - HOUR) == []
    assert expire_tags(store, older_than=made + HOUR) == ["ends"]


def test_of_tags_that_never_end_the_file_tells_when_they_were_made(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1"})
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit()
    table.create_tag("old")
    table.create_tag("young")
    os.utime(Path(table.path) / "tag/tag-old", (1_000, 1_000))
    assert table.expire_tags(older_than=1_000_000) == []
    assert table.expire_tags(older_than=1_000_001) == ["old"]


# rollback


def test_a_rollback_makes_an_older_snapshot_the_newest() -> None:
    store = golden("layout_data_dir")
    for number in (2, 3, 5):
        create_tag(store, f"t{number}", number)
    wanted = names(store, 3)
    assert rollback_to(store, 3).id == 3
    assert store.snapshots.latest_id() == 3
    assert names(store, 3) == wanted
    assert tag_files(store).names() == ["t2", "t3"]
    check_whole(store)
    assert orphans(store)
    remove_orphans(store, older_than=LATE)
    check_whole(store)


def test_a_rollback_to_a_tag_brings_its_snapshot_back() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "t2", 2)
    create_tag(store, "t4", 4)
    wanted = names(store, 2)
    expire_snapshots(store, retain_max=1, protect_users=0)
    assert rollback_to(store, "t2").id == 2
    assert store.snapshots.ids() == [2]
    assert [store.snapshots.earliest_id(), store.snapshots.latest_id()] == [2, 2]
    assert names(store, 2) == wanted
    assert tag_files(store).names() == ["t2"]
    check_whole(store)


def test_a_rollback_by_number_finds_the_tag_of_an_expired_snapshot() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "second", 2)
    expire_snapshots(store, retain_max=1, protect_users=0)
    assert rollback_to(store, 2).id == 2
    assert store.snapshots.ids() == [2]
    check_whole(store)


def test_a_rollback_takes_changelogs_back_too() -> None:
    store = golden("changelog_decoupled")
    create_tag(store, "t5", 5)
    expire_snapshots(store, retain_max=1, protect_users=0)
    put_snapshot(store, 6, 7)
    expire_snapshots(store, retain_max=1, protect_users=0)
    assert store.snapshots.changelogs.numbers() == [1, 2, 3, 4, 5, 6]
    rollback_to(store, "t5")
    assert store.snapshots.ids() == [5]
    assert store.snapshots.changelogs.numbers() == [1, 2, 3, 4, 5]
    assert store.snapshots.changelogs.latest() == 5
    check_whole(store)


@pytest.mark.parametrize("target", [9, "nothing"])
def test_a_rollback_to_nothing_is_refused(target: int | str) -> None:
    with pytest.raises(ConfigError):
        rollback_to(golden("layout_data_dir"), target)


# branches


def test_a_branch_from_a_tag_begins_with_its_snapshot() -> None:
    store = golden("layout_data_dir")
    evolve(store.schemas, [AddColumn("later", "INT")], True, now=1)
    create_tag(store, "t", 3)
    create_branch(store, "dev", "t")
    branch = store.on_branch("dev")
    assert branch_names(store) == ["dev"]
    assert branch.snapshots.ids() == [3]
    assert branch.schemas.ids() == [0]
    assert names(branch, 3) == names(store, 3)
    assert tag_files(branch).names() == ["t"]
    check_whole(store)


def test_a_branch_of_an_expired_snapshot_is_made_from_its_tag() -> None:
    store = golden("layout_data_dir")
    create_tag(store, "t", 3)
    expire_snapshots(store, retain_max=1, protect_users=0)
    create_branch(store, "dev", "t")
    delete_tag(store, "t")
    check_whole(store)
    assert orphans(store) == set()


def test_an_empty_branch_has_all_schemas_and_no_snapshot() -> None:
    store = golden("layout_data_dir")
    evolve(store.schemas, [AddColumn("later", "INT")], True, now=1)
    create_branch(store, "dev")
    assert store.on_branch("dev").schemas.ids() == [0, 1]
    assert store.on_branch("dev").snapshots.ids() == []
    with pytest.raises(ConfigError, match="no snapshot to go forward to"):
        fast_forward(store, "dev")


@pytest.mark.parametrize("name", ["main", "", "7", "a/b"])
def test_names_that_are_none_for_branches_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a branch"):
        create_branch(golden("layout_data_dir"), name)


def test_branches_are_made_once_and_deleted_once() -> None:
    store = golden("branches")
    with pytest.raises(ConfigError, match="already"):
        create_branch(store, "dev")
    with pytest.raises(TagMissing):
        create_branch(store, "new", "nothing")
    delete_branch(store, "dev")
    assert branch_names(store) == ["empty"]
    with pytest.raises(BranchMissing, match="branches are empty"):
        delete_branch(store, "dev")
    with pytest.raises(BranchMissing):
        fast_forward(store, "dev")
    check_whole(store)
    remove_orphans(store, older_than=LATE)
    check_whole(store)


def test_the_fallback_branch_stays() -> None:
    store = golden("branches")
    evolve(store.schemas, [SetOption("scan.fallback-branch", "dev")], True, now=1)
    with pytest.raises(ConfigError, match="fallback branch"):
        delete_branch(store, "dev")


def test_fast_forward_makes_main_what_the_branch_is() -> None:
    store = golden("branches")
    branch = store.on_branch("dev")
    wanted = {number: names(branch, number) for number in branch.snapshots.ids()}
    put_snapshot(store, store.snapshots.latest_id() or 0, 3)
    evolve(branch.schemas, [AddColumn("theirs", "INT")], True, now=1)
    evolve(store.schemas, [AddColumn("ours", "INT")], True, now=2)
    evolve(store.schemas, [AddColumn("ours too", "INT")], True, now=3)
    fast_forward(store, "dev")
    assert {number: names(store, number) for number in store.snapshots.ids()} == wanted
    assert store.schemas.ids() == [0, 1]
    assert store.schema().names[-1] == "theirs"
    check_whole(store)
    remove_orphans(store, older_than=LATE)
    check_whole(store)


# crashes


def forward(store: TableStore) -> None:
    fast_forward(store, "dev")


def branch_off(store: TableStore) -> None:
    create_branch(store, "new", "base")


def back(store: TableStore) -> None:
    rollback_to(store, 1)


def untag(store: TableStore) -> None:
    if tag_files(store).find("base") is not None:
        delete_tag(store, "base")


def outcome(disk: Disk) -> dict[str, bytes]:
    return {path: data for path, (data, _) in disk.files.items() if not path.endswith((".tmp", "EARLIEST"))}


@pytest.mark.parametrize("verb", [forward, branch_off, back, untag])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.DIES_BEFORE, Fault.DIES_AFTER])
def test_what_died_half_way_is_finished_by_doing_it_again(verb: Callable[[TableStore], None], fault: Fault) -> None:
    calm = disk_of("branches")
    store = open_table(calm)
    opened = len(store.storage.log)  # type: ignore[attr-defined]
    verb(store)
    for number in range(opened + 1, len(store.storage.log) + 1):  # type: ignore[attr-defined]
        disk = disk_of("branches")
        try:
            verb(open_table(disk, at(number, fault)))
        except (Died, StoreFailure):
            pass
        again = open_table(disk)
        if verb is not branch_off or not again.schemas.on_branch("new").ids():
            verb(again)
        remove_orphans(open_table(disk), older_than=LATE)
        check_whole(open_table(disk))
        reference = open_table(calm)
        remove_orphans(reference, older_than=LATE)
        assert outcome(disk) == outcome(calm)
