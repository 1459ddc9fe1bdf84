"""Keys that move between partitions: what each merge engine makes of it, and that the table alone remembers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.input_rows import RowRefused
from penstock.table.buckets.layout import Layout
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.dynamic_buckets.cross_partition import KeyPlacer
from penstock.table.dynamic_buckets.index_build import IndexAdvance
from penstock.table.dynamic_buckets.index_folder import IndexFolder
from penstock.table.dynamic_buckets.index_runs import UNKNOWN
from penstock.table.handle import Table
from penstock.table.meta.snapshot import CommitKind
from penstock.table.meta.store import TableStore
from tests.invariants import check_invariants
from tests.unit.table.dynamic_buckets.moving_keys import COLUMNS, moving_table, write
from tests.unit.table.tables import content, new_table, rows


def test_a_row_of_another_partition_deletes_the_old_one(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1), ("2", "a", 2))
    write(table, ("1", "b", 3))
    assert content(table) == [("1", "b", 3), ("2", "a", 2)]


def test_a_key_may_change_its_partition_repeatedly_in_one_batch(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1), ("1", "b", 2), ("2", "a", 1), ("1", "c", 3), ("1", "a", 4), ("1", "a", 5))
    assert content(table) == [("1", "a", 5), ("2", "a", 1)]
    write(table, ("1", "b", 6), ("1", "a", 7))
    assert content(table) == [("1", "a", 7), ("2", "a", 1)]


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_key_that_returns_within_a_commit_keeps_its_bucket(tmp_path: Path, writes: int) -> None:
    table = new_table(
        tmp_path,
        COLUMNS,
        partitions=("p",),
        options={"bucket": "-1", "dynamic-bucket.target-row-num": "2", "changelog-producer": "full-compaction"},
    )
    write(table, ("6", "a", 3), ("0", "a", 0), ("1", "a", 1), kinds=["+I", "-D", "+I"])
    newest = max(snapshot.id for snapshot in table.snapshots)
    steps = [("1", "b", 4), ("1", "c", 5), ("1", "b", 6), ("1", "a", 7)]
    with table.writer() as writer:
        for first in range(0, len(steps), -(-len(steps) // writes)):
            writer.write(rows(table, *steps[first : first + -(-len(steps) // writes)]))
        writer.commit()
    changes = table.changes(newest, max(snapshot.id for snapshot in table.snapshots)).to_pylist()
    assert [(row["rowkind"], row["p"], row["v"]) for row in changes] == [("-U", "a", 1), ("+U", "a", 7)]
    assert content(table) == [("1", "a", 7), ("6", "a", 3)]


def test_a_deleted_key_may_be_inserted_into_any_partition(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1))
    write(table, ("1", "a", 1), kinds=["-D"])
    write(table, ("1", "b", 2))
    assert content(table) == [("1", "b", 2)]


def test_no_row_moves_if_its_delete_would_be_ignored(tmp_path: Path) -> None:
    table = moving_table(tmp_path, ignore_delete="true")
    write(table, ("1", "a", 1), ("2", "a", 2))
    with pytest.raises(RowRefused, match="because the table ignores deletes"):
        write(table, ("1", "a", 3), ("2", "b", 3))
    write(table, ("1", "a", 4), ("3", "b", 4))
    assert content(table) == [("1", "a", 4), ("2", "a", 2), ("3", "b", 4)]


def test_partial_update_stays_in_the_partition_of_the_first_row(tmp_path: Path) -> None:
    table = moving_table(tmp_path, merge_engine="partial-update")
    write(table, ("1", "a", 1), ("1", "b", None))
    write(table, ("1", "c", 5), ("2", "c", 1))
    assert content(table) == [("1", "a", 5), ("2", "c", 1)]


def test_aggregation_adds_up_in_the_partition_of_the_first_row(tmp_path: Path) -> None:
    table = moving_table(tmp_path, merge_engine="aggregation", **{"fields.v.aggregate-function": "sum"})
    write(table, ("1", "a", 1), ("1", "b", 2))
    write(table, ("1", "c", 4))
    assert content(table) == [("1", "a", 7)]


@pytest.mark.parametrize("lost", [False, True], ids=["index kept", "index lost"])
@pytest.mark.parametrize("waits", [False, True], ids=["compacted", "waiting"])
@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_a_removed_key_may_be_inserted_into_any_partition(
    tmp_path: Path, keys_folder: Path, engine: str, lost: bool, waits: bool
) -> None:
    options = {"merge-engine": engine, f"{engine}.remove-record-on-delete": "true", "force-lookup": "true"}
    if waits:
        options |= {"deletion-vectors.enabled": "true", "write-only": "true"}
    table = moving_table(tmp_path, **options)
    write(table, ("1", "a", 1), ("2", "a", 1), ("3", "a", 1))
    write(table, ("4", "a", 1))  # now the index has been advanced once
    if waits:
        table.compact(options={"write-only": "false"})
    write(table, ("1", "a", 1), ("2", "a", 1), kinds=["-D", "+I"])
    if lost:
        shutil.rmtree(keys_folder, ignore_errors=True)
    write(table, ("1", "b", 2), ("2", "b", None), ("3", "c", None))
    table.compact(full=True, options={"write-only": "false"})
    assert content(table) == [("1", "b", 2), ("2", "a", 1), ("3", "a", 1), ("4", "a", 1)]


@pytest.mark.parametrize("lost", [False, True], ids=["index kept", "index lost"])
@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_a_key_that_came_back_is_known_beside_its_waiting_delete(
    tmp_path: Path, keys_folder: Path, engine: str, lost: bool
) -> None:
    """The delete waits in a bucket that is read after the one with the new row."""
    options = {"deletion-vectors.enabled": "true", "write-only": "true", f"{engine}.remove-record-on-delete": "true"}
    table = moving_table(tmp_path, **{"merge-engine": engine, "force-lookup": "true", **options})
    write(table, ("1", "b", 1), ("2", "a", 1))
    table.compact(options={"write-only": "false"})
    write(table, ("3", "a", 1))
    write(table, ("1", "b", 1), kinds=["-D"])
    write(table, ("1", "a", 2))
    if lost:
        shutil.rmtree(keys_folder, ignore_errors=True)
    write(table, ("1", "c", 3))
    table.compact(full=True, options={"write-only": "false"})
    assert content(table) == [("1", "a", 3), ("2", "a", 1), ("3", "a", 1)]


@pytest.mark.parametrize("together", ["one write", "one commit"])
@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_a_removed_key_may_be_inserted_into_any_partition_by_the_same_commit(
    tmp_path: Path, engine: str, together: str
) -> None:
    table = moving_table(tmp_path, **{"merge-engine": engine, f"{engine}.remove-record-on-delete": "true"})
    write(table, ("1", "a", 1), ("2", "a", 1))
    changes = [("-D", "1", "a", 1), ("+I", "1", "b", 2), ("+I", "3", "a", 3), ("-D", "3", "a", 3), ("+I", "3", "c", 4)]
    changes += [("-D", "2", "a", 1), ("+I", "2", "a", 5), ("-D", "3", "c", 4), ("+I", "1", "c", 6), ("-D", "1", "b", 6)]
    changes += [("+I", "1", "b", 7)]
    groups = [changes] if together == "one write" else [[change] for change in changes]
    with table.writer() as writer:
        for group in groups:
            writer.write(rows(table, *(change[1:] for change in group)), [change[0] for change in group])
        writer.commit()
    assert content(table) == [("1", "b", 7), ("2", "a", 5)]
    write(table, ("1", "a", None), ("2", "b", None), ("3", "b", 8))
    assert content(table) == [("1", "b", 7), ("2", "a", 5), ("3", "b", 8)]
    check_invariants(table)


@pytest.mark.parametrize("lost", [False, True], ids=["index kept", "index lost"])
@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_a_late_delete_of_a_row_with_a_sequence_leaves_the_key_in_its_partition(
    tmp_path: Path, keys_folder: Path, engine: str, lost: bool
) -> None:
    options = {"merge-engine": engine, f"{engine}.remove-record-on-delete": "true", "sequence.field": "v"}
    table = moving_table(tmp_path, **options)
    write(table, ("1", "a", 5))
    write(table, ("1", "a", 3), kinds=["-D"])
    if lost:
        shutil.rmtree(keys_folder, ignore_errors=True)
    write(table, ("1", "b", 6))
    assert [row[:2] for row in content(table)] == [("1", "a")]


@pytest.mark.parametrize("order", ["aba", "bab"])
def test_keys_that_moved_away_and_back_stay_in_their_bucket_while_their_rows_wait(
    tmp_path: Path, keys_folder: Path, order: str
) -> None:
    """The index reads the partition that the keys left last before or after the one that they are in."""
    options = {"deletion-vectors.enabled": "true", "write-only": "true", "dynamic-bucket.target-row-num": "1"}
    table = moving_table(tmp_path, **options)
    for partition in order:
        write(table, ("1", partition, 1), ("2", partition, 1))
    shutil.rmtree(keys_folder)
    write(table, ("2", order[-1], 9))
    write(table, ("1", order[-1], 9))
    table.compact(options={"write-only": "false"})
    assert content(table) == [("1", order[-1], 9), ("2", order[-1], 9)]


@pytest.mark.parametrize("options", [{"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}], ids=str)
def test_rows_that_wait_in_the_partition_of_their_key_are_no_second_place(
    tmp_path: Path, keys_folder: Path, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    table = moving_table(tmp_path, **options, **{"write-only": "true"})
    write(table, ("1", "a", 1), ("2", "a", 1), ("3", "a", 1))
    table.compact(options={"write-only": "false"})
    write(table, ("1", "a", 2), ("2", "b", 2))
    shutil.rmtree(keys_folder, ignore_errors=True)
    write(table, ("4", "a", 1))
    assert "event=keys_in_two_partitions" not in caplog.text


def test_keys_in_two_partitions_are_counted(
    tmp_path: Path, keys_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1), ("2", "a", 1))
    shutil.rmtree(keys_folder, ignore_errors=True)
    with pytest.MonkeyPatch.context() as patch:
        # A program that knows no keys of other partitions writes so.
        patch.setattr(KeyPlacer, "_known", lambda _, keys: np.full(len(keys.high), UNKNOWN, np.int64))
        write(table, ("1", "b", 2), ("1", "c", 2), ("2", "c", 2))
    shutil.rmtree(keys_folder, ignore_errors=True)
    write(table, ("4", "a", 1))
    assert "event=keys_in_two_partitions table=" in caplog.text
    assert "keys=2" in caplog.text


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_a_key_with_a_retracted_row_stays_in_its_partition(tmp_path: Path, engine: str) -> None:
    options = {"merge-engine": engine}
    if engine == "partial-update":
        options["fields.s.sequence-group"] = "v"
    else:
        options["fields.v.aggregate-function"] = "sum"
    columns = [*COLUMNS, ("s", "INT")]
    table = new_table(tmp_path, columns, partitions=("p",), options={"bucket": "-1", **options})
    for kind, p, v in (("+I", "a", 1), ("-D", "a", 1), ("+I", "b", 7)):
        with table.writer() as writer:
            writer.write(rows(table, ("1", p, v, 1)), [kind])
            writer.commit()
    assert [row[:3] for row in content(table)] == [("1", "a", 7)]


def test_first_row_ignores_a_row_of_another_partition(tmp_path: Path) -> None:
    table = moving_table(tmp_path, merge_engine="first-row")
    write(table, ("1", "a", 1), ("1", "b", 2))
    write(table, ("1", "c", 3), ("2", "c", 4))
    assert content(table) == [("1", "a", 1), ("2", "c", 4)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"changelog_producer": "lookup"},
        {"deletion-vectors.enabled": "true"},
        {"deletion-vectors.enabled": "true", "write-only": "true"},
    ],
    ids=str,
)
@pytest.mark.parametrize("lost", [False, True], ids=["index kept", "index lost"])
def test_a_random_history_matches_a_dict(
    tmp_path: Path, keys_folder: Path, options: Mapping[str, str], lost: bool
) -> None:
    """The index has the same content after an update and after a rebuild."""
    random, model = Random(5), dict[str, tuple[str, int]]()
    table = moving_table(tmp_path, **{"dynamic-bucket.target-row-num": "7", **options})
    for number in range(12):
        values, kinds = [], []
        for place in range(random.randrange(1, 30)):
            key, partition = str(random.randrange(40)), random.choice("abcd")
            if random.random() < 0.2 and key in model:
                kind, partition = "-D", model.pop(key)[0]
            else:
                kind, model[key] = "+I", (partition, number * 100 + place)
            values.append((key, partition, number * 100 + place))
            kinds.append(kind)
        write(table, *values, kinds=kinds)
        if lost:
            shutil.rmtree(keys_folder, ignore_errors=True)
        if "write-only" in options:
            if number % 4 < 3:
                continue  # the rows of several commits wait for a compaction
            table.compact(options={"write-only": "false"})
        assert content(table) == sorted(((key, *row) for key, row in model.items()), key=repr)
    assert max(len(group) for group in buckets(table).values()) > 1


def buckets(table: Table) -> dict[bytes, set[int]]:
    found: dict[bytes, set[int]] = {}
    for split in table.scan().plan().splits:
        found.setdefault(split.partition, set()).add(split.bucket)
    return found


@pytest.mark.slow
def test_parallel_assigners_open_at_most_the_allowed_buckets(tmp_path: Path) -> None:
    table = moving_table(tmp_path, **{"dynamic-bucket.max-buckets": "2"})
    layout, state = Layout.of(table.definition), TableState(table.store, None)
    given = rows(table, *((str(key), "a", key) for key in range(20))).to_batches()[0]
    kinds = np.zeros(given.num_rows, np.int8)
    opened = {
        int(bucket)
        for writer in range(4)
        for bucket in KeyPlacer.opened(table.store, layout, state, writer, 4).place(given, kinds).buckets
    }
    assert opened == {0, 1}


@pytest.mark.slow
def test_a_writer_keeps_its_index_over_many_commits(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    with table.writer(commit_user="etl") as writer:
        for number in range(25):
            writer.write(rows(table, (str(number % 3), "abc"[number % 2], number), (f"n{number}", "a", 0)))
            writer.commit(identifier=number)
    assert content(table)[:3] == [("0", "a", 24), ("1", "a", 22), ("2", "b", 23)]
    assert len(content(table)) == 28


def test_the_keys_of_an_overwritten_partition_are_removed(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1), ("2", "b", 2), ("3", "b", 3))
    with table.overwrite(partition={"p": "b"}) as writer:
        writer.write(rows(table, ("3", "b", 30)))
        writer.commit()
    before = len(table.snapshots)
    write(table, ("2", "c", 20), ("3", "c", 31), ("1", "c", 10))
    assert content(table) == [("1", "c", 10), ("2", "c", 20), ("3", "c", 31)]
    [added] = table.snapshots[before:]
    # 1 and 3 leave a delete behind; of 2 nothing is known any more.
    assert (added.commit_kind, added.delta_record_count) == (CommitKind.APPEND, 5)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
@pytest.mark.parametrize("given", [{"p": "b"}, None], ids=["named", "dynamic"])
def test_an_overwrite_with_keys_of_other_partitions_is_refused(
    tmp_path: Path, engine: str, given: Mapping[str, str] | None
) -> None:
    table = moving_table(tmp_path, merge_engine=engine)
    write(table, ("1", "a", 1), ("2", "b", 2))
    before = content(table)
    with table.overwrite(partition=given) as writer:
        writer.write(rows(table, ("1", "b", 3), ("2", "b", 4)))
        with pytest.raises(RowRefused, match="is in a partition that is not overwritten"):
            writer.commit()
    assert content(table) == before
    assert table.remove_orphan_files(dry_run=True, older_than=1 << 60) == []
    with table.overwrite(partition=given) as writer:
        writer.write(rows(table, ("2", "b", 5), ("9", "b", 6)))
    assert content(table) == [("1", "a", 1), ("2", "b", 5), ("9", "b", 6)]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
@pytest.mark.parametrize("given", [{"p": "b"}, None], ids=["named", "dynamic"])
@pytest.mark.parametrize("overwrites", [True, False])
def test_an_overwrite_is_refused_if_another_job_wrote_to_a_kept_partition_meanwhile(
    tmp_path: Path, engine: str, given: Mapping[str, str] | None, overwrites: bool
) -> None:
    table = moving_table(tmp_path, merge_engine=engine)
    write(table, ("3", "a", 1))
    with table.overwrite(partition=given) as writer:
        writer.write(rows(table, ("2", "b", 4)))
        with table.overwrite(partition={"p": "a"}) if overwrites else table.writer() as other:
            other.write(rows(table, ("2", "a", 5)))
            other.commit()
        with pytest.raises(ForeignWriter, match="wrote to a partition that this overwrite keeps"):
            writer.commit()
    assert ("2", "a", 5) in content(table)
    assert all(place == "a" for _, place, _ in content(table))


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_rows_are_refused_if_another_job_dropped_a_partition_meanwhile(tmp_path: Path, engine: str) -> None:
    table = moving_table(tmp_path, merge_engine=engine)
    write(table, ("1", "b", 1), ("2", "a", 2))
    with table.writer() as writer:
        writer.write(rows(table, ("1", "c", 9)))
        table.drop_partitions([{"p": "b"}])
        with pytest.raises(ForeignWriter, match="dropped or replaced a partition"):
            writer.commit()
    write(table, ("1", "c", 9))
    assert content(table) == [("1", "c", 9), ("2", "a", 2)]


def test_a_key_whose_partition_was_dropped_meanwhile_moves(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "b", 1), ("2", "a", 2))
    with table.writer() as writer:
        writer.write(rows(table, ("1", "c", 9), ("2", "a", 3)))
        table.drop_partitions([{"p": "b"}])
        writer.commit()
    assert content(table) == [("1", "c", 9), ("2", "a", 3)]


def test_an_overwrite_may_replace_what_another_job_wrote_meanwhile(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("3", "a", 1))
    with table.overwrite(partition={"p": "b"}) as writer:
        writer.write(rows(table, ("2", "b", 4)))
        write(table, ("2", "b", 5), ("6", "b", 6))
        writer.commit()
    assert content(table) == [("2", "b", 4), ("3", "a", 1)]


def test_an_overwrite_of_the_whole_table_may_move_any_key(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1), ("2", "b", 2))
    with table.overwrite(partition={}) as writer:
        writer.write(rows(table, ("1", "b", 3)))
    assert content(table) == [("1", "b", 3)]


def test_least_recently_used_indexes_are_evicted(tmp_path: Path) -> None:
    small = {"penstock.key-index.max-disk-size": "1 b"}
    tables = [moving_table(tmp_path / name, **small) for name in "abc"]
    folders = [IndexFolder(table.store, Layout.of(table.definition)).folder for table in tables]
    for number, table in enumerate(tables):
        write(table, ("1", "a", 1))
        write(table, ("1", "b", 2))
        assert [(folder / "index.json").exists() for folder in folders] == [place == number for place in range(3)]
    for table in tables:  # created again
        write(table, ("1", "c", 3))
        assert content(table) == [("1", "c", 3)]


def test_an_index_in_use_is_not_evicted(tmp_path: Path) -> None:
    tables = [moving_table(tmp_path / name, **{"penstock.key-index.max-disk-size": "1 b"}) for name in "ab"]
    first, second = (IndexFolder(table.store, Layout.of(table.definition)) for table in tables)
    for table in tables:
        write(table, ("1", "a", 1))
    first.at(tables[0].refresh().latest_snapshot)
    with first._locked():
        second.at(tables[1].refresh().latest_snapshot)
        assert (first.folder / "index.json").exists()
    second.at(tables[1].latest_snapshot)
    write(tables[1], ("2", "a", 1))
    second.at(tables[1].refresh().latest_snapshot)
    assert not (first.folder / "index.json").exists()


@pytest.mark.slow
def test_an_index_is_removed_with_its_table_or_name(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path / "warehouse"))
    catalog.create_database("shop")

    def made(name: str) -> Path:
        schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int32())])
        table = catalog.create_table(
            name, schema=schema, primary_keys=["id"], partition_keys=["p"], options={"bucket": "-1"}
        )
        write(table, ("1", "a", 1))
        write(table, ("1", "b", 1))
        folder = IndexFolder(table.store, Layout.of(table.definition)).folder
        assert (folder / "index.json").exists()
        return folder / "index.json"

    paths = [made(f"shop.{name}") for name in ("dropped", "renamed", "stays", "last")]
    catalog.drop_table("shop.dropped")
    catalog.rename_table("shop.renamed", "shop.other")
    assert [path.exists() for path in paths] == [False, False, True, True]
    write(catalog.table("shop.other"), ("1", "c", 1))
    assert content(catalog.table("shop.other")) == [("1", "c", 1)]
    catalog.drop_database("shop", cascade=True)
    assert not any(path.exists() for path in paths)


def test_a_dropped_partition_is_not_created_again_by_deletes(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1), ("2", "b", 2))
    table.drop_partitions([{"p": "b"}])
    write(table, ("2", "a", 3))
    assert content(table) == [("1", "a", 1), ("2", "a", 3)]
    assert list(buckets(table)) == [table.scan().plan().splits[0].partition]


def test_the_index_is_updated_without_reading_the_table_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = moving_table(tmp_path)
    write(table, *((str(number), "a", number) for number in range(100)))
    write(table, ("1", "b", 0))
    monkeypatch.setattr(IndexAdvance, "bootstrapped", None)
    write(table, ("2", "b", 0))
    table.compact()
    write(table, ("1", "c", 0), ("2", "c", 0))
    assert content(table)[:3] == [("0", "a", 0), ("1", "c", 0), ("10", "a", 10)]
    assert len(content(table)) == 100


def test_the_index_is_rebuilt_after_a_rollback(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1))
    write(table, ("1", "b", 2))
    write(table, ("1", "c", 3))
    table.rollback_to(1)
    write(table, ("1", "d", 4))
    assert content(table) == [("1", "d", 4)]


def test_two_concurrent_writers_are_refused(tmp_path: Path) -> None:
    """The other's row of key 1 lies in a bucket that ours never touches."""
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1))
    with table.writer() as slow:
        slow.write(rows(table, ("2", "c", 3)))
        write(table, ("1", "b", 2))
        with pytest.raises(ForeignWriter, match="this job moves keys"):
            slow.commit()
    assert content(table) == [("1", "b", 2)]


