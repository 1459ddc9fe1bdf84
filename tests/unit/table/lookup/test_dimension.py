"""Lookups in random tables, compared with a scan of the snapshot that the dimension is at."""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.handle import Table
from penstock.table.lookup.dimension import Dimension
from penstock.table.usable import check_usable

COLUMNS = [("id", "BIGINT NOT NULL"), ("region", "STRING NOT NULL"), ("name", "STRING"), ("score", "INT")]
KINDS: dict[str, dict[str, Any]] = {
    "one bucket": {"bucket": "1"},
    "buckets": {"bucket": "3"},
    "dynamic buckets": {"bucket": "-1", "dynamic-bucket.target-row-num": "20"},
    "sequence field": {"bucket": "2", "sequence.field": "score"},
    "ignored deletes": {"bucket": "1", "ignore-delete": "true"},
    "partial update": {"bucket": "2", "merge-engine": "partial-update", "ignore-delete": "true"},
    "partial update by lookup": {
        "bucket": "2",
        "merge-engine": "partial-update",
        "ignore-delete": "true",
        "changelog-producer": "lookup",
    },
    "aggregation": {"bucket": "2", "merge-engine": "aggregation", "fields.score.aggregate-function": "sum"},
    "first row": {"bucket": "1", "merge-engine": "first-row"},
    "deletion vectors": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
    "full compaction": {"bucket": "1", "changelog-producer": "full-compaction"},
    "write only": {"bucket": "2", "write-only": "true"},
}
NO_DELETES = {"partial update", "partial update by lookup", "aggregation", "first row"}


def table_of(folder: Path, options: dict[str, Any], *, keys: list[str], partitions: list[str]) -> Table:
    catalog = penstock.Catalog(str(folder))
    catalog.create_database("d", ignore_if_exists=True)
    return catalog.create_table("d.t", COLUMNS, primary_keys=keys, partition_keys=partitions, options=options)


def write(table: Table, chance: random.Random, *, deletes: bool, count: int = 60) -> None:
    ids = [chance.randrange(80) for _ in range(count)]
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.int64()),
        "region": [("north", "south")[number % 2] if table.partition_keys else "all" for number in ids],
        "name": [chance.choice([None, f"name {chance.randrange(1000)}", "x" * 40]) for _ in ids],
        "score": pa.array([chance.randrange(100) for _ in ids], pa.int32()),
    }
    kinds = [chance.choice(["+I", "+I", "+U", "-D"]) for _ in ids] if deletes else None
    with table.writer() as writer:
        writer.write(pa.table(columns), kinds)
        writer.commit()


def joined(dimension: Dimension, keys: list[list[Any]]) -> list[tuple[int, tuple[Any, ...]]]:
    found = dimension.rows([pa.array(column) for column in keys])
    return sorted(zip(found.keys.tolist(), map(tuple, _rows(found.rows)), strict=True), key=repr)


def _rows(table: pa.Table) -> list[list[Any]]:
    return [list(row.values()) for row in table.to_pylist()]


def expected(table: Table, snapshot: int, by: list[str], keys: list[list[Any]]) -> list[tuple[int, tuple[Any, ...]]]:
    rows = defaultdict(list)
    for row in table.scan(snapshot=snapshot).to_arrow().to_pylist():
        rows[tuple(row[name] for name in by)].append(tuple(row.values()))
    asked = enumerate(zip(*keys, strict=True))
    return sorted(((number, row) for number, key in asked if None not in key for row in rows[key]), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "partitioned"),
    [*((kind, False) for kind in KINDS), ("buckets", True), ("sequence field", True), ("deletion vectors", True)],
)
def test_rows_are_those_of_a_scan_of_the_snapshot(tmp_path: Path, kind: str, partitioned: bool) -> None:
    keys, partitions = (["id", "region"], ["region"]) if partitioned else (["id"], [])
    table = table_of(tmp_path / "w", KINDS[kind], keys=keys, partitions=partitions)
    chance = random.Random(f"{kind} {partitioned}")
    write(table, chance, deletes=False)
    by_key = Dimension.open(table.store, by=keys, folder=tmp_path / "local")
    by_name = Dimension.open(table.store, by=["name"], folder=tmp_path / "local")
    for number in range(5):
        write(table, chance, deletes=kind not in NO_DELETES)
        if number == 3:
            table.compact()
        ids = [chance.choice([None, *range(-5, 90)]) for _ in range(100)]
        asked = [ids, ["north" if (number or 0) % 2 == 0 else "south" for number in ids]][: len(keys)]
        names = [chance.choice([None, f"name {chance.randrange(1000)}", "x" * 40]) for _ in range(100)]
        assert by_key.refresh()
        assert by_key.snapshot is not None
        assert joined(by_key, asked) == expected(table, by_key.snapshot, keys, asked)
        if number % 4 == 0:
            by_name.refresh()
            assert by_name.snapshot is not None
            assert joined(by_name, [names]) == expected(table, by_name.snapshot, ["name"], [names])
    by_key.move_to(3)
    assert joined(by_key, asked) == expected(table, 3, keys, asked)


