"""Snapshots: Java's JSON, the walk from hints to files, ids that are taken but once."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import TableCorrupt
from penstock.storage.base import Entry
from penstock.table.errors import SnapshotMissing
from penstock.table.meta.snapshot import CommitKind, Snapshot, parse_snapshot, snapshot_json
from penstock.table.meta.snapshot_files import SnapshotFiles
from tests.unit.storage.memory_store import MemoryStore

# As Java Paimon 1.3.1 wrote them: all that may be there, and as little as may be.
FULL = """\
{
  "version" : 3,
  "id" : 5,
  "schemaId" : 1,
  "baseManifestList" : "manifest-list-9-0",
  "baseManifestListSize" : 1069,
  "deltaManifestList" : "manifest-list-9-1",
  "deltaManifestListSize" : 989,
  "changelogManifestList" : "manifest-list-9-2",
  "changelogManifestListSize" : 990,
  "indexManifest" : "index-manifest-9-0",
  "commitUser" : "oracle",
  "commitIdentifier" : 9223372036854775807,
  "commitKind" : "OVERWRITE",
  "timeMillis" : 1795217034050,
  "logOffsets" : { },
  "totalRecordCount" : 30,
  "deltaRecordCount" : -6,
  "changelogRecordCount" : 6,
  "watermark" : -9223372036854775808,
  "statistics" : "stat-9-0",
  "properties" : {
    "range" : "0:7"
  },
  "nextRowId" : 0
}"""
LEAST = """\
{
  "version" : 3,
  "id" : 1,
  "schemaId" : 0,
  "baseManifestList" : "manifest-list-1-0",
  "deltaManifestList" : "manifest-list-1-1",
  "changelogManifestList" : null,
  "commitUser" : "oracle",
  "commitIdentifier" : 1,
  "commitKind" : "APPEND",
  "timeMillis" : 1795217034050,
  "logOffsets" : { },
  "totalRecordCount" : 6,
  "deltaRecordCount" : 6,
  "changelogRecordCount" : 0,
  "nextRowId" : 0
}"""


def snapshot(snapshot_id: int, time_millis: int = 0) -> Snapshot:
    return replace(parse_snapshot(LEAST.encode(), "snapshot-1"), id=snapshot_id, time_millis=time_millis)


def table_with(*ids: int) -> tuple[MemoryStore, SnapshotFiles]:
    store = MemoryStore()
    files = SnapshotFiles(store, "/t")
    for number in ids:
        assert files.create(snapshot(number, 1000 * number))
    return store, files


@pytest.mark.parametrize("text", [FULL, LEAST])
def test_snapshot_is_written_as_java_writes_it(text: str) -> None:
    assert snapshot_json(parse_snapshot(text.encode(), "snapshot-1")).decode() == text


def test_fields_of_later_releases_are_passed_over() -> None:
    node = json.loads(FULL) | {"uuid": "x", "operation": {"a": 1}}
    del node["logOffsets"]
    assert parse_snapshot(json.dumps(node).encode(), "s") == parse_snapshot(FULL.encode(), "s")


@pytest.mark.parametrize("cut", [0, 1, 100, len(FULL) - 1])
def test_a_cut_snapshot_names_its_file(cut: int) -> None:
    with pytest.raises(TableCorrupt, match="/t/snapshot/snapshot-5"):
        parse_snapshot(FULL.encode()[:cut], "/t/snapshot/snapshot-5")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 4}, "newer than 3"),
        ({"commitKind": "TRUNCATE"}, "'TRUNCATE' is not a commit kind"),
        ({"baseManifestList": None}, "no 'baseManifestList'"),
        ({"id": True}, "'id' should be a whole number"),
        ({"timeMillis": 2**63}, "'timeMillis' should be a number of 64 bits"),
        ({"properties": {"a": 1}}, "'properties' should be text"),
    ],
)
def test_invalid_snapshots_are_refused_with_the_reason(change: dict[str, object], message: str) -> None:
    with pytest.raises(TableCorrupt, match=message):
        parse_snapshot(json.dumps(json.loads(FULL) | change).encode(), "snapshot-5")


def test_no_snapshot_yet() -> None:
    _, files = table_with()
    assert (files.latest_id(), files.earliest_id(), files.latest()) == (None, None, None)
    assert list(files.newest_first()) == []


def test_snapshots_are_read_side_by_side() -> None:
    store, files = table_with(*range(1, 9))
    both, read = threading.Barrier(2), store.read

    def reads_two(path: str) -> bytes:
        both.wait(timeout=60)  # each read waits for another one
        return read(path)

    store.read = reads_two  # type: ignore[method-assign]
    assert [found.id for found in files.find_all([8, 3, 5, 4])] == [8, 3, 5, 4]


def test_snapshots_that_expired_are_left_out_of_those_that_are_read() -> None:
    _, files = table_with(2, 3)
    assert list(files.find_all([1, 2, 3])) == [files.get(2), files.get(3)]
    assert list(files.find_all([])) == []


def test_a_snapshot_id_is_committed_once_and_the_hint_is_updated() -> None:
    store, files = table_with(1, 2)
    assert not files.create(replace(snapshot(2), commit_user="other"))
    assert files.get(2) == snapshot(2, 2000)
    assert store.files["/t/snapshot/LATEST"] == b"2"


@pytest.mark.parametrize("hint", [None, b"3", b"2", b"9", b"", b"\xff", b"-1", b"1" * 30, b"x"])
def test_the_latest_snapshot_is_found_despite_a_wrong_hint(hint: bytes | None) -> None:
    store, files = table_with(2, 3)
    del store.files["/t/snapshot/LATEST"]
    if hint is not None:
        store.files["/t/snapshot/LATEST"] = hint
    assert files.latest_id() == 3


@pytest.mark.parametrize("hint", [None, b"2", b"1", b"9", b"", b"x"])
def test_the_earliest_snapshot_is_found_despite_a_wrong_hint(hint: bytes | None) -> None:
    store, files = table_with(2, 3)
    if hint is not None:
        store.files["/t/snapshot/EARLIEST"] = hint
    assert files.earliest_id() == 2


def test_a_correct_hint_avoids_a_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    store, files = table_with(1, 2)
    monkeypatch.setattr(store, "list", lambda path: pytest.fail(f"listed {path}"))
    assert files.latest_id() == 2


def test_a_commit_succeeds_if_its_hint_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    store, files = table_with(1)

    def refuse(path: str, data: bytes) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(store, "create", lambda path, data: store.files.setdefault(path, data) is data)
    monkeypatch.setattr(store, "write", refuse)
    assert files.create(snapshot(2))
    assert files.latest_id() == 2


def test_the_second_of_two_halves_writes_the_hint_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    store, files = table_with(1)
    halves = files.for_two_halves()
    assert halves.create(snapshot(2))
    assert store.files["/t/snapshot/LATEST"] == b"1"
    assert files.latest_id() == 2
    monkeypatch.setattr(store, "list", lambda path: pytest.fail(f"listed {path}"))
    assert halves.latest() == snapshot(2)
    assert halves.create(snapshot(3))
    halves.settle_hint()
    assert store.files["/t/snapshot/LATEST"] == b"3"
    assert halves.latest_id() == files.latest_id() == 3


@pytest.mark.parametrize(("rolled_back", "hint"), [(False, b"2"), (True, b"1")])
def test_a_first_half_without_a_second_gets_its_hint_if_it_still_exists(rolled_back: bool, hint: bytes) -> None:
    store, files = table_with(1)
    halves = files.for_two_halves()
    halves.create(snapshot(2))
    if rolled_back:
        store.delete("/t/snapshot/snapshot-2")
    halves.settle_hint()
    assert store.files["/t/snapshot/LATEST"] == hint
    assert files.latest_id() == halves.latest_id() == int(hint)


def test_a_second_half_finds_what_others_have_committed_since_the_first() -> None:
    _, files = table_with(1)
    halves = files.for_two_halves()
    halves.create(snapshot(2))
    files.create(snapshot(3))
    assert not halves.create(snapshot(3, 7))
    assert halves.latest_id() == 3


def test_newest_first_ends_where_snapshots_end() -> None:
    store, files = table_with(1, 2, 3, 4)
    walk = files.newest_first()
    assert next(walk).id == 4
    store.delete("/t/snapshot/snapshot-2")
    assert [node.id for node in walk] == [3]


def test_snapshots_far_back_are_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    store, files = table_with(*range(5, 78))
    together, read, reads = threading.Barrier(8, timeout=60), store.read, list[int]()

    def reading(path: str) -> bytes:
        number = int(path.rpartition("-")[2])
        reads.append(number)
        if number <= 77 - 50:
            together.wait()  # passes if eight snapshots are read at a time
        return read(path)

    walk = files.newest_first(files.get(77))
    monkeypatch.setattr(store, "read", reading)
    assert [next(walk).id for _ in range(50)] == list(range(77, 27, -1))
    assert min(reads) == 28
    assert [node.id for node in walk] == list(range(27, 4, -1))  # 24 numbers; snapshot 4 has expired


def test_missing_and_expired_snapshots_have_different_errors() -> None:
    _, files = table_with(3, 4)
    with pytest.raises(SnapshotMissing, match=r"snapshot 2 has expired[\s\S]*3 to 4[\s\S]*tag"):
        files.get(2)
    with pytest.raises(SnapshotMissing, match="snapshot 5 does not exist"):
        files.get(5)
    with pytest.raises(SnapshotMissing, match="has no snapshots"):
        table_with()[1].get(1)


def test_changelogs_are_kept_after_their_snapshots() -> None:
    store, files = table_with(1, 2)
    assert files.create_changelog(files.get(1))
    assert files.create_changelog(files.get(1))  # again, as after a lost reply
    assert not files.create_changelog(snapshot(1, 5000))
    store.delete("/t/snapshot/snapshot-1")
    assert files.find_changelog(1) == snapshot(1, 1000)
    assert files.changelogs.latest() == files.changelogs.earliest() == 1
    assert files.find(1) is None


def test_a_branch_has_separate_snapshots() -> None:
    store = MemoryStore()
    SnapshotFiles(store, "/t", "dev").create(snapshot(1))
    assert "/t/branch/branch-dev/snapshot/snapshot-1" in store.files
    assert SnapshotFiles(store, "/t").latest_id() is None


longs = st.integers(-(2**63), 2**63 - 1)
snapshots = st.builds(
    Snapshot,
    id=longs,
    schema_id=longs,
    base_manifest_list=st.text(),
    delta_manifest_list=st.text(),
    commit_user=st.text(),
    commit_identifier=longs,
    commit_kind=st.sampled_from(CommitKind),
    time_millis=longs,
    total_record_count=longs,
    delta_record_count=longs,
    base_manifest_list_size=st.none() | longs,
    changelog_manifest_list=st.none() | st.text(),
    changelog_manifest_list_size=st.none() | longs,
    index_manifest=st.none() | st.text(),
    watermark=st.none() | longs,
    statistics=st.none() | st.text(),
    properties=st.dictionaries(st.text(), st.text()),
    next_row_id=longs,
)


@given(snapshots)
def test_snapshots_survive_their_file(item: Snapshot) -> None:
    assert parse_snapshot(snapshot_json(item), "snapshot-1") == item


@pytest.mark.parametrize("behind", [0, 1, 2, 3])
@pytest.mark.parametrize("hint", [None, b"1", b"3", b"9", b"nonsense"])
def test_the_latest_snapshot_is_found_past_a_listing_that_is_behind(behind: int, hint: bytes | None) -> None:
    class Behind(MemoryStore):
        """Lists what there was some writes ago."""

        def list(self, path: str) -> list[Entry]:
            found = sorted(super().list(path), key=lambda entry: entry.name)
            return [entry for entry in found if entry.name in {f"snapshot-{i}" for i in range(1, 5 - behind)}]

    full = table_with(1, 2, 3, 4)[0]
    store = Behind(full.files)
    store.delete("/t/snapshot/LATEST")
    if hint is not None:
        store.write("/t/snapshot/LATEST", hint)
    assert SnapshotFiles(store, "/t").latest_id() == 4
