"""Changes of rows without a key that tasks of Spark found: new rows in new files, old rows removed by their place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict
from penstock.pipelines.spark_source.file_changes import FileChanges
from penstock.pipelines.spark_source.row_metadata import placed_rows
from penstock.pipelines.spark_source.staged_rows import clear_staged
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER
from penstock.table.buckets.layout import Layout
from penstock.table.meta.store import TableStore
from penstock.table.operations.placed_rows import FILE, ROW
from penstock.table.read.plan import plan_state
from penstock.table.read.split_reader import SplitReader
from tests.invariants import check_invariants

Place = tuple[str | None, int | None]


@pytest.fixture(params=["false", "true"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> penstock.Table:
    script = f"""CREATE DATABASE d;
        CREATE TABLE d.t (id INT, v STRING) WITH ('deletion-vectors.enabled' = '{request.param}');
        INSERT INTO d.t SELECT range, 'old' FROM range(4); INSERT INTO d.t SELECT range, 'old' FROM range(4, 8)"""
    penstock.sql(script, tmp_path, options={"local.sync": "false"})
    return penstock.Catalog(tmp_path, {"local.sync": "false"}).table("d.t")


def places(store: TableStore) -> dict[int, Place]:
    layout = Layout.of(store.schema())
    reader = SplitReader(store, layout, store.schema().fields)
    found = (row for split in plan_state(store, layout, store.snapshots.latest()).splits
             for batch in placed_rows(reader, split) for row in batch.to_pylist())  # fmt: skip
    return {row["id"]: (row[FILE], row[ROW]) for row in found}


def changes(*rows: tuple[int, Place, int | None]) -> pa.RecordBatch:
    """Return a batch as Spark gives it: the kind, the place of the old row, the new row."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([kind for kind, _, _ in rows], pa.int8()),
            pa.array([place[0] for _, place, _ in rows], pa.string()),
            pa.array([place[1] for _, place, _ in rows], pa.int64()),
            pa.array([number for _, _, number in rows], pa.int32()),
            pa.array([None if number is None else "new" for _, _, number in rows]),
        ],
        names=["_kind", FILE, ROW, "id", "v"],
    )


def run(changed: FileChanges, *tasks: pa.RecordBatch) -> None:
    taken = [changed.take([batch], "job") for batch in tasks]
    paths = [path for _, path in taken if path is not None]
    changed.commit([message for messages, _ in taken for message in messages], paths, None)
    clear_staged(changed.store, "job", ())


def content(table: penstock.Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in table.refresh().scan().to_arrow().to_pylist())


def test_changes_of_several_tasks_are_one_commit(table: penstock.Table) -> None:
    store = table.scan().store
    base, at = store.snapshots.latest(), places(store)
    first = changes((UPDATE_AFTER, at[1], 100), (DELETE, at[5], None), (INSERT, (None, None), 200))
    run(FileChanges(store, base, {}), first, changes((DELETE, at[0], None), (UPDATE_AFTER, at[6], 300)))
    assert content(table) == [(2, "old"), (3, "old"), (4, "old"), (7, "old"), (100, "new"), (200, "new"), (300, "new")]
    latest = table.latest_snapshot
    assert base is not None
    assert latest is not None
    assert latest.id == base.id + 1
    check_invariants(table)


def test_rows_that_another_job_added_stay(table: penstock.Table, tmp_path: Path) -> None:
    store = table.scan().store
    base, at = store.snapshots.latest(), places(store)
    penstock.sql("INSERT INTO d.t VALUES (9, 'added')", tmp_path)
    run(FileChanges(store, base, {}), changes((DELETE, at[1], None)))
    assert (9, "added") in content(table)
    assert (1, "old") not in content(table)
    check_invariants(table)


def test_rows_that_another_job_changed_are_a_conflict_that_leaves_no_files(
    table: penstock.Table, tmp_path: Path
) -> None:
    store = table.scan().store
    base, at = store.snapshots.latest(), places(store)
    penstock.sql("DELETE FROM d.t WHERE id = 2", tmp_path)
    before = {path for path in Path(table.path).rglob("*") if path.is_file()}
    with pytest.raises(CommitConflict, match="another job"):
        run(FileChanges(store, base, {}), changes((UPDATE_AFTER, at[1], 100)))
    clear_staged(store, "job", ())
    assert content(table) == [(number, "old") for number in (0, 1, 3, 4, 5, 6, 7)]
    assert {path for path in Path(table.path).rglob("*") if path.is_file()} == before
