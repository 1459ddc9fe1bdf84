"""Writing and committing: what is visible when, and what a second commit of the same thing does."""

from __future__ import annotations

import contextlib
import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import CommitConflict, ConfigError
from penstock.table.buckets.input_rows import RowRefused
from penstock.table.catalog.catalog import Catalog
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.merge.incoming_kinds import RetractRefused
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import CommitKind
from penstock.table.schema.changes import SetOption, evolve
from tests.unit.table.tables import content, new_table, rows


def files_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("data-*"))


def test_the_last_row_of_a_key_is_what_a_scan_sees(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, (1, "a", None), (2, "b", Decimal("1.50")), (1, "c", None)))
        writer.commit(identifier=1)
        writer.write(rows(table, (2, None, None), (3, "d", None)), kinds=["-D", "+I"])
        writer.commit(identifier=2)
    assert content(table) == [(1, "c", None), (3, "d", None)]
    assert [snapshot.commit_kind for snapshot in table.snapshots] == [CommitKind.APPEND, CommitKind.APPEND]


def test_rows_without_a_commit_are_counted_in_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(tmp_path)
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit(identifier=1)
        writer.write(rows(table, (2, "b", None), (3, "c", None)))
    assert [record.getMessage() for record in caplog.records] == [f"event=rows_not_committed table={table.name} rows=2"]
    with pytest.raises(ConfigError, match="the writer was closed"):
        writer.write(rows(table, (4, "d", None)))
    assert content(table) == [(1, "a", None)]
    with writer:
        writer.write(rows(table, (5, "e", None)))
        writer.commit(identifier=2)
    assert content(table) == [(1, "a", None), (5, "e", None)]


def test_rows_written_between_prepare_and_commit_messages_are_counted_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit of prepared messages drops them: the writer begins again with the table as of this commit."""
    table = new_table(tmp_path)
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, (1, "a", None)))
        messages = writer.prepare(1)
        writer.write(rows(table, (2, "b", None)))
        writer.commit_messages(messages, 1)
    assert [record.getMessage() for record in caplog.records] == [f"event=rows_not_committed table={table.name} rows=1"]
    assert content(table) == [(1, "a", None)]


def test_rows_of_an_identifier_below_the_last_one_are_dropped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A job that numbers its commits from the start again lost its rows without a word."""
    table = new_table(tmp_path)
    with table.writer(commit_user="etl") as writer:
        for number in (1, 2, 2):
            writer.write(rows(table, (number, "a", None)))
            writer.commit(identifier=number)
        assert not caplog.records
        writer.write(rows(table, (3, "b", None), (4, "b", None)))
        writer.commit(identifier=1)
    assert [record.getMessage() for record in caplog.records] == [
        f"event=rows_of_older_commit_dropped table={table.name} user=etl identifier=1 newest=2 rows=2"
    ]
    assert content(table) == [(1, "a", None), (2, "a", None)]


def test_rows_whose_writing_failed_or_that_another_commits_need_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table(tmp_path)
    with contextlib.suppress(ZeroDivisionError), table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        _ = 1 / 0
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.prepare()
        writer.forget()
    assert not caplog.records


def test_an_identifier_commits_once(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for name in ("first", "second"):
        with table.writer(commit_user="etl") as writer:
            writer.write(rows(table, (1, name, None)))
            writer.commit(identifier=7)
    assert content(table) == [(1, "first", None)]
    assert len(table.snapshots) == 1
    assert len(files_below(tmp_path)) == 1


def test_an_older_identifier_is_recognised_as_committed(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit(identifier=7)
        writer.write(rows(table, (1, "b", None)))
        assert writer.commit(identifier=6) == []
    assert content(table) == [(1, "a", None)]


def test_leaving_without_a_commit_leaves_no_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"write-buffer-size": "1 b", "write-buffer-spillable": "false"})
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        assert files_below(tmp_path)
    assert files_below(tmp_path) == []
    assert table.snapshots == []


def test_a_small_buffer_makes_more_files_and_the_same_rows(tmp_path: Path) -> None:
    options = {"write-buffer-size": "1 b", "write-buffer-spillable": "false", "bucket": "1", "write-only": "true"}
    table = new_table(tmp_path, options=options)
    with table.writer() as writer:
        for number in range(5):
            writer.write(rows(table, (1, f"v{number}", None), (number + 10, "x", None)))
        writer.commit()
    assert content(table)[0] == (1, "v4", None)
    assert len(files_below(tmp_path)) == 5


