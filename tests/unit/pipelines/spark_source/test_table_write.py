"""The tasks and the driver of a Spark write, run one after another in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CommitConflict, ConfigError
from penstock.pipelines.spark_source.staged_rows import stage_rows
from penstock.pipelines.spark_source.table_write import TableWrite, TaskRows
from penstock.storage.local import LocalStorage
from penstock.table.buckets.input_rows import RowRefused
from penstock.table.errors import HistoryExpired, RowsUnread
from penstock.table.handle import Table

SCHEMA = pa.schema([("id", pa.int32()), ("dt", pa.string())])
KINDS_OF_TABLES = {
    "append": ([], {}),
    "append with buckets": ([], {"bucket": "2", "bucket-key": "id"}),
    "keys": (["id", "dt"], {"bucket": "2"}),
    "dynamic buckets": (["id", "dt"], {"bucket": "-1"}),
    "keys across partitions": (["id"], {"bucket": "-1"}),
}
OVERWRITES = {
    "append": (False, {}),
    "overwrite": (True, {}),
    "of a partition": (True, {"overwrite-partition": "dt=a"}),
    "dynamic": (True, {"partitionOverwriteMode": "dynamic"}),
}


def batch(*rows: tuple[int | None, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": key, "dt": day} for key, day in rows], SCHEMA)


def failing(*rows: tuple[int | None, str]) -> Iterator[pa.RecordBatch]:
    yield batch(*rows)
    raise OSError(5, "the task's disk")


def held(table: Table) -> list[tuple[int, str]]:
    return sorted((row["id"], row["dt"]) for row in table.refresh().scan().to_arrow().to_pylist())


def files(table: Table) -> set[str]:
    return {str(path) for path in Path(table.path).rglob("*") if path.is_file() and "schema" not in path.parts}


@pytest.fixture(params=KINDS_OF_TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    keys, options = KINDS_OF_TABLES[request.param]
    catalog = penstock.Catalog(str(tmp_path), {"local.sync": "false"})
    catalog.create_database("d")
    made = catalog.create_table("d.t", [("id", "INT NOT NULL"), ("dt", "STRING NOT NULL")], keys, ["dt"], options)
    with made.writer() as writer:
        writer.write(pa.Table.from_batches([batch((1, "a"), (2, "b"))]))
        writer.commit()
    return made


@pytest.fixture(params=OVERWRITES)
def write(request: pytest.FixtureRequest, table: Table) -> TableWrite:
    overwrite, options = OVERWRITES[request.param]
    return TableWrite.of({"path": table.path, **options}, overwrite)


def test_a_statement_whose_snapshot_has_expired_is_refused(tmp_path: Path) -> None:
    script = """CREATE DATABASE d; CREATE TABLE d.t (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('bucket' = '1'); INSERT INTO d.t VALUES (1, 0); INSERT INTO d.t VALUES (1, 1);
        CALL sys.expire_snapshots('d.t', 1)"""
    penstock.sql(script, tmp_path, options={"local.sync": "false"})
    table = penstock.Catalog(tmp_path, {"local.sync": "false"}).table("d.t")
    read = {"path": table.path, "row-changes": "UPDATE", "planned-snapshot": "1"}
    old, new = [pa.array([1], pa.int32()), pa.array([0], pa.int32())], [pa.array([1], pa.int32())] * 2
    change = pa.RecordBatch.from_arrays([pa.array([2], pa.int8()), *old, *new], list("kabcd"))
    write = TableWrite.of(read, overwrite=False)
    part = TaskRows(path=stage_rows(table.scan().store, "job", [change]))
    with pytest.raises(HistoryExpired, match="have expired"):
        write.commit([part], "job", "user", None)
    assert table.refresh().scan().to_arrow()["v"].to_pylist() == [1]


@pytest.mark.parametrize("base", ["1", "2", "0"])
def test_an_overwrite_of_rows_that_it_has_not_read_is_refused_and_leaves_no_files(table: Table, base: str) -> None:
    """Snapshot 2 is the newest, 1 has expired, and 0 says that the table was empty."""
    with table.writer() as writer:
        writer.write(pa.Table.from_batches([batch((3, "a"))]))
        writer.commit()
    write = TableWrite.of({"path": table.path, "base-snapshot": base}, overwrite=True)
    done = [write.take(iter([batch((8, "a"))]), "job")]
    penstock.sql("CALL sys.expire_snapshots('d.t', 1)", Path(table.path).parent.parent)
    if base == "2":
        write.commit(done, "job", None, None)
        assert held(table) == [(8, "a")]
        return
    with pytest.raises(CommitConflict, match="have expired" if base == "1" else "another job changed"):
        write.commit(done, "job", None, None)
    write.abort([*done], "job")
    assert held(table) == [(1, "a"), (2, "b"), (3, "a")]
    assert not [file for file in files(table) if "_penstock" in file]
    assert len([file for file in files(table) if "/bucket-" in file]) == len(table.refresh().system("files"))


@pytest.mark.parametrize(("other", "warned"), [("a", True), ("b", False), (None, False)])
def test_an_overwrite_by_path_warns_of_rows_that_it_may_not_have_read(
    table: Table, caplog: pytest.LogCaptureFixture, other: str | None, warned: bool
) -> None:
    """As in Paimon, it replaces what other jobs commit to its partitions after its query began."""
    before = table.refresh().latest_snapshot
    assert before is not None
    write = TableWrite.of({"path": table.path, "overwrite-partition": "dt=a"}, overwrite=True).at_begin()
    done = [write.take(iter([batch((8, "a"))]), "job")]
    if other is not None:
        with table.refresh().writer() as writer:
            writer.write(pa.Table.from_batches([batch((9, other))]))
            writer.commit()
    write.commit(done, "job", None, None)
    assert held(table) == sorted([(2, "b"), (8, "a"), *([(9, "b")] if other == "b" else [])])
    said = [record.getMessage() for record in caplog.records if "rows_of_others_replaced" in record.getMessage()]
    assert [f" snapshots={before.id + 1} " in text for text in said] == [True] * warned


def test_an_overwrite_by_path_succeeds_beside_an_expiry_of_the_snapshots_before_it(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    write = TableWrite.of({"path": table.path, "overwrite-partition": "dt=a"}, overwrite=True).at_begin()
    done = [write.take(iter([batch((8, "a"))]), "job")]
    for _ in range(2):
        with table.refresh().writer() as writer:
            writer.write(pa.Table.from_batches([batch((9, "b"))]))
            writer.commit()
    # The expiry has deleted the manifest list, and not yet the snapshot.
    expiring = table.refresh().snapshots[-2]
    (Path(table.path) / "manifest" / expiring.delta_manifest_list).unlink()
    write.commit(done, "job", None, None)
    (warning,) = [found.getMessage() for found in caplog.records if "rows_of_others_replaced" in found.getMessage()]
    assert f" snapshots={expiring.id} " in warning


def test_an_overwrite_by_path_warns_of_snapshots_that_have_expired_meanwhile(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    write = TableWrite.of({"path": table.path, "overwrite-partition": "dt=a"}, overwrite=True).at_begin()
    done = [write.take(iter([batch((8, "a"))]), "job")]
    for key, day in ((9, "a"), (10, "b")):
        with table.refresh().writer() as writer:
            writer.write(pa.Table.from_batches([batch((key, day))]))
            writer.commit()
    lost = table.refresh().snapshots[-2].id
    table.refresh().expire_snapshots(retain_max=1, retain_min=1)
    write.commit(done, "job", None, None)
    (warning,) = [found.getMessage() for found in caplog.records if "rows_of_others_replaced" in found.getMessage()]
    assert f" snapshots={lost} " in warning


def test_an_overwrite_that_cannot_read_all_rows_is_refused_before_it_begins(tmp_path: Path) -> None:
    options = "'bucket' = '1', 'deletion-vectors.enabled' = 'true', 'write-only' = 'true'"
    script = f"CREATE DATABASE d; CREATE TABLE d.t (id INT, PRIMARY KEY (id) NOT ENFORCED) WITH ({options})"
    penstock.sql(f"{script}; INSERT INTO d.t VALUES (1)", tmp_path, options={"local.sync": "false"})
    write = TableWrite.of({"path": f"{tmp_path}/d.db/t", "base-snapshot": "1"}, overwrite=True)
    with pytest.raises(RowsUnread, match="readable only after a compaction"):
        write.at_begin()


@pytest.mark.parametrize("compacted", [False, True])
def test_a_dynamic_overwrite_names_partitions_that_its_query_cannot_see(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, compacted: bool
) -> None:
    options = "'bucket' = '1', 'deletion-vectors.enabled' = 'true', 'write-only' = 'true'"
    columns = f"(id INT, p STRING, PRIMARY KEY (id, p) NOT ENFORCED) PARTITIONED BY (p) WITH ({options})"
    script = f"CREATE DATABASE d; CREATE TABLE d.t {columns}; INSERT INTO d.t VALUES (1, 'a')"
    script += "; CALL sys.compact('d.t'); INSERT INTO d.t VALUES (2, 'b')"
    script += "; CALL sys.compact('d.t')" if compacted else ""
    penstock.sql(script, tmp_path, options={"local.sync": "false"})
    snapshot = str(penstock.open_table(f"{tmp_path}/d.db/t").latest_snapshot.id)  # type: ignore[union-attr]
    given = {"path": f"{tmp_path}/d.db/t", "base-snapshot": snapshot, "partitionoverwritemode": "dynamic"}
    TableWrite.of(given, overwrite=True).at_begin()
    said = [found.getMessage() for found in caplog.records if "waiting_partitions_passed_over" in found.getMessage()]
    assert [" count=1 first=p=b " in text for text in said] == ([] if compacted else [True])


def test_texts_of_statements_are_no_names_of_partitions(table: Table) -> None:
    name = "__DEFAULT_PARTITION__"
    write = TableWrite.of({"path": table.path, "overwrite-partition": json.dumps({"dt": name})}, overwrite=True)
    for key in (8, 9):
        write.commit([write.take(iter([batch((key, name))]), "job")], "job", None, None)
    assert held(table) == [(1, "a"), (2, "b"), (9, name)]


def test_rows_are_invisible_before_the_driver_commits(table: Table, write: TableWrite) -> None:
    before, snapshots = held(table), len(table.snapshots)
    done = [write.take(iter([batch((key, "a"))]), "job") for key in (8, 9)]
    assert (held(table), len(table.refresh().snapshots)) == (before, snapshots)
    write.commit(done, "job", None, None)
    assert len(table.refresh().snapshots) == snapshots + 1
    kept = [(2, "b")] if not write.overwrite or len(write.place.options) > 1 else []
    first = [(1, "a")] if not write.overwrite else []
    assert held(table) == [*first, *kept, (8, "a"), (9, "a")]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_rows_that_tasks_of_a_stream_staged_do_not_remain(table: Table, write: TableWrite, end: str) -> None:
    """Spark creates a stream's writer for the tasks of each batch, and another one for the process that commits."""
    done = [write.take(iter([batch((key, "a"))]), "job of the tasks") for key in (8, 9)]
    if end == "commit":
        write.commit(done, "job", None, None)
    else:
        write.abort([*done, None], "job")
    assert not any("_penstock" in path for path in files(table))


def test_a_commit_succeeds_although_staged_rows_cannot_be_deleted(
    table: Table, write: TableWrite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that is reported as failed is run again, and would add its rows a second time."""

    def refused(_: LocalStorage, path: str) -> None:
        raise OSError(39, "Directory not empty", path)

    part = write.take(iter([batch((3, "a"))]), "job")
    monkeypatch.setattr(LocalStorage, "delete_tree", refused)
    write.commit([part], "job", None, None)
    assert (3, "a") in held(table)


def test_a_failed_task_does_not_change_the_table(table: Table, write: TableWrite) -> None:
    before = files(table)
    done: list[TaskRows | None] = [write.take(iter([batch((8, "a"))]), "job"), None]
    with pytest.raises(OSError, match="the task's disk"):
        write.take(failing((9, "a")), "job")
    write.abort(done, "job")
    assert files(table) == before
    assert held(table) == [(1, "a"), (2, "b")]


def test_a_refused_row_does_not_change_the_table(table: Table, write: TableWrite) -> None:
    before = files(table)
    done: list[TaskRows | None] = [write.take(iter([batch((8, "a"))]), "job")]
    with pytest.raises(RowRefused):
        write.commit([*done, write.take(iter([batch((None, "a"))]), "job")], "job", None, None)
    write.abort([*done, None], "job")
    assert files(table) == before
    assert held(table) == [(1, "a"), (2, "b")]


def test_the_end_of_the_block_commits_unprepared_rows(table: Table) -> None:
    with table.overwrite() as writer:
        writer.write(pa.Table.from_batches([batch((5, "a"))]))
    assert held(table) == [(2, "b"), (5, "a")]
    with table.refresh().overwrite() as writer:
        writer.write(pa.Table.from_batches([batch((6, "a"))]))
        writer.prepare()
    assert held(table) == [(2, "b"), (5, "a")]
    with table.refresh().overwrite() as writer:
        writer.write(pa.Table.from_batches([batch((6, "a"))]))
        writer.commit()
        writer.write(pa.Table.from_batches([batch((7, "a"))]))
    assert held(table) == [(2, "b"), (7, "a")]


def test_an_overwritten_partition_names_each_column_once(table: Table) -> None:
    before = held(table)
    write = TableWrite.of({"path": table.path, "overwrite-partition": "dt=a,dt=b"}, overwrite=True)
    with pytest.raises(ConfigError, match="twice"):
        write.commit([write.take([batch((3, "b"))], "job")], "job", None, None)
    assert held(table) == before


def test_an_append_that_names_a_partition_to_replace_is_refused(table: Table) -> None:
    """The rows were added to those that they should replace."""
    with pytest.raises(ConfigError, match="an append replaces no partition"):
        TableWrite.of({"path": table.path, "overwrite-partition": "dt=a"}, overwrite=False)
