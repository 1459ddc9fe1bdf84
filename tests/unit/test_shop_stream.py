"""The workload of the benchmarks: the same for the same seed, and a judge that finds what is wrong."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import duckdb
import msgspec
import pytest

from benchmarks.shop.columns import TABLES, ShopTable
from benchmarks.shop.judge import Wrong, check, expected_rows
from benchmarks.shop.stream import PARTS, changes, write

pytestmark = pytest.mark.slow

EVENTS = 3000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("shop")
    write(home, EVENTS)
    return home


def test_the_stream_is_the_same_for_the_same_seed() -> None:
    assert list(changes(500)) == list(changes(500))
    assert list(changes(500)) != list(changes(500, seed=8))


def test_changes_of_a_key_are_in_one_part_and_in_order(folder: Path) -> None:
    parts, numbers = defaultdict(set), defaultdict(list)
    for part in range(PARTS):
        for line in (folder / f"part-{part}.jsonl").read_bytes().splitlines():
            message = msgspec.json.decode(line)
            key = message["table"], message["data"][0]["id"]
            parts[key].add(part)
            numbers[key].append(message["id"])
    assert all(len(where) == 1 for where in parts.values())
    assert all(each == sorted(each) for each in numbers.values())
    assert sum(map(len, numbers.values())) == EVENTS


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_model_has_the_last_change_of_each_key(folder: Path, table: ShopTable) -> None:
    last: dict[str, dict] = {}
    for change in changes(EVENTS):
        message = msgspec.json.decode(change.message)
        if change.table == table.name:
            last[message["data"][0]["id"]] = message
    alive = sum(message["type"] != "DELETE" for message in last.values())
    with duckdb.connect() as judge:
        rows = judge.sql(expected_rows(folder, table)).to_arrow_table()
    assert check(folder, table, rows) == alive
    with pytest.raises(Wrong, match="1 are missing"):
        check(folder, table, rows.slice(1))