def test_rows_are_written_to_their_partitions(tmp_path: Path) -> None:
    columns = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "INT")]
    table = new_table(tmp_path, columns, keys=("dt", "id"), partitions=("dt",))
    with table.writer() as writer:
        writer.write(rows(table, ("a", 1, 1), ("b", 1, 2), ("a", 1, 3)))
        writer.commit()
    assert content(table) == [("a", 1, 3), ("b", 1, 2)]
    assert {path.name for path in Path(table.path).glob("dt=*")} == {"dt=a", "dt=b"}
    assert table.scan(where=pc.field("dt") == "b").plan().files == 1


@pytest.mark.parametrize("value", ["x" * 300, "é" * 130, "a/" * 70, "a\0b"], ids=["long", "in bytes", "escaped", "NUL"])
@pytest.mark.parametrize("bucket", ["1", "-1", "-2"])
def test_a_partition_value_without_a_valid_folder_name_is_refused(tmp_path: Path, value: str, bucket: str) -> None:
    columns = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "INT")]
    table = new_table(tmp_path, columns, keys=("dt", "id"), partitions=("dt",), options={"bucket": bucket})
    with table.writer() as writer:
        with pytest.raises(RowRefused, match="the name of a folder") as refused:
            writer.write(rows(table, ("a", 1, 1), (value, 2, 2)))
        assert (refused.value.facts["column"], refused.value.facts["row"]) == ("dt", 1)
        assert refused.value.facts["table"]
        writer.write(rows(table, ("y" * 252, 3, 3)))
        writer.commit()
    assert bucket == "-2" or content(table) == [("y" * 252, 3, 3)]


def test_an_append_table_keeps_every_row(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1"})
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None), (1, "a", None)))
        writer.commit()
    assert content(table) == [(1, "a", None), (1, "a", None)]


def test_an_append_table_refuses_deletes(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1"})
    with table.writer() as writer, pytest.raises(RowRefused):
        writer.write(rows(table, (1, "a", None)), kinds=["-D"])


def test_retracts_that_an_engine_does_not_support_are_refused_before_they_are_stored(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"merge-engine": "partial-update"})
    with table.writer() as writer, pytest.raises(RetractRefused):
        writer.write(rows(table, (1, "a", None)), kinds=["-D"])


def test_a_null_key_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with table.writer() as writer, pytest.raises(RowRefused, match="non-null column"):
        writer.write(pa.table({"id": pa.array([None], pa.int64()), "name": ["a"]}))


def test_an_unknown_column_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with table.writer() as writer, pytest.raises(RowRefused, match="'nam'"):
        writer.write(pa.table({"id": pa.array([1], pa.int64()), "nam": ["a"]}))


def test_dynamic_buckets_keep_the_bucket_of_a_key(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "-1", "dynamic-bucket.target-row-num": "3"})
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, *((number, "a", None) for number in range(7))))
        writer.commit(identifier=1)
        writer.write(rows(table, *((number, "b", None) for number in range(8))))
        writer.commit(identifier=2)
    assert content(table) == [(number, "b", None) for number in range(8)]
    buckets = {split.bucket for split in table.scan().plan().splits}
    assert buckets == {0, 1, 2}


