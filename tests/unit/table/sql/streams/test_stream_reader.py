"""Conditions of streaming queries: which files they leave out, and that the rows are those without it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.table.read import change_stream
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from tests.unit.table.sql.streams.test_stream_jobs import Lake, Row

pytestmark = pytest.mark.slow

START = "/*+ OPTIONS('scan.snapshot-id' = '1') */"
FULL = "/*+ OPTIONS('scan.mode' = 'latest-full') */"
COLUMNS = "id INT, dt STRING, v INT, made TIMESTAMP(3)"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files of changes that streams read."""
    names: list[str] = []
    usual = SplitReader.read_files

    def watched(reader: SplitReader, split: Split) -> Iterator[pa.RecordBatch]:
        names.extend(file.name for file in split.files)
        return usual(reader, split)

    monkeypatch.setattr(SplitReader, "read_files", watched)
    return names


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "warehouse")
    made.batch(
        f"CREATE TABLE keyed ({COLUMNS}, PRIMARY KEY (id, dt) NOT ENFORCED) PARTITIONED BY (dt) "
        "WITH ('bucket' = '1', 'changelog-producer' = 'input');"
        f"CREATE TABLE log ({COLUMNS}) PARTITIONED BY (dt)"
    )
    return made


def test_files_of_other_partitions_keys_and_values_are_not_read(lake: Lake, read: list[str]) -> None:
    for number in range(4):
        values = f"({number}, 'd{number % 2}', {number * 10}, TIMESTAMP '2024-05-0{number + 1} 00:00:00')"
        lake.batch(f"INSERT INTO keyed VALUES {values}; INSERT INTO log VALUES {values}")
    for table, condition, ids, files in (
        ("keyed", "dt = 'd1'", [1, 3], 2),
        ("keyed", "id > 2", [3], 1),
        ("keyed", "v > 15", [2, 3], 4),  # old rows may have other values
        ("keyed", "dt = 'd1' AND upper(dt) = 'D1' AND v = 30", [3], 2),
        ("keyed", "dt = 'd1' OR v = 0", [0, 1, 3], 4),
        ("log", "v > 15", [2, 3], 2),
        ("log", "v IS NULL", [], 0),
    ):
        read.clear()
        for query in (
            f"SELECT id FROM {table} {START} WHERE {condition}",
            f"SELECT n FROM (SELECT id AS n, * FROM {table} {START}) WHERE {condition}",
        ):
            rows = lake.stream(query)
            assert [next(iter(list(row.values())[1:])) for row in rows] == ids
        assert len(read) == 2 * files, condition
    read.clear()
    assert [row["id"] for row in lake.stream(f"SELECT id FROM log$audit_log {START} WHERE dt = 'd1'")] == [1, 3]
    assert len(read) == 2


@pytest.mark.parametrize("seed", range(2))
def test_rows_are_those_of_a_stream_that_leaves_no_file_out(
    lake: Lake, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    for _ in range(5):
        values = ", ".join(
            f"({number}, 'd{dice.randrange(3)}', {dice.choice(['NULL', dice.randrange(20)])}, "
            f"{dice.choice(['NULL', f'TIMESTAMP {chr(39)}2024-05-0{dice.randrange(1, 9)} 10:00:00{chr(39)}'])})"
            for number in dice.sample(range(12), 4)
        )
        lake.batch(f"INSERT INTO keyed VALUES {values}; INSERT INTO log VALUES {values}")
        lake.batch(f"UPDATE keyed SET v = v + 5 WHERE id < {dice.randrange(12)}")
        lake.batch(f"DELETE FROM keyed WHERE id = {dice.randrange(12)}")

    def condition(depth: int = 2) -> str:
        if depth and dice.random() < 0.6:
            return f"({condition(depth - 1)} {dice.choice(['AND', 'OR'])} {condition(depth - 1)})"
        sign = dice.choice(["=", "<", ">", "<=", ">=", "<>"])
        simple = dice.choice(
            [
                f"id {sign} {dice.randrange(12)}",
                f"dt {sign} 'd{dice.randrange(3)}'",
                f"v {sign} {dice.randrange(25)}",
                f"made {sign} TIMESTAMP '2024-05-0{dice.randrange(1, 9)} 10:00:00'",
                f"v IS {dice.choice(['', 'NOT '])}NULL",
                f"id IN ({dice.randrange(12)}, {dice.randrange(12)})",
                f"v + id {sign} {dice.randrange(30)}",
                f"dt LIKE '%{dice.randrange(3)}'",
                f"coalesce(v, 0) {sign} {dice.randrange(25)}",
            ]
        )
        return f"NOT ({simple})" if dice.random() < 0.2 else simple

    queries = [
        f"SELECT id, dt, v FROM {table} {dice.choice([START, FULL])} WHERE {condition()}"
        for table in ("keyed", "log", "keyed$audit_log")
        for _ in range(4)
    ]
    found = [lake.stream(query) for query in queries]
    monkeypatch.setattr(change_stream, "possible_changes", lambda store, layout, splits, where: splits)
    expected: list[list[Row]] = [lake.stream(query) for query in queries]
    assert found == expected
    assert any(expected)
