"""Tags: their snapshots, their retention, and the files that are deleted with them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.errors import SnapshotMissing, TagMissing
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tag_deletion import delete_tag, delete_tags, expire_tags
from penstock.table.maintenance.tags import create_tag, replace_tag, tag_files
from penstock.table.meta.live import live_entries
from penstock.table.schema.changes import SetOption, evolve
from tests.unit.table.maintenance.tables import (
    check_whole,
    disk_of,
    files,
    golden,
    names,
    open_table,
    orphans,
)
from tests.unit.table.tables import new_table, rows

HOUR = 3_600_000


def test_a_tag_is_of_the_latest_snapshot_unless_another_is_named() -> None:
    store = golden("layout_data_dir")
    assert create_tag(store, "latest").snapshot == store.snapshots.get(6)
    assert create_tag(store, "third", 3).snapshot == store.snapshots.get(3)
    assert tag_files(store).names() == ["latest", "third"]
    check_whole(store)


def test_invalid_tags_are_refused() -> None:
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


def test_tags_expire_after_their_time() -> None:
    store = golden("layout_data_dir")
    evolve(store.schemas, [SetOption("tag.default-time-retained", "2 h")], True, now=1)
    create_tag(store, "short", 2, retain_millis=1)
    create_tag(store, "long", 2, retain_millis=HOUR)
    assert create_tag(store, "by option", 2).retained_nanos == 2 * HOUR * 1_000_000
    store.ambient.now_millis()
    assert expire_tags(store) == ["short"]
    assert tag_files(store).names() == ["by option", "long"]


def test_files_are_deleted_with_the_last_tag_that_needs_them() -> None:
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


@pytest.mark.parametrize("case", ["layout_data_dir", "changelog_decoupled", "levels_partial", "dv_pk", "tags_expired"])
@pytest.mark.parametrize("most_files", [0, 100])
def test_tags_deleted_together_leave_no_orphans(case: str, most_files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.table.maintenance.tag_deletion.MOST_FILES", most_files)
    store = golden(case)
    for number in store.snapshots.ids():
        create_tag(store, f"a{number}", number)
    create_tag(store, "again", store.snapshots.ids()[0])
    create_tag(store, "stays", store.snapshots.ids()[1])
    before = tag_files(store).names()
    expire_snapshots(store, retain_max=1, protect_users=0)
    gone = [name for name in before if name != "stays"]
    delete_tags(store, [*gone, "missing", *gone])
    assert tag_files(store).names() == ["stays"]
    check_whole(store)
    assert orphans(store) == set()


def test_other_tags_are_read_once_to_delete_one() -> None:
    store = golden("layout_data_dir")
    for number in range(30):
        create_tag(store, f"a{number}", 1 + number % 6)
    others = len(tag_files(store).names()) - 1
    expire_snapshots(store, retain_max=1, protect_users=0)
    log = store.storage.log  # type: ignore[attr-defined]
    before = len(log)
    delete_tag(store, "a0")
    read = [operation.path for operation in log[before:] if operation.name == "read" and "/tag/tag-" in operation.path]
    assert len(read) == others + 2
    check_whole(store)
    assert orphans(store) == set()


def test_tags_that_are_deleted_together_are_read_twice() -> None:
    """They were all read two to four times for each tag that expired: 200 of 3,000 took more than a minute."""
    store = golden("layout_data_dir")
    for number in range(30):
        create_tag(store, f"a{number}", 1 + number % 6, retain_millis=1)
    expire_snapshots(store, retain_max=1, protect_users=0)
    log = store.storage.log  # type: ignore[attr-defined]
    before = len(log)
    assert len(expire_tags(store)) == 30
    assert sum(operation.name == "read" and "/tag/tag-" in operation.path for operation in log[before:]) <= 3 * 30


def test_deleting_the_tag_of_an_existing_snapshot_deletes_no_files() -> None:
    store = golden("layout_data_dir")
    before = files(store)
    create_tag(store, "a", 2)
    delete_tag(store, "a")
    assert files(store) == before


def test_deleting_the_oldest_tags_leaves_no_orphans() -> None:
    for case in ("changelog_decoupled", "levels_partial", "dv_pk", "tags_expired"):
        store = golden(case)
        first = store.snapshots.ids()[0]
        create_tag(store, "old", first)
        expire_snapshots(store, retain_max=1, protect_users=0)
        check_whole(store)
        delete_tag(store, "old")
        check_whole(store)
        assert orphans(store) == set(), case


def test_an_expired_snapshot_with_a_tag_can_be_tagged_again() -> None:
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


def test_a_tag_created_during_the_delete_of_another_keeps_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_tags_created_before_a_local_time_are_deleted() -> None:
    store = golden("layout_data_dir")
    store = replace(store, ambient=replace(store.ambient, zone_offset_millis=lambda _: 8 * HOUR))
    create_tag(store, "ends", 2, retain_millis=1000 * HOUR)
    made = store.ambient.now_millis()
    assert expire_tags(store, older_than=made - HOUR) == []
    assert expire_tags(store, older_than=made + HOUR) == ["ends"]


def test_the_creation_time_of_permanent_tags_is_that_of_their_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1"})
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit()
    table.create_tag("old")
    table.create_tag("young")
    os.utime(Path(table.path) / "tag/tag-old", (1_000, 1_000))
    assert table.expire_tags(older_than=1_000_000) == []
    assert table.expire_tags(older_than=1_000_001) == ["old"]
