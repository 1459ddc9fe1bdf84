"""Snapshots published as Iceberg metadata: what pyiceberg reads of them, and what becomes of failures."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from penstock.table.iceberg.publication import publish
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.meta.store import TableStore
from penstock.table.schema.changes import SetOption
from penstock.table.usable import check_usable
from tests.iceberg import AT_TABLE, VECTORS, files_of, folder_of, iceberg_rows, newest, opened, ordered
from tests.unit.table.tables import new_table, rows

COLUMNS = [("id", "BIGINT NOT NULL"), ("name", "STRING"), ("day", "STRING")]
ONE_BUCKET = {"bucket": "1", **AT_TABLE}


def commit(table: Table, *values: tuple[object, ...]) -> None:
    with table.writer() as writer:
        writer.write(rows(table, *values))
        writer.commit()


def append_table(folder: Path, **options: str) -> Table:
    given = {"bucket": "-1", **AT_TABLE, **{key.replace("_", "."): text for key, text in options.items()}}
    return new_table(folder, COLUMNS, keys=(), partitions=("day",), options=given)


def content(table: Table) -> list[str]:
    return ordered(table.scan().to_arrow())


@pytest.mark.slow
def test_each_snapshot_of_an_append_table_is_read_by_pyiceberg(tmp_path: Path) -> None:
    table, seen = append_table(tmp_path), {}
    for number in range(4):
        commit(table, (number, "a", "mon"), (number + 10, None, "tue"))
        seen[number + 1] = content(table)
    table.drop_partitions([{"day": "mon"}])
    seen[5] = content(table)
    table.delete("id = 11")
    seen[6] = content(table)
    assert {number: ordered(iceberg_rows(folder_of(table), number)) for number in seen} == seen
    assert ordered(iceberg_rows(folder_of(table))) == seen[6]


def test_readers_prune_by_partitions_and_bounds(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    commit(table, (1, "a", "mon"), (2, "b", "tue"))
    commit(table, (9, "z", "mon"))
    found = opened(folder_of(table))
    assert [
        len(list(found.scan(row_filter=text).plan_files())) for text in ("day == 'tue'", "id > 5", "name < 'b'")
    ] == [
        1,
        1,
        1,
    ]


def test_a_table_with_keys_shows_what_a_full_compaction_merged(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, options=ONE_BUCKET)
    commit(table, (1, "a", "mon"), (2, "b", "mon"))
    assert ordered(iceberg_rows(folder_of(table))) == []
    table.compact()
    merged = content(table)
    assert ordered(iceberg_rows(folder_of(table))) == merged
    commit(table, (1, "newer", "mon"))
    assert ordered(iceberg_rows(folder_of(table))) == merged
    table.compact()
    assert ordered(iceberg_rows(folder_of(table))) == content(table) != merged


@pytest.mark.parametrize("trigger", ["9", "2"])
def test_the_number_of_levels_cannot_change(tmp_path: Path, trigger: str) -> None:
    """Readers of Iceberg saw replaced rows beside the rows that replace them."""
    table = new_table(tmp_path, COLUMNS, options=ONE_BUCKET)
    commit(table, (1, "a", "mon"), (2, "b", "mon"))
    table.compact()
    change = SetOption("num-sorted-run.compaction-trigger", trigger)
    with pytest.raises(ConfigError, match="number of levels cannot change from 6 to") as refused:
        table.store.evolve([change], check_usable)
    assert refused.value.hint is not None
    assert "num-levels = 6" in refused.value.hint
    table.store.evolve([change, SetOption("num-levels", "6")], check_usable)
    table = table.refresh()
    commit(table, (1, "newer", "mon"))
    table.compact()
    assert ordered(iceberg_rows(folder_of(table))) == content(table)


@pytest.mark.slow
def test_deletion_vectors_show_each_commit(tmp_path: Path) -> None:
    table, seen = new_table(tmp_path, COLUMNS, options={**ONE_BUCKET, **VECTORS}), {}
    for number in range(6):
        commit(table, (number, "a", "mon"), (number // 2, f"b{number}", "mon"), (number + 100, "c", "tue"))
        last = table.snapshots[-1].id
        seen[last] = content(table)
        assert ordered(iceberg_rows(folder_of(table))) == seen[last]
    assert any(name.endswith(".puffin") for name in files_of(folder_of(table)))
    assert {number: ordered(iceberg_rows(folder_of(table), number)) for number in seen} == seen


def test_deletes_of_an_append_table_by_deletion_vectors(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, keys=(), options={"bucket": "-1", **AT_TABLE, **VECTORS})
    commit(table, *((number, "a", "mon") for number in range(10)))
    for where in ("id = 3", "id IN (4, 5)"):
        table.delete(where)
        assert ordered(iceberg_rows(folder_of(table))) == content(table)
    assert len(content(table)) == 7


def test_the_history_never_decreases_when_a_clock_is_set_back(tmp_path: Path) -> None:
    """Java's Iceberg refuses metadata whose history goes back by more than a minute."""
    table, noon, back = append_table(tmp_path), 1_800_000_000_000, 25 * 3_600_000
    for number, now in enumerate((noon, noon - back, noon - back + 1, noon + 1)):
        ambient = replace(table.store.ambient, now_millis=lambda now=now: now)  # type: ignore[misc]
        commit(Table(replace(table.store, ambient=ambient)), (number, "a", "mon"))
        found = json.loads(newest(folder_of(table)).read_text())
        assert found["last-updated-ms"] >= found["snapshot-log"][-1]["timestamp-ms"]
    assert [entry["timestamp-ms"] - noon for entry in found["snapshot-log"]] == [0, 0, 0, 1]
    # The snapshots are recognised by their own times: none was published again.
    assert [snapshot["timestamp-ms"] - noon for snapshot in found["snapshots"]] == [0, -back, 1 - back, 1]


