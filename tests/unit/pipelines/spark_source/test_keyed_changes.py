"""Changes of rows with a key that tasks of Spark write, each its own buckets: one commit, or nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError
from penstock.pipelines.spark_source.keyed_changes import KeyedChanges, spread_by_bucket
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER
from penstock.table.buckets.layout import Layout
from penstock.table.buckets.route import buckets_of
from tests.invariants import check_invariants

Change = tuple[int, int | None, int | None]  # the kind, the key of the old row, the key of the new row
NAMES = ["id", "v"]


@pytest.fixture
def table(tmp_path: Path) -> penstock.Table:
    script = """CREATE DATABASE d; CREATE TABLE d.t (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('bucket' = '4', 'changelog-producer' = 'input'); INSERT INTO d.t SELECT range, 'old' FROM range(40)"""
    penstock.sql(script, tmp_path, options={"local.sync": "false"})
    return penstock.Catalog(tmp_path, {"local.sync": "false"}).table("d.t")


def changes(*rows: Change) -> pa.RecordBatch:
    """Return a batch as Spark gives it: the kind, the old row, the new row."""
    columns: list[pa.Array] = [pa.array([kind for kind, _, _ in rows], pa.int8())]
    for place, text in ((1, "old"), (2, "new")):
        keys = [row[place] for row in rows]
        columns += [pa.array(keys, pa.int32()), pa.array([None if key is None else text for key in keys])]
    return pa.RecordBatch.from_arrays(columns, names=["_kind", *(f"_old_{name}" for name in NAMES), *NAMES])


def by_bucket(table: penstock.Table, rows: list[Change]) -> list[pa.RecordBatch]:
    """Return the changes of two tasks: those of the buckets 0 and 1, and those of 2 and 3."""
    keys = pa.array([new if old is None else old for _, old, new in rows], pa.int32())
    buckets = buckets_of(Layout.of(table.definition), pa.RecordBatch.from_arrays([keys], names=["id"]))
    chosen = [
        [row for row, bucket in zip(rows, buckets, strict=True) if bool(bucket < 2) is low] for low in (True, False)
    ]
    assert all(chosen), "a task without rows tests nothing"
    return [changes(*part) for part in chosen]


def statement(table: penstock.Table) -> KeyedChanges:
    store = table.scan().store
    return KeyedChanges(store, store.snapshots.latest(), {}, "MERGE", "a job")


def run(changed: KeyedChanges, *tasks: pa.RecordBatch) -> None:
    taken = [changed.take([batch]) for batch in tasks]
    refused = [reason for _, reason in taken if reason is not None]
    changed.commit([message for messages, _ in taken for message in messages], refused, None)


def files(table: penstock.Table) -> set[Path]:
    return {path for path in Path(table.path).rglob("*") if path.is_file()}


def content(table: penstock.Table) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table.refresh().scan().to_arrow().to_pylist()}


def test_changes_of_several_tasks_are_one_commit(table: penstock.Table) -> None:
    before = table.latest_snapshot
    rows: list[Change] = [(UPDATE_AFTER, key, key) for key in range(10)]
    rows += [(DELETE, key, None) for key in range(10, 20)] + [(INSERT, None, key) for key in range(100, 110)]
    run(statement(table), *by_bucket(table, rows))
    expected = dict.fromkeys([*range(10), *range(100, 110)], "new") | dict.fromkeys(range(20, 40), "old")
    assert content(table) == expected
    latest = table.latest_snapshot
    assert before is not None
    assert latest is not None
    assert latest.id == before.id + 1
    kinds = table.changes(before.id, latest.id)["rowkind"].value_counts().to_pylist()
    assert {kind["values"]: kind["counts"] for kind in kinds} == {"+U": 10, "-U": 10, "-D": 10, "+I": 10}
    check_invariants(table)


def test_changes_that_one_task_refuses_are_not_written_by_the_others(table: penstock.Table) -> None:
    before, rows = files(table), [(UPDATE_AFTER, key, key) for key in range(10)]
    low, high = by_bucket(table, rows)
    moved = pa.concat_batches([high, changes((UPDATE_AFTER, 3, 300))])
    with pytest.raises(ConfigError, match="part of the key and cannot be changed"):
        run(statement(table), low, moved)
    assert files(table) == before


def test_a_bucket_that_two_tasks_wrote_is_refused(table: penstock.Table) -> None:
    before = files(table)
    with pytest.raises(ConfigError, match="two tasks wrote the same bucket") as caught:
        run(statement(table), changes((UPDATE_AFTER, 1, 1)), changes((UPDATE_AFTER, 1, 1)))
    assert "run the statement again" in str(caught.value)
    assert files(table) == before


def test_a_commit_of_another_job_is_a_conflict_that_leaves_no_files(table: penstock.Table, tmp_path: Path) -> None:
    changed = statement(table)
    penstock.sql("UPDATE d.t SET v = 'other' WHERE id = 1", tmp_path)
    before = files(table)
    rows: list[Change] = [(UPDATE_AFTER, key, key) for key in range(10)]
    with pytest.raises(CommitConflict, match="wrote to a bucket that this job also writes to"):
        run(changed, *by_bucket(table, rows))
    assert files(table) == before
    assert content(table)[1] == "other"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "options", "spread"),
    [
        ("id INT, PRIMARY KEY (id) NOT ENFORCED", "'bucket' = '4'", {"buckets": 4, "keys": ["id"]}),
        ("id INT, a STRING, PRIMARY KEY (id, a) NOT ENFORCED", "'bucket' = '4', 'bucket-key' = 'a'",
         {"buckets": 4, "keys": ["a"]}),
        ("id INT, PRIMARY KEY (id) NOT ENFORCED", "'bucket' = '1'", None),
        ("id INT, PRIMARY KEY (id) NOT ENFORCED", "'bucket' = '-1'", None),
        ("id INT, PRIMARY KEY (id) NOT ENFORCED", "'bucket' = '-2'", None),
        ("id INT, PRIMARY KEY (id) NOT ENFORCED", "'bucket' = '4', 'bucket-function.type' = 'mod'", None),
        ("id INT, PRIMARY KEY (id) NOT ENFORCED", "'bucket' = '4', 'changelog-producer' = 'full-compaction'", None),
        ("id TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED", "'bucket' = '4'", None),
        ("id DECIMAL(20, 2), PRIMARY KEY (id) NOT ENFORCED", "'bucket' = '4'", None),
        ("id INT", "'bucket' = '4', 'bucket-key' = 'id'", None),
    ],
)  # fmt: skip
def test_tables_whose_changes_are_sent_to_tasks_by_bucket(
    tmp_path: Path, columns: str, options: str, spread: dict[str, object] | None
) -> None:
    penstock.sql(f"CREATE DATABASE d; CREATE TABLE d.t ({columns}) WITH ({options})", tmp_path)
    assert spread_by_bucket(penstock.Catalog(tmp_path).table("d.t").store) == spread
