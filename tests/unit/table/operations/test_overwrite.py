"""Overwriting: which rows go, which stay, and what a table with dynamic buckets remembers of its keys."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.storage.environment import seeded
from penstock.table.commit.commit_checks import Covers
from penstock.table.commit.committer import Committer
from penstock.table.handle import Table
from penstock.table.meta.entries import HASH_INDEX
from penstock.table.meta.live import index_entries
from penstock.table.meta.store import TableStore
from penstock.table.operations.overwrite import OverwriteWriter
from penstock.table.sql.queries.table_partitions import live_partitions
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

Row = tuple[object, ...]
PARTITIONED = [("p", "INT NOT NULL"), ("id", "INT NOT NULL"), ("v", "INT")]


def write(table: Table, *values: Row, identifier: int | None = None) -> None:
    with table.writer(commit_user="etl") as writer:
        writer.write(rows(table, *values))
        writer.commit(identifier)


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("producer", ["none", "full-compaction"])
def test_an_overwrite_does_not_compact_other_partitions(tmp_path: Path, producer: str, static: bool) -> None:
    options = {"bucket": "1", "changelog-producer": producer, "full-compaction.delta-commits": "3"}
    table = new_table(tmp_path, PARTITIONED, keys=("p", "id"), partitions=("p",), options=options)
    write(table, (1, 0, 1), (1, 1, 1), identifier=1)
    write(table, (2, 0, 2), identifier=2)
    with table.overwrite(partition={"p": 1} if static else None) as writer:
        writer.write(rows(table, (1, 7, 7)))
        writer.commit()
    assert content(table) == [(1, 7, 7), (2, 0, 2)]


def test_a_rollback_while_keys_of_other_partitions_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check reads the keys of all partitions, which takes its time."""
    table = new_table(tmp_path, PARTITIONED, keys=("id",), partitions=("p",), options={"bucket": "-1"})
    write(table, (1, 1, 1))
    write(table, (2, 2, 2))
    check = OverwriteWriter._check_keys

    def checked(writer: OverwriteWriter, covers: Covers) -> None:
        check(writer, covers)
        other = Table(TableStore.open(table.store.storage, table.store.paths.root, ambient=seeded(9)))
        other.rollback_to(1)
        write(other, (3, 3, 3))

    with table.overwrite() as writer:
        writer.write(rows(table, (1, 7, 7)))
        monkeypatch.setattr(OverwriteWriter, "_check_keys", checked)
        writer.commit()
    assert content(table) == [(1, 7, 7), (3, 3, 3)]
    check_invariants(table)


@pytest.mark.parametrize("options", [{"changelog-producer": "lookup", "lookup-wait": "false"}, {}])
def test_one_writer_overwrites_partitions_in_turn(tmp_path: Path, options: dict[str, str]) -> None:
    table = new_table(tmp_path, PARTITIONED, keys=("p", "id"), partitions=("p",), options={"bucket": "1", **options})
    write(table, (1, 0, 0), (2, 0, 0), (3, 0, 0))
    with table.overwrite() as writer:
        for number in (1, 2):
            writer.write(rows(table, (number, number, number)))
            writer.commit(number)
    assert content(table) == [(1, 1, 1), (2, 2, 2), (3, 0, 0)]


def test_a_dynamic_overwrite_replaces_every_partition_that_it_writes_to(tmp_path: Path) -> None:
    table = new_table(tmp_path, PARTITIONED, keys=("p", "id"), partitions=("p",), options={"bucket": "2"})
    write(table, *((partition, number, 0) for partition in (1, 2, 3) for number in range(4)))
    with table.overwrite() as writer:
        writer.write(rows(table, (1, 9, 9), (2, 9, 9)))
        writer.commit()
    assert content(table) == [(1, 9, 9), (2, 9, 9), *((3, number, 0) for number in range(4))]


@pytest.mark.parametrize("option", [("changelog-producer", "lookup"), ("deletion-vectors.enabled", "true")])
def test_an_overwrite_keeps_its_rows_if_its_compaction_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: tuple[str, str]
) -> None:
    table = new_table(
        tmp_path, PARTITIONED, keys=("p", "id"), partitions=("p",), options=dict([("bucket", "1"), option])
    )
    write(table, (1, 0, 0), (1, 1, 0))
    compact, faster = Committer._compact, []

    def late(self: Committer, *given: object, **named: object) -> object:
        monkeypatch.setattr(Committer, "_compact", compact)
        faster.extend(table.compact(full=True))
        return compact(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Committer, "_compact", late)
    with table.overwrite() as writer:
        writer.write(rows(table, (1, 7, 7)))
        writer.commit(5)
    assert len(faster) == 1
    assert content(table) == [(1, 7, 7)]
    check_invariants(table)


