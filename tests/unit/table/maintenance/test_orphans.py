"""Orphans: Java leaves none but after a rollback, and no live file is ever one."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.storage.local import LocalStorage
from penstock.table.maintenance.orphans import DAY, find_orphans
from penstock.table.operations.executor import OwnProcess
from tests.golden.cases import case_names
from tests.orphans import remove_orphans
from tests.unit.table.maintenance.tables import LATE, ROOT, check_whole, files, golden, orphans
from tests.unit.table.tables import content, new_table, rows

# A rollback leaves the files of what it takes back.
WITH_ORPHANS = {"rollback_consumers"}


@pytest.mark.parametrize("case", case_names())
def test_golden_tables_have_no_orphans(case: str) -> None:
    store = golden(case)
    check_whole(store)
    assert bool(orphans(store)) == (case in WITH_ORPHANS)


def test_removing_orphans_keeps_the_table_complete() -> None:
    store = golden("rollback_consumers")
    before, lost = files(store), orphans(store)
    assert remove_orphans(store, older_than=LATE, executor=OwnProcess()).deleted == len(lost) > 0
    assert files(store) == before - {path.removeprefix(f"{ROOT}/") for path in lost}
    check_whole(store)
    assert orphans(store) == set()


def test_files_that_cannot_be_deleted_are_logged_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_table(tmp_path).store
    lost = [f"{store.paths.manifest_folder}/manifest-lost-{number}" for number in range(3)]
    for path in lost:
        store.storage.write(path, b"x")
    delete = LocalStorage.delete

    def failing(storage: LocalStorage, path: str) -> None:
        if path != lost[0]:
            raise PermissionError("not yours")
        delete(storage, path)

    monkeypatch.setattr(LocalStorage, "delete", failing)
    result = remove_orphans(store, older_than=LATE, executor=OwnProcess())
    assert (result.deleted, result.failed) == (1, 2)
    [message] = [record.getMessage() for record in caplog.records if "files_not_deleted" in record.getMessage()]
    assert "files=2" in message
    assert f"first={lost[1]} reason=not yours" in message


def test_foreign_files_in_the_tables_folders_are_found() -> None:
    store = golden("part_two_keys")
    folder = next(path for path in files(store) if "bucket-0" in path).rpartition("/")[0]
    lost = [f"{folder}/data-lost-0.parquet", "manifest/manifest-lost-0", "index/index-lost-0", "statistics/stat-lost"]
    temporary = ["snapshot/.snapshot-9.aa.tmp", "schema/.schema-9.aa.tmp", "_penstock_writes/job/rows.arrow"]
    kept = ["_penstock_writes/README", "snapshot/LATEST.note", "README", "docs/a=b.txt", "schema/schema-0.bak"]
    for name in (*lost, *temporary, *kept):
        store.storage.write(f"{ROOT}/{name}", b"x")
    assert orphans(store) == {f"{ROOT}/{name}" for name in (*lost, *temporary)}


def test_recent_files_are_kept_for_running_commits() -> None:
    store = golden("append_unaware")
    store.storage.write(f"{ROOT}/manifest/manifest-new-0", b"x")
    written = store.storage.disk.clock()  # type: ignore[attr-defined]
    assert find_orphans(store, older_than=written - DAY, executor=OwnProcess()) == []
    assert [orphan.path for orphan in find_orphans(store, executor=OwnProcess())] == [
        f"{ROOT}/manifest/manifest-new-0"
    ]  # years later


def test_files_that_only_branches_use_are_kept() -> None:
    store = golden("branches")
    for number in store.snapshots.ids():
        store.storage.delete(store.paths.snapshot(number))
    store.storage.delete(store.paths.tag("base"))
    lost = orphans(store)
    branch = store.on_branch("dev")
    check_whole(branch)
    remove_orphans(store, older_than=LATE, executor=OwnProcess())
    assert lost
    check_whole(branch)


def test_a_commit_during_the_listing_loses_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Used files are read after the listing, otherwise the files of this commit would be orphans."""
    table = new_table(tmp_path, options={"bucket": "1"})
    real, listed = LocalStorage.list, []
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, (1, "a", None)))
        messages = writer.prepare(1)

        def listing(self: LocalStorage, folder: str) -> object:
            found = list(real(self, folder))
            if folder.endswith("bucket-0") and not listed:
                listed.extend(found)
                writer.commit_messages(messages, 1)
            return iter(found)

        monkeypatch.setattr(LocalStorage, "list", listing)
        assert find_orphans(table.store, older_than=LATE, executor=OwnProcess()) == []
    assert [entry.name for entry in listed] == [messages[0].new_files[0].name]
    assert content(table) == [(1, "a", None)]


def test_a_stale_listing_of_snapshots_makes_no_file_an_orphan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, options={"bucket": "1"})
    for number in range(3):
        with table.writer(commit_user="etl") as writer:
            writer.write(rows(table, (number, "a", None)))
            writer.commit(number)
    real = LocalStorage.list

    def lagging(self: LocalStorage, folder: str) -> object:
        return [entry for entry in real(self, folder) if entry.name != "snapshot-3"]

    monkeypatch.setattr(LocalStorage, "list", lagging)
    assert find_orphans(table.store, older_than=LATE, executor=OwnProcess()) == []