KILLED = """
import os, sys
import penstock
from penstock.table.commit import attempt
table = penstock.open_table(sys.argv[1])
attempt.publish_if_enabled = lambda store: os._exit(9)
with table.writer() as writer:
    writer.write(table.scan().to_arrow())
    writer.commit()
"""


@pytest.mark.slow
def test_the_next_commit_publishes_what_a_killed_process_did_not(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    commit(table, (1, "a", "mon"))
    import_path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, table.path], check=False, env={**os.environ, "PYTHONPATH": import_path}
    )
    assert done.returncode == 9
    assert [snapshot.id for snapshot in table.snapshots] == [1, 2]
    assert newest(folder_of(table)).name == "v1.metadata.json"
    commit(table, (3, "a", "mon"))
    assert [len(iceberg_rows(folder_of(table), number)) for number in (1, 2, 3)] == [1, 2, 3]


class Broken(LocalStorage):
    """A store that cannot write Iceberg metadata."""

    def write(self, path: str, data: bytes) -> None:
        if "/metadata/" in path:
            raise OSError(28, "no space left")
        super().write(path, data)


def test_a_commit_succeeds_when_its_metadata_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = append_table(tmp_path)
    with caplog.at_level(logging.WARNING):
        commit(Table(replace(table._store, storage=Broken(sync=False))), (1, "a", "mon"))
    assert "event=iceberg_metadata_failed table=shop.orders" in caplog.text
    assert not (folder_of(table) / "version-hint.text").exists()
    commit(table, (2, "a", "mon"))
    assert ordered(iceberg_rows(folder_of(table))) == content(table)