def test_an_append_table_has_all_rows_of_a_key(tmp_path: Path) -> None:
    table = table_of(tmp_path / "w", {}, keys=[], partitions=[])
    chance = random.Random(5)
    dimension = Dimension.open(table.store, by=["id", "region"], folder=tmp_path / "local")
    assert dimension.snapshot is None
    assert joined(dimension, [[1, 2], ["all", "all"]]) == []
    for _ in range(5):
        write(table, chance, deletes=False)
        dimension.refresh()
        assert dimension.snapshot is not None
        ids = [chance.choice([None, *range(90)]) for _ in range(50)]
        asked = [ids, ["all"] * 49 + ["none"]]
        found = joined(dimension, asked)
        assert found == expected(table, dimension.snapshot, ["id", "region"], asked)
    assert len({number for number, _ in found}) < len(found)


@pytest.mark.parametrize("by", [["id", "region"], ["name"]])
@pytest.mark.parametrize("refreshes", [True, False])
def test_rows_are_read_again_if_a_rollback_gave_the_id_to_another_snapshot(
    tmp_path: Path, by: list[str], refreshes: bool
) -> None:
    def append(name: str) -> None:
        with table.writer() as writer:
            writer.write(pa.table({"id": [1], "region": ["all"], "name": [name], "score": pa.array([1], pa.int32())}))
            writer.commit()

    table = table_of(tmp_path / "w", {"bucket": "1"}, keys=["id", "region"], partitions=[])
    append("a")
    append("b")
    dimension = Dimension.open(table.store, by=by, folder=tmp_path / "local")
    asked = [[1], ["all"]] if by == ["id", "region"] else [["c"]]
    joined(dimension, asked)
    table.rollback_to(1)
    append("c")
    if refreshes:
        assert dimension.refresh()
        assert not dimension.refresh()
    else:
        dimension.move_to(2)
    assert joined(dimension, asked) == expected(table, 2, by, asked) != []


def test_a_key_of_another_type_is_cast_or_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path / "w", {"bucket": "1"}, keys=["id"], partitions=[])
    write(table, random.Random(1), deletes=False)
    by_id = Dimension.open(table.store, by=["id"], columns=["id"], folder=tmp_path / "local")
    known = by_id.rows([pa.array(range(80), pa.int8())]).keys.tolist()
    assert known == by_id.rows([pa.array(range(80), pa.int64())]).keys.tolist() != []
    by_score = Dimension.open(table.store, by=["score"], columns=["score"], folder=tmp_path / "local")
    # 2^40 modulo 2^32 is 0, and must not find the score 0.
    assert by_score.rows([pa.array([2**40, 2**40 + 1, None])]).keys.tolist() == []
    with pytest.raises(ConfigError, match="string cannot be compared with id"):
        by_id.rows([pa.array(["1"])])


@pytest.mark.parametrize("key", [True, False])
def test_a_key_that_its_column_cannot_have_has_no_row(tmp_path: Path, key: bool) -> None:
    catalog = penstock.Catalog(str(tmp_path / "w"))
    catalog.create_database("d")
    columns = [("price", "DECIMAL(10, 2) NOT NULL"), ("at", "TIMESTAMP(0) NOT NULL"), ("wide", "DECIMAL(38, 38)")]
    keys = ["price"] if key else []
    table = catalog.create_table("d.t", columns, primary_keys=keys, options={"bucket": "1"} if key else {})
    at = dt.datetime(2026, 1, 1, 1, 1, 1)
    with table.writer() as writer:
        row = {"price": [Decimal("99999999.99")], "at": [at], "wide": [Decimal("0." + "9" * 38)]}
        writer.write(pa.table(row, table.schema))
        writer.commit()
    by_price = Dimension.open(table.store, by=["price"], folder=tmp_path / "local")
    asked = [Decimal(text) for text in ("99999999.990", "99999999.991", "100000000.00", "-1E30")]
    assert by_price.rows([pa.array([*asked, None], pa.decimal128(38, 3))]).keys.tolist() == [0]
    assert by_price.rows([pa.array([99999999, 2**62])]).keys.tolist() == []
    by_wide = Dimension.open(table.store, by=["wide"], folder=tmp_path / "local")
    assert by_wide.rows([pa.array([Decimal("9" * 38), None], pa.decimal128(38, 0))]).keys.tolist() == []
    assert by_wide.rows([pa.array([Decimal("0." + "9" * 38)], pa.decimal128(38, 38))]).keys.tolist() == [0]
    by_time = Dimension.open(table.store, by=["at"], folder=tmp_path / "local")
    times = [at, at.replace(microsecond=1), dt.datetime(9999, 1, 1)]
    assert by_time.rows([pa.array(times, pa.timestamp("us"))]).keys.tolist() == [0]