def test_a_writer_on_an_older_snapshot_reports_a_conflict(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1"})
    with table.writer(commit_user="one") as first, table.writer(commit_user="two") as two:
        first.write(rows(table, (1, "one", None)))
        two.write(rows(table, (1, "two", None)))
        first.commit(identifier=1)
        with pytest.raises(ForeignWriter):
            two.commit(identifier=1)
    assert content(table) == [(1, "one", None)]
    assert len(files_below(tmp_path)) == 1


def test_writers_of_different_buckets_do_not_conflict(tmp_path: Path) -> None:
    columns = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL")]
    table = new_table(tmp_path, columns, keys=("dt", "id"), partitions=("dt",))
    with table.writer(commit_user="one") as first, table.writer(commit_user="two") as two:
        first.write(rows(table, ("a", 1)))
        two.write(rows(table, ("b", 1)))
        first.commit(identifier=1)
        two.commit(identifier=1)
    assert content(table) == [("a", 1), ("b", 1)]


def test_overwrite_replaces_named_partitions_only(tmp_path: Path) -> None:
    columns = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL")]
    table = new_table(tmp_path, columns, keys=("dt", "id"), partitions=("dt",))
    with table.writer() as writer:
        writer.write(rows(table, ("a", 1), ("b", 1)))
        writer.commit()
    with table.overwrite(partition={"dt": "a"}) as writer:
        writer.write(rows(table, ("a", 2)))
        writer.commit()
    assert content(table) == [("a", 2), ("b", 1)]
    assert table.snapshots[-1].commit_kind is CommitKind.OVERWRITE


def test_an_overwrite_commits_only_if_its_block_succeeds(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with table.overwrite() as writer:
        writer.write(rows(table, (1, "a", None)))
    assert content(table) == [(1, "a", None)]
    writer = table.overwrite()
    with contextlib.suppress(ZeroDivisionError), writer:
        writer.write(rows(table, (2, "b", None)))
        raise ZeroDivisionError
    assert content(table) == [(1, "a", None)]


def test_overwrite_refuses_rows_outside_of_its_partition(tmp_path: Path) -> None:
    columns = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL")]
    table = new_table(tmp_path, columns, keys=("dt", "id"), partitions=("dt",))
    with table.overwrite(partition={"dt": "a"}) as writer:
        writer.write(rows(table, ("b", 2)))
        with pytest.raises(RowRefused):
            writer.commit()
    assert files_below(tmp_path) == []


def test_a_partition_keeps_its_number_of_buckets(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "2"})
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit()
    with pytest.raises(ConfigError, match="cannot be set for one read or write"):
        table.writer(options={"bucket": "3"})
    evolve(table.store.schemas, [SetOption("bucket", "3")], has_snapshots=True, now=2)
    message = "new bucket num 3, but the previous bucket num is 2"
    with table.refresh().writer() as writer, pytest.raises(ConfigError, match=message) as refused:
        writer.write(rows(table, *((number, "a", None) for number in range(20))))
    assert "ALTER TABLE ... SET ('bucket' = '2')" in (refused.value.hint or "")


def test_truncate_and_drop_partitions_delete_rows(tmp_path: Path) -> None:
    columns = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL")]
    table = new_table(tmp_path, columns, keys=("dt", "id"), partitions=("dt",))
    with table.writer() as writer:
        writer.write(rows(table, ("a", 1), ("b", 1)))
        writer.commit()
    table.drop_partitions([{"dt": "a"}])
    assert content(table) == [("b", 1)]
    table.truncate()
    assert content(table) == []


def test_changes_between_snapshots_have_row_kinds(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"changelog-producer": "input"})
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit(identifier=1)
        writer.write(rows(table, (1, "a", None), (1, "b", None)), kinds=["-U", "+U"])
        writer.commit(identifier=2)
    changes = table.changes(1, 2).to_pylist()
    assert [(row["rowkind"], row["name"]) for row in changes] == [("-U", "a"), ("+U", "b")]
    assert table.changes(2, 2).num_rows == 0


def test_follow_yields_snapshots_and_keeps_the_progress_of_a_consumer(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with table.writer(commit_user="etl") as writer:
        for number in (1, 2):
            writer.write(rows(table, (number, "a", None)))
            writer.commit(identifier=number)
    seen = [change.snapshot for change in table.follow(consumer_id="reader", until=2)]
    assert seen == [1, 2]
    assert table.consumers == {"reader": 3}


def test_a_consumer_that_processed_a_snapshot_is_not_given_it_again(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with table.writer(commit_user="etl") as writer:
        for number in (1, 2, 3):
            writer.write(rows(table, (number, "a", None)))
            writer.commit(identifier=number)
    for change in table.follow(consumer_id="reader"):
        change.processed()
        break
    assert table.consumers == {"reader": 2}
    for change in table.follow(consumer_id="reader"):
        assert change.snapshot == 2
        break  # it may have failed half way
    assert [change.snapshot for change in table.follow(consumer_id="reader", until=3)] == [2, 3]


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    def written(folder: Path) -> dict[str, bytes]:
        table = new_table(folder, seed=7)
        with table.writer(commit_user="etl") as writer:
            writer.write(rows(table, (1, "a", None), (2, "b", None)))
            writer.commit(identifier=1)
        root = Path(table.path)
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    assert written(tmp_path / "one") == written(tmp_path / "two")


def test_a_conflict_has_a_separate_error_class() -> None:
    assert issubclass(ForeignWriter, CommitConflict)


def test_runs_are_compacted_during_writing(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1"})
    with table.writer(commit_user="etl") as writer:
        for number in range(12):
            writer.write(rows(table, (1, f"v{number}", None), (number + 10, "x", None)))
            writer.commit(identifier=number)
    assert content(table)[0] == (1, "v11", None)
    assert len(content(table)) == 13
    assert CommitKind.COMPACT in {snapshot.commit_kind for snapshot in table.snapshots}
    assert table.scan().plan().files <= 6


def test_a_full_compaction_leaves_one_run(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "write-only": "true"})
    with table.writer(commit_user="etl") as writer:
        for number in range(3):
            writer.write(rows(table, (1, f"v{number}", None), (number + 10, "x", None)))
            writer.commit(identifier=number)
    assert table.compact()[0].commit_kind is CommitKind.COMPACT
    plan = table.scan().plan()
    assert (plan.files, plan.splits[0].raw) == (1, True)
    assert content(table)[0] == (1, "v2", None)


def test_lookup_changelogs_contain_both_images(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "changelog-producer": "lookup"})
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, (1, "a", None), (2, "b", None)))
        writer.commit(identifier=1)
        writer.write(rows(table, (1, "c", None), (2, None, None), (9, None, None)), kinds=["+U", "-D", "-D"])
        writer.commit(identifier=2)
    changes = [(row["rowkind"], row["id"], row["name"]) for row in table.changes(2, 4).to_pylist()]
    assert changes == [("-U", 1, "a"), ("+U", 1, "c"), ("-D", 2, "b")]