def test_publishing_again_changes_nothing(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    commit(table, (1, "a", "mon"))
    before = {path.name: path.read_bytes() for path in folder_of(table).iterdir()}
    assert publish(table._store) == 1
    assert {path.name: path.read_bytes() for path in folder_of(table).iterdir()} == before


def test_a_lost_or_damaged_folder_is_made_again(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    for number in range(3):
        commit(table, (number, "a", "mon"))
    newest(folder_of(table)).write_text("{")
    publish(table._store)
    assert ordered(iceberg_rows(folder_of(table))) == content(table)
    for path in folder_of(table).iterdir():
        path.unlink()
    commit(table, (9, "a", "mon"))
    assert ordered(iceberg_rows(folder_of(table))) == content(table)
    for path in folder_of(table).glob("*.avro"):
        path.write_bytes(b"Obj\x01")
    table.delete("id = 1")
    assert ordered(iceberg_rows(folder_of(table))) == content(table)


def test_metadata_of_a_table_that_already_has_snapshots_is_made_from_its_files(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", COLUMNS, partition_keys=["day"])
    commit(table, (1, "a", "mon"))
    commit(table, (2, "a", "tue"))
    assert table.publish_iceberg() is None
    assert not folder_of(table).exists()
    catalog.alter_table("shop.orders", [penstock.SetOption(*pair) for pair in AT_TABLE.items()])
    table = table.refresh()
    assert table.publish_iceberg() == 2
    assert ordered(iceberg_rows(folder_of(table))) == content(table)


class Counted(LocalStorage):
    """A store that records the names of the metadata files that are read."""

    seen: ClassVar[list[str]] = []

    def read(self, path: str) -> bytes:
        if "/metadata/" in path:
            self.seen.append(path.rpartition("/")[2])
        return super().read(path)


@pytest.mark.slow
def test_a_commit_reads_as_much_after_many_commits_as_after_few(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    counted = Table(replace(table._store, storage=Counted(sync=False)))
    reads = []
    for number in range(45):
        Counted.seen.clear()
        commit(counted, (number, "a", "mon"))
        reads.append(len(Counted.seen))
    # The hint twice, the metadata, the manifest list.
    assert max(reads[1:]) == min(reads[1:]) <= 4


@pytest.mark.slow
def test_small_manifests_are_merged(tmp_path: Path) -> None:
    table = new_table(
        tmp_path,
        COLUMNS,
        keys=(),
        options={"bucket": "-1", **AT_TABLE, "metadata.iceberg.compaction.max.file-num": "10"},
    )
    for number in range(21):
        commit(table, (number, "a", "mon"))
    tasks = opened(folder_of(table))
    assert len(tasks.current_snapshot().manifests(tasks.io)) < 10
    assert ordered(iceberg_rows(folder_of(table))) == content(table)
    assert len(iceberg_rows(folder_of(table), 5)) == 5


def test_a_branch_leaves_the_metadata_alone(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    commit(table, (1, "a", "mon"))
    table.create_tag("t")
    branch = table.create_branch("b", "t")
    commit(branch, (2, "a", "mon"))
    assert len(iceberg_rows(folder_of(table))) == 1


@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "none"])
def test_manifests_of_every_codec_and_form_are_read_again(tmp_path: Path, codec: str, legacy: str) -> None:
    more = {"metadata.iceberg.manifest-compression": codec, "metadata.iceberg.manifest-legacy-version": legacy}
    table = new_table(tmp_path, COLUMNS, keys=(), options={"bucket": "-1", **AT_TABLE, **more})
    commit(table, (1, "a", "mon"))
    commit(table, (2, "a", "mon"))
    table.delete("id = 1")
    assert ordered(iceberg_rows(folder_of(table))) == content(table)


def test_old_versions_are_kept_by_the_options(tmp_path: Path) -> None:
    def versions(**options: str) -> list[str]:
        table = new_table(
            tmp_path / str(len(options)) / "-".join(options.values()),
            COLUMNS,
            keys=(),
            options={"bucket": "-1", **AT_TABLE, **{f"metadata.iceberg.{key}": text for key, text in options.items()}},
        )
        for number in range(4):
            commit(table, (number, "a", "mon"))
        return sorted(name for name in files_of(folder_of(table)) if name.startswith("v") and name.endswith("json"))

    assert versions() == ["v4.metadata.json"]
    assert versions(**{"previous-versions-max": "2"}) == [f"v{number}.metadata.json" for number in (2, 3, 4)]
    assert len(versions(**{"delete-after-commit.enabled": "false"})) == 4


def test_metadata_outside_of_the_table(tmp_path: Path) -> None:
    table = new_table(
        tmp_path, COLUMNS, keys=(), options={"bucket": "-1", "metadata.iceberg.storage": "hadoop-catalog"}
    )
    commit(table, (1, "a", "mon"))
    assert not folder_of(table).exists()
    assert len(iceberg_rows(tmp_path / "warehouse" / "iceberg" / "shop" / "orders" / "metadata")) == 1


def test_metadata_of_a_dropped_table_is_not_used_again(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    uuids = []
    for _ in range(2):
        table = catalog.create_table("shop.t", COLUMNS, options={"metadata.iceberg.storage": "hadoop-catalog"})
        commit(table, (1, "a", "mon"))
        commit(table, (2, "a", "mon"))
        folder = tmp_path / "iceberg" / "shop" / "t" / "metadata"
        uuids.append(opened(folder).metadata.table_uuid)
        assert len(iceberg_rows(folder)) == 2
        names = {path.name for path in folder.glob("*.avro")}
        assert len(names) == 4
        catalog.drop_table("shop.t")
    assert len(set(uuids)) == 2


def test_expired_snapshots_leave_the_metadata(tmp_path: Path) -> None:
    table = append_table(tmp_path, **{"snapshot_num-retained_min": "2", "snapshot_num-retained_max": "2"})
    for number in range(8):
        commit(table, (number, "a", "mon"))
        if number == 2:
            table.create_tag("kept")
    found = opened(folder_of(table))
    left = {snapshot.id for snapshot in table.snapshots}
    assert {snapshot.snapshot_id for snapshot in found.metadata.snapshots} <= {3, *left, min(left) - 1}
    assert len(found.scan(snapshot_id=found.metadata.refs["kept"].snapshot_id).to_arrow()) == 3
    assert len(iceberg_rows(folder_of(table))) == 8
    named = {name for snapshot in found.metadata.snapshots for name in used_files(found, snapshot)}
    assert {name for name in files_of(folder_of(table)) if name.endswith(".avro")} == named


def test_expiry_by_hand_reaches_the_metadata_at_once(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    for number in range(4):
        commit(table, (number, "a", "mon"))
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert [snapshot.snapshot_id for snapshot in opened(folder_of(table)).metadata.snapshots] == [4]
    assert ordered(iceberg_rows(folder_of(table))) == content(table)


def test_tags_are_tags_of_iceberg(tmp_path: Path) -> None:
    def tags() -> dict[str, int]:
        refs = opened(folder_of(table)).metadata.refs
        return {name: ref.snapshot_id for name, ref in refs.items() if name != "main"}

    table = append_table(tmp_path)
    for number in range(3):
        commit(table, (number, "a", "mon"))
    table.create_tag("one", 1)
    assert tags() == {"one": 1}
    table.replace_tag("one", 2)
    table.rename_tag("one", "two")
    assert tags() == {"two": 2}
    table.expire_snapshots(retain_max=1, retain_min=1)
    commit(table, (9, "a", "mon"))
    assert tags() == {"two": 2}
    assert len(iceberg_rows(folder_of(table), 2)) == 2
    table.delete_tag("two")
    assert tags() == {}
    assert {snapshot.snapshot_id for snapshot in opened(folder_of(table)).metadata.snapshots} == {3, 4}


@pytest.mark.parametrize("published", [True, False])
def test_a_rollback_changes_the_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: bool) -> None:
    table = append_table(tmp_path, **{"metadata_iceberg_previous-versions-max": "9"})
    for number in range(5):
        commit(table, (number, "a", "mon"))
    with monkeypatch.context() as unpublished:
        if not published:  # the process died between the rollback and its metadata
            unpublished.setattr("penstock.table.maintenance.rollback.publish_if_enabled", lambda store: None)
        table.rollback_to(2)
    if published:
        assert len(iceberg_rows(folder_of(table))) == 2
        assert not (folder_of(table) / "v3.metadata.json").exists()
    for number in (7, 8, 9):
        commit(table, (number, "b", "mon"))
        assert ordered(iceberg_rows(folder_of(table))) == content(table)
    assert sorted(iceberg_rows(folder_of(table), 4)["id"].to_pylist()) == [0, 1, 7, 8]
    table.rollback_to(4)
    table.rollback_to(1)
    assert ordered(iceberg_rows(folder_of(table))) == content(table)


def test_a_rollback_changes_the_metadata_although_times_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a clock was set back all snapshots have one time: the new snapshot 3 passed for the one before."""
    table = append_table(tmp_path)
    table = Table(replace(table.store, ambient=replace(table.store.ambient, now_millis=lambda: 1_800_000_000_000)))
    for number in range(3):
        commit(table, (number, "a", "mon"))
    with monkeypatch.context() as unpublished:
        unpublished.setattr("penstock.table.maintenance.rollback.publish_if_enabled", lambda store: None)
        table.rollback_to(2)
    for number in (7, 8):
        commit(table, (number, "b", "mon"))
        assert ordered(iceberg_rows(folder_of(table))) == content(table)


def test_a_fast_forward_shows_the_branch(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    commit(table, (1, "a", "mon"))
    table.create_tag("t")
    branch = table.create_branch("b", "t")
    commit(branch, (2, "a", "mon"))
    commit(table, (3, "a", "mon"))
    table.fast_forward("b")
    assert sorted(iceberg_rows(folder_of(table))["id"].to_pylist()) == [1, 2]
    assert [snapshot.snapshot_id for snapshot in opened(folder_of(table)).metadata.snapshots] == [2]


def test_columns_change_in_the_metadata_too(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", [("id", "INT"), ("v", "FLOAT"), ("gone", "STRING")], options=AT_TABLE)
    with table.writer() as writer:
        writer.write(penstock_rows(table, {"id": [1], "v": [0.5], "gone": ["x"]}))
        writer.commit()
    catalog.alter_table(
        "shop.t",
        [
            penstock.RenameColumn("id", "number"),
            penstock.UpdateColumnType("number", "BIGINT"),
            penstock.UpdateColumnType("v", "DOUBLE"),
            penstock.DropColumn("gone"),
            penstock.AddColumn("more", "STRING"),
        ],
    )
    table = table.refresh()
    assert iceberg_rows(folder_of(table)).to_pylist() == [{"number": 1, "v": 0.5, "more": None}]
    with table.writer() as writer:
        writer.write(penstock_rows(table, {"number": [2**40], "v": [0.1], "more": ["y"]}))
        writer.commit()
    assert ordered(iceberg_rows(folder_of(table))) == content(table)
    assert len(opened(folder_of(table)).scan(row_filter="number > 5").to_arrow()) == 1


def penstock_rows(table: Table, columns: dict[str, list[Any]]) -> pa.Table:
    return pa.table(columns, table.schema)


def used_files(table: Any, snapshot: Any) -> set[str]:
    paths = [snapshot.manifest_list, *(manifest.manifest_path for manifest in snapshot.manifests(table.io))]
    return {path.rpartition("/")[2] for path in paths}


def test_another_writer_may_publish_the_same_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = append_table(tmp_path)
    commit(table, (1, "a", "mon"))
    place = "penstock.table.commit.attempt.publish_if_enabled"
    with monkeypatch.context() as unpublished:
        unpublished.setattr(place, lambda store: None)
        commit(table, (2, "a", "mon"))
    store = table._store

    class Raced(LocalStorage):
        def create(self, path: str, data: bytes) -> bool:
            if path.endswith("v2.metadata.json") and not Path(path).exists():
                publish(store)
            return super().create(path, data)

    publish(replace(store, storage=Raced(sync=False)))
    named = {
        name
        for snapshot in opened(folder_of(table)).metadata.snapshots
        for name in used_files(opened(folder_of(table)), snapshot)
    }
    assert {name for name in files_of(folder_of(table)) if name.endswith(".avro")} == named
    assert len(iceberg_rows(folder_of(table))) == 2


def test_the_metadata_has_what_the_format_asks_for(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    commit(table, (1, "a", "mon"))
    node = json.loads(newest(folder_of(table)).read_text())
    assert node["format-version"] == 2
    assert node["last-sequence-number"] == node["current-snapshot-id"] == 1
    assert node["snapshots"][0]["timestamp-ms"] == table.snapshots[0].time_millis
    assert node["partition-specs"][0]["fields"][0] == {
        "name": "day",
        "transform": "identity",
        "source-id": 2,
        "field-id": 1000,
    }
    assert TableStore.open(LocalStorage(), table.path).schema().fields[2].id == 2


def test_a_late_writer_keeps_the_metadata_of_newer_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that read the newest snapshot before another one was committed and published."""
    table = append_table(tmp_path)
    commit(table, (1, "a", "mon"))
    before = table.store.snapshots.latest()
    commit(table.refresh(), (2, "b", "mon"))
    expected, files = opened(folder_of(table)).metadata.snapshots, files_of(folder_of(table))
    read, answers = SnapshotFiles.latest, [before]
    monkeypatch.setattr(SnapshotFiles, "latest", lambda self: answers.pop() if answers else read(self))
    publish(table.store)
    assert not answers
    assert opened(folder_of(table)).metadata.snapshots == expected
    assert files_of(folder_of(table)) == files
    assert ordered(iceberg_rows(folder_of(table))) == content(table.refresh())
