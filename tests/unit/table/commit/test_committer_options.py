"""Options of commits, files and reads that change what is written: each seen in the table's own metadata."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.table.meta.entries import FileKind
from penstock.table.meta.live import changelog_entries, delta_entries, live_entries

COLUMNS = [("id", "INT"), ("a", "INT"), ("b", "INT")]


def made(tmp_path: Path, options: dict[str, str], keys: list[str] | None = None) -> penstock.Table:
    return penstock.create_table(str(tmp_path / "t"), COLUMNS, primary_keys=keys or [], options=options)


def rows(*ids: int) -> pa.Table:
    numbers = pa.array(ids, pa.int32())
    return pa.table({"id": numbers, "a": numbers, "b": numbers})


def commit(table: penstock.Table, *ids: int, identifier: int | None = None) -> list[object]:
    with table.writer(commit_user=None if identifier is None else "job") as writer:
        if ids:
            writer.write(rows(*ids))
        return list(writer.commit(identifier))


@pytest.mark.parametrize(
    ("options", "identifier", "snapshots"),
    [
        ({}, None, 0),
        ({}, 1, 0),
        ({"commit.force-create-snapshot": "true"}, None, 0),
        ({"commit.force-create-snapshot": "true"}, 1, 1),
        ({"snapshot.ignore-empty-commit": "false"}, None, 1),
        ({"snapshot.ignore-empty-commit": "true"}, 1, 0),
    ],
)
def test_a_commit_without_rows_creates_a_snapshot_if_configured(
    tmp_path: Path, options: dict[str, str], identifier: int | None, snapshots: int
) -> None:
    table = made(tmp_path, options)
    assert len(commit(table, identifier=identifier)) == snapshots
    assert len(table.snapshots) == snapshots


def test_a_compaction_alone_makes_no_empty_snapshot(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "1", "write-only": "true", "snapshot.ignore-empty-commit": "false"}, ["id"])
    for number in range(3):
        commit(table, number)
    assert [snapshot.commit_kind for snapshot in table.compact()] == ["COMPACT"]


def test_commit_users_begin_with_the_prefix(tmp_path: Path) -> None:
    table = made(tmp_path, {"commit.user-prefix": "etl"})
    commit(table, 1)
    table.delete("id = 1")
    assert all(snapshot.commit_user.startswith("etl_") for snapshot in table.snapshots)
    commit(table, 2, identifier=1)
    assert table.latest_snapshot is not None
    assert table.latest_snapshot.commit_user == "job"


def test_statistics_cover_the_first_columns_and_columns_with_a_mode(tmp_path: Path) -> None:
    table = made(tmp_path, {"metadata.stats-keep-first-n-columns": "1", "fields.b.stats-mode": "full"})
    commit(table, 1, 2)
    [entry] = live_entries(table.store, table.latest_snapshot)
    assert entry.file.value_stats_cols == ("id", "b")


def test_changelog_files_have_a_separate_statistics_mode(tmp_path: Path) -> None:
    options = {"bucket": "1", "changelog-producer": "input", "changelog-file.stats-mode": "none"}
    table = made(tmp_path, options, ["id"])
    commit(table, 1, 2)
    files = table.system("files").to_pylist()
    assert files
    assert all(name in files[0]["min_value_stats"] for name in ("id", "a", "b"))
    [entry] = changelog_entries(table.store, table.latest_snapshot)
    assert entry.file.value_stats_cols == ()


def test_deletes_in_manifests_have_no_statistics_if_configured(tmp_path: Path) -> None:
    table = made(tmp_path, {"manifest.delete-file-drop-stats": "true"})
    commit(table, 1, 2)
    with table.overwrite() as writer:
        writer.write(rows(3))
        writer.commit()
    entries = delta_entries(penstock.open_table(table.path).store, table.latest_snapshot)
    assert {entry.kind: entry.file.value_stats_cols for entry in entries} == {FileKind.DELETE: (), FileKind.ADD: None}


def test_batches_have_the_configured_size(tmp_path: Path) -> None:
    table = made(tmp_path, {"bucket": "1", "read.batch-size": "10"}, ["id"])
    commit(table, *range(25))
    commit(table, *range(20, 45))
    batches = list(table.scan().to_batches())
    assert max(batch.num_rows for batch in batches) <= 20  # a merge puts the batches of two runs together
    assert sum(batch.num_rows for batch in batches) == 45
    wide = list(table.scan(options={"read.batch-size": "1000"}).to_batches())
    assert max(batch.num_rows for batch in wide) > 20
    assert sum(batch.num_rows for batch in wide) == 45


def test_a_writer_starts_with_the_initial_number_of_dynamic_buckets(tmp_path: Path) -> None:
    table = made(tmp_path, {"dynamic-bucket.initial-buckets": "3"}, ["id"])
    commit(table, *range(100))
    assert {entry.bucket for entry in live_entries(table.store, table.latest_snapshot)} == {0, 1, 2}
    commit(table, *range(50, 150))
    assert table.scan().to_arrow().num_rows == 150
    limited = penstock.create_table(
        str(tmp_path / "limited"),
        COLUMNS,
        primary_keys=["id"],
        options={"dynamic-bucket.initial-buckets": "5", "dynamic-bucket.max-buckets": "2"},
    )
    commit(limited, *range(100))
    assert {entry.bucket for entry in live_entries(limited.store, limited.latest_snapshot)} == {0, 1}
