"""A reader that keeps the newest row of each primary key ends with the rows of a cross-partition table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.row_kinds import DELETE, INSERT
from penstock.table.handle import Table
from tests.seeds import seeds
from tests.unit.table.tables import content, new_table, rows

COLUMNS = [("k", "INT NOT NULL"), ("p", "STRING NOT NULL"), ("v", "INT")]
PRODUCERS = ["none", "input", "lookup", "full-compaction"]


def moving(folder: Path, **options: str) -> Table:
    dynamic = {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}
    return new_table(folder, COLUMNS, keys=["k"], partitions=["p"], options=dynamic | options)


def write(table: Table, *values: tuple[int, str, int], kinds: Iterable[int] | None = None) -> None:
    """Write by a writer of its own, which does not know where keys were before."""
    with table.writer() as writer:
        writer.write(rows(table, *values), kinds=None if kinds is None else np.array(list(kinds), np.int8))
        writer.commit()


def folded(changes: pa.Table, held: dict[int, tuple[Any, ...]]) -> dict[int, tuple[Any, ...]]:
    for kind, *row in zip(*(column.to_pylist() for column in changes.columns), strict=True):
        if kind in {"+I", "+U"}:
            held[row[0]] = tuple(row)
        else:
            held.pop(row[0], None)
    return held


@pytest.mark.parametrize("producer", PRODUCERS)
def test_two_keys_that_change_places_are_both_kept(tmp_path: Path, producer: str) -> None:
    table = moving(tmp_path, **{"changelog-producer": producer})
    write(table, (1, "a", 1), (2, "b", 1))
    write(table, (1, "b", 2), (2, "a", 2))
    held = folded(table.changes(0, table.snapshots[-1].id), {})
    assert sorted(held.values()) == content(table) == [(1, "b", 2), (2, "a", 2)]


def test_a_key_that_comes_back_into_another_bucket_before_a_full_compaction_is_kept(tmp_path: Path) -> None:
    table = moving(tmp_path, **{"changelog-producer": "full-compaction", "write-only": "true"})
    write(table, *((key, "a", 1) for key in range(7)))
    table.compact()
    read = table.snapshots[-1].id
    write(table, *((key, "b", 2) for key in range(7)))
    write(table, *((key, "a", 3) for key in reversed(range(7))))
    table.compact()
    held = folded(table.changes(read, table.snapshots[-1].id), {key: (key, "a", 1) for key in range(7)})
    assert sorted(held.values()) == content(table) == [(key, "a", 3) for key in range(7)]


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("seed", seeds(6))
def test_folded_changes_are_the_rows_of_the_table(tmp_path: Path, producer: str, seed: int) -> None:
    random = Random(f"{producer} {seed}")
    table = moving(tmp_path, **{"changelog-producer": producer, "write-only": random.choice(("true", "false"))})
    held: dict[int, tuple[Any, ...]] = {}
    read = 0
    for number in range(8):
        count = random.randint(1, 12)
        values = [(random.randrange(9), random.choice("abc"), number) for _ in range(count)]
        write(table, *values, kinds=random.choices((INSERT, INSERT, INSERT, DELETE), k=count))
        if random.random() < 0.3:
            table.compact()
        newest = table.snapshots[-1].id
        if random.random() < 0.6 and (number < 7 or producer != "full-compaction"):
            held, read = folded(table.changes(read, newest), held), newest
    table.compact()
    held = folded(table.changes(read, table.snapshots[-1].id), held)
    assert sorted(held.values()) == content(table)


def test_the_rows_of_a_condition_and_of_some_columns_are_read(tmp_path: Path) -> None:
    table = moving(tmp_path, **{"changelog-producer": "input"})
    write(table, (1, "a", 1), (2, "b", 1))
    write(table, (1, "b", 2), (2, "a", 2))
    newest = table.snapshots[-1].id
    between = {"incremental-between": f"1,{newest}"}
    found = table.scan(columns=["v"], where="p = 'a'", options=between).to_arrow().to_pylist()
    assert found == [{"rowkind": "-D", "v": 2}, {"rowkind": "+I", "v": 2}]