@pytest.mark.parametrize(
    ("by", "columns", "message"),
    [
        (["id"], ["nmae"], "nmae"),
        (["idd"], None, "idd"),
        ([], None, "at least one column"),
        (["id", "id"], None, "compares a column of the table with two values"),
        (["ratio"], None, "cannot be looked up by ratio"),
    ],
)
def test_columns_that_cannot_be_looked_up_are_refused(
    tmp_path: Path, by: list[str], columns: list[str] | None, message: str
) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("d")
    table = catalog.create_table("d.t", [*COLUMNS, ("ratio", "DOUBLE")], primary_keys=["id"], options={"bucket": "1"})
    with pytest.raises(ConfigError, match=message):
        Dimension.open(table.store, by=by, columns=columns)


def test_a_column_that_was_dropped_stops_the_next_refresh_by_its_name(tmp_path: Path) -> None:
    table = table_of(tmp_path / "w", {"bucket": "1"}, keys=["id"], partitions=[])
    write(table, random.Random(1), deletes=False)
    dimension = Dimension.open(table.store, by=["id"], columns=["name"], folder=tmp_path / "local")
    table.store.evolve([penstock.DropColumn("name")], check_usable)
    write_without_name(table.refresh())
    with pytest.raises(ConfigError, match="name"):
        dimension.refresh()


def test_a_column_that_was_renamed_or_widened_is_followed_before_the_next_snapshot(tmp_path: Path) -> None:
    table = table_of(tmp_path / "w", {"bucket": "1"}, keys=["id"], partitions=[])
    write(table, random.Random(1), deletes=False)
    by_name, by_score = (
        Dimension.open(table.store, by=["id"], columns=[name], folder=tmp_path / "local") for name in ("name", "score")
    )
    table.store.evolve([penstock.UpdateColumnType("score", "BIGINT")], check_usable)
    by_score.follow_schema()
    assert by_score.rows([pa.array([1])]).rows.schema.field("score").type == pa.int64()
    assert by_name.refresh()
    assert not by_name.refresh()
    table.store.evolve([penstock.RenameColumn("name", "title")], check_usable)
    with pytest.raises(ConfigError, match="name"):
        by_name.refresh()
    with pytest.raises(ConfigError, match="title"):  # the columns that the table has now
        by_name.follow_schema()


def test_columns_that_change_their_names_with_each_other_are_followed(tmp_path: Path) -> None:
    """The column that had the name of the key has another one now, and is looked up under it."""
    table = table_of(tmp_path / "w", {"bucket": "1"}, keys=["id"], partitions=[])
    write(table, random.Random(1), deletes=False)
    table.store.evolve([penstock.UpdateColumnType("score", "BIGINT")], check_usable)
    dimensions = [
        Dimension.open(table.store, by=[by], columns=columns, folder=tmp_path / "local")
        for by in ("id", "score")
        for columns in (["name"], ["region", "name"])
    ]
    for one, other in (("id", "score"), ("name", "region"), ("id", "score")):
        swaps = [(one, "swapped"), (other, one), ("swapped", other)]
        for before, after in swaps:
            table.store.evolve([penstock.RenameColumn(before, after)], check_usable)
        for dimension in dimensions:
            assert dimension.refresh()
            fresh = Dimension.open(table.store, by=dimension.by, columns=dimension.columns, folder=tmp_path / "other")
            keys = [list(range(100))]
            assert joined(dimension, keys) == joined(fresh, keys)
            assert dimension.is_unique == fresh.is_unique == (dimension.by == tuple(table.store.schema().primary_keys))


def write_without_name(table: Table) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": [1], "region": ["all"], "score": pa.array([1], pa.int32())}))
        writer.commit()


@pytest.mark.parametrize("keys", [["id"], []])
def test_local_files_that_were_deleted_are_written_again(tmp_path: Path, keys: list[str]) -> None:
    table = table_of(tmp_path / "w", {"bucket": "1"} if keys else {}, keys=keys, partitions=[])
    write(table, random.Random(1), deletes=False)
    asked = [list(range(80))]
    wanted = expected(table, 1, ["id"], asked)
    for _ in range(3):
        dimension = Dimension.open(table.store, by=["id"], folder=tmp_path / "local")
        assert joined(dimension, asked) == wanted
        for path in (tmp_path / "local").iterdir():
            path.write_bytes(b"") if path.suffix == ".arrow" else path.unlink()


def test_rows_beside_keys_are_a_join(tmp_path: Path) -> None:
    table = table_of(tmp_path / "w", {}, keys=[], partitions=[])
    write(table, random.Random(1), deletes=False, count=3)
    (key, *_) = table.scan().to_arrow().column("id").to_pylist()
    dimension = Dimension.open(table.store, by=["id"], columns=["id"], folder=tmp_path / "local")
    found = dimension.rows([pa.array([key, 1000, key, None])])
    assert found.missing.tolist() == [1, 3]
    numbers, rows = found.beside(outer=True)
    assert numbers.tolist() == [0, 1, 2, 3]
    assert rows.column("id").to_pylist() == [key, None, key, None]
    numbers, rows = found.beside(outer=False)
    assert numbers.tolist() == [0, 2]
    assert rows.column("id").to_pylist() == [key, key]