def hashes_known(table: Table) -> int:
    entries = index_entries(table.store, table.snapshots[-1])
    return sum(entry.row_count for entry in entries if entry.index_type == HASH_INDEX)


def reload(table: Table, how: str, *values: Row) -> None:
    if how == "truncate":
        table.truncate()
        write(table, *values)
        return
    partition: dict[str, object] | None = {"overwrite": {}, "dynamic": None, "static": {"p": 1}}[how]
    with table.overwrite(partition=partition) as writer:
        writer.write(rows(table, *values))
        writer.commit()


@pytest.mark.parametrize("how", ["overwrite", "dynamic", "static", "truncate"])
def test_keys_of_dynamic_buckets_keep_one_place_after_a_reload(tmp_path: Path, how: str) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}
    table = new_table(tmp_path, PARTITIONED, keys=("p", "id"), partitions=("p",), options=options)
    write(table, *((1, number, 0) for number in range(6)), (2, 0, 0))
    write(table, (1, 6, 0))
    reload(table, how, *((1, number, 1) for number in range(4)))
    others = [] if how in {"overwrite", "truncate"} else [(2, 0, 0)]
    assert content(table) == [*((1, number, 1) for number in range(4)), *others]
    assert hashes_known(table) == 4 + len(others)
    write(table, (1, 9, 9))
    write(table, *((1, number, 2) for number in range(4)))
    assert content(table) == [*((1, number, 2) for number in range(4)), (1, 9, 9), *others]
    table.delete("p = 1 and id = 0")
    assert content(table) == [*((1, number, 2) for number in range(1, 4)), (1, 9, 9), *others]


def test_a_second_overwrite_of_a_writer_starts_without_known_keys(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "-1", "dynamic-bucket.target-row-num": "2"})
    with table.overwrite(partition={}) as writer:
        for name in ("a", "b"):
            writer.write(rows(table, *((number, name, None) for number in range(5))))
            writer.commit()
    assert hashes_known(table) == 5
    write(table, (7, "c", None), *((number, "c", None) for number in range(5)))
    assert len(content(table)) == 6


@pytest.mark.parametrize("value", [0.0, -0.0, math.nan, 1.5], ids=str)
@pytest.mark.parametrize("verb", ["drop", "overwrite", "select"])
def test_a_partition_is_found_by_its_value_alone(tmp_path: Path, value: float, verb: str) -> None:
    """NaN, and each of the zeros, are partitions of their own."""
    table = new_table(tmp_path, [("p", "DOUBLE"), ("v", "INT")], keys=(), partitions=("p",), options={"bucket": "-1"})
    values = [0.0, -0.0, math.nan, 1.5]
    write(table, *((value_, number) for number, value_ in enumerate(values)))
    before = set(range(4))
    this = next(number for number, value_ in enumerate(values) if repr(value_) == repr(value))
    if verb == "drop":
        table.drop_partitions([{"p": value}])
    elif verb == "overwrite":
        with table.overwrite(partition={"p": value}) as writer:
            writer.write(rows(table, (value, this + 10)))
        before |= {this + 10}
    else:
        assert live_partitions(table, {"p": value}) == [(pytest.approx(value, nan_ok=True),)]
        return
    assert {row[1] for row in content(table)} == before - {this}


def test_a_partition_that_does_not_exist_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(tmp_path, PARTITIONED, keys=("p", "id"), partitions=("p",), options={"bucket": "1"})
    write(table, (1, 0, 1), (2, 0, 1))
    table.drop_partitions([{"p": 1}, {"p": 7}, {"p": None}])
    assert "event=no_such_partition" in caplog.text
    assert "partition=p=7" in caplog.text
    assert "partition=p=NULL" in caplog.text
    assert "partition=p=1" not in caplog.text
    assert content(table) == [(2, 0, 1)]


def test_a_partition_with_the_default_name_as_text_is_not_null(tmp_path: Path) -> None:
    name, columns = "__DEFAULT_PARTITION__", [("p", "STRING"), ("v", "INT")]
    table = new_table(tmp_path, columns, keys=(), partitions=("p",), options={"bucket": "-1"})
    write(table, (None, 1), (name, 2))
    with (
        pytest.raises(ConfigError, match="means null, and a partition has this text"),
        table.overwrite(partition={"p": name}) as writer,
    ):
        writer.write(rows(table, (None, 3)))
    table.drop_partitions([{"p": pa.scalar(name)}])
    assert content(table) == [(None, 1)]
    with table.overwrite(partition={"p": name}) as writer:
        writer.write(rows(table, (None, 3)))
    assert content(table) == [(None, 3)]
