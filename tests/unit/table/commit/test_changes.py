"""Tables with row-tracking.enabled: commits number their rows, and nothing takes the numbers away."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.meta.live import live_entries


@pytest.fixture
def tracked(tmp_path: Path) -> penstock.Table:
    path = str(tmp_path / "t")
    return penstock.create_table(path, [("id", "INT")], options={"row-tracking.enabled": "true"})


def append(table: penstock.Table, *ids: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array(ids, pa.int32())}))
        writer.commit()


def first_ids(table: penstock.Table) -> list[tuple[int | None, int, int]]:
    """(first row id, rows, sequence number) of the live files."""
    files = (entry.file for entry in live_entries(table.store, table.latest_snapshot))
    return sorted((file.first_row_id, file.row_count, file.max_sequence) for file in files)


def test_each_commit_assigns_the_next_row_ids(tracked: penstock.Table) -> None:
    append(tracked, 1, 2, 3)
    append(tracked, 4)
    assert first_ids(tracked) == [(0, 3, 1), (3, 1, 2)]
    assert tracked.latest_snapshot is not None
    assert tracked.latest_snapshot.next_row_id == 4


def test_an_overwrite_assigns_new_row_ids(tracked: penstock.Table) -> None:
    append(tracked, 1, 2)
    with tracked.overwrite() as writer:
        writer.write(pa.table({"id": pa.array([7], pa.int32())}))
        writer.commit()
    assert first_ids(tracked) == [(2, 1, 2)]


def test_a_commit_after_a_conflict_assigns_later_row_ids(tracked: penstock.Table) -> None:
    with tracked.writer() as late:
        late.write(pa.table({"id": pa.array([5, 6], pa.int32())}))
        append(tracked, 1, 2, 3)
        late.commit()
    assert first_ids(tracked) == [(0, 3, 1), (3, 2, 2)]


def test_changes_that_would_lose_row_ids_are_refused(tracked: penstock.Table) -> None:
    for number in range(8):
        append(tracked, number, number + 100)
    assert tracked.compact(full=False) == []
    with pytest.raises(ConfigError, match="cannot be compacted by Penstock"):
        tracked.compact()
    with pytest.raises(ConfigError, match="cannot be compacted by Penstock"):
        tracked.sort(["id"])
    assert sum(rows for _, rows, _ in first_ids(tracked)) == 16


def test_marking_rows_as_deleted_keeps_ids(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}
    table = penstock.create_table(str(tmp_path / "t"), [("id", "INT")], options=options)
    append(table, 1, 2, 3)
    table.delete("id = 2")
    assert first_ids(table) == [(0, 3, 1)]
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 3]