@pytest.mark.parametrize("lost", [False, True], ids=["index kept", "index lost"])
def test_keys_are_removed_after_the_ttl_of_the_index(tmp_path: Path, keys_folder: Path, lost: bool) -> None:
    clock = [1_700_000_000_000]
    made = moving_table(tmp_path, **{"cross-partition-upsert.index-ttl": "1 h"})
    ambient = replace(made.store.ambient, now_millis=lambda: clock[0])
    table = Table(TableStore.open(made.store.storage, made.path, ambient=ambient))
    write(table, ("1", "a", 1))
    clock[0] += 2 * 3_600_000
    write(table, ("2", "c", 1))
    if lost:
        shutil.rmtree(keys_folder, ignore_errors=True)
    write(table, ("1", "b", 2), ("2", "b", 2))
    # What Paimon's documentation warns of: a key that is not known any more leaves its old row behind.
    assert content(table) == [("1", "a", 1), ("1", "b", 2), ("2", "b", 2)]


def test_incomplete_runs_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    table = moving_table(tmp_path)
    write(table, ("1", "a", 1))
    folder = IndexFolder(table.store, Layout.of(table.definition))
    folder.at(table.latest_snapshot)
    (folder.folder / "0123").mkdir()
    (folder.folder / "index.json").write_text("{ half")
    assert len(folder.at(table.latest_snapshot)) == 1
    assert not (folder.folder / "0123").exists()