def test_deletion_vectors_hide_rows_without_a_merge(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "deletion-vectors.enabled": "true"})
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, *((number, "a", None) for number in range(100))))
        writer.commit(identifier=1)
        writer.write(rows(table, (5, "b", None), (6, None, None)), kinds=["+U", "-D"])
        writer.commit(identifier=2)
    assert all(split.raw for split in table.scan().plan().splits)
    assert len(content(table)) == 99
    assert (5, "b", None) in content(table)


def test_full_compaction_changelogs_are_written_every_n_commits(tmp_path: Path) -> None:
    options = {"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"}
    table = new_table(tmp_path, options=options)
    with table.writer(commit_user="etl") as writer:
        for number in range(1, 5):
            writer.write(rows(table, (1, f"v{number}", None)))
            writer.commit(identifier=number)
    changes = [change.rows.to_pylist() for change in table.follow(from_snapshot=1, until=table.snapshots[-1].id)]
    assert [[(row["rowkind"], row["name"]) for row in item] for item in changes] == [
        [("+I", "v2")],
        [("-U", "v2"), ("+U", "v4")],
    ]


def test_a_full_compaction_includes_buckets_whose_snapshots_have_expired(tmp_path: Path) -> None:
    options = {"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "4"}
    columns = [("id", "BIGINT NOT NULL"), ("p", "STRING NOT NULL")]
    table = new_table(tmp_path, columns, keys=("id", "p"), partitions=("p",), options=options)
    with table.writer(commit_user="etl") as writer:
        for number in range(1, 5):
            writer.write(rows(table, (number, f"p{number}")))
            writer.commit(identifier=number)
            table.expire_snapshots(retain_max=1, retain_min=1)
    entries = live_entries(table.store, table.store.snapshots.latest())
    assert {entry.file.level for entry in entries} == {5}
    assert len(entries) == 4


def test_append_buckets_keep_their_order_through_compaction(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "1", "bucket-key": "id"})
    with table.writer(commit_user="etl") as writer:
        for number in range(6):
            writer.write(rows(table, (1, f"v{number}", None)))
            writer.commit(identifier=number)
    assert table.scan().to_arrow()["name"].to_pylist() == [f"v{number}" for number in range(6)]
    assert table.scan().plan().files < 6


@pytest.mark.slow
def test_lookup_rows_are_removed_with_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    table = new_table(tmp_path, options={"bucket": "1", "changelog-producer": "lookup"})
    kept = set[str]()
    for number in range(12):
        with table.writer() as writer:
            writer.write(rows(table, *((key, f"v{number}", None) for key in range(number % 3, 2000, 1 + number % 2))))
            writer.commit()
        now = {path.name.rpartition("-")[0] for path in (tmp_path / "tmp").rglob("*.arrow")}
        assert now <= {row["file_path"].rpartition("/")[2] for row in table.system("files").to_pylist()}
        kept |= now
    assert len(kept) > 1


def test_a_writer_does_not_check_the_length_of_a_text(tmp_path: Path) -> None:
    """Readers and writers of Paimon in Java and Python do the same; whoever writes checks lengths."""
    catalog = Catalog(str(tmp_path))
    catalog.create_database("d")
    columns = [("id", "INT NOT NULL"), ("t", "VARCHAR(2)"), ("c", "CHAR(2)"), ("b", "VARBINARY(2)")]
    table = catalog.create_table("d.long", columns, primary_keys=["id"], options={"bucket": "1"})
    rows = pa.table({"id": pa.array([1], pa.int32()), "t": ["abc"], "c": ["abc"], "b": [b"abc"]})
    with table.writer() as writer:
        writer.write(rows)
        writer.commit()
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist()
    assert table.count("t = 'abc'") == 1
