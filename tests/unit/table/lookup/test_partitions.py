"""Lookups in some partitions of a dimension, compared with a scan of these partitions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.handle import Table
from penstock.table.lookup.dimension import Dimension
from penstock.table.lookup.partitions import LookupPartitions

COLUMNS = [("id", "BIGINT NOT NULL"), ("day", "DATE NOT NULL"), ("hour", "INT NOT NULL"), ("name", "STRING")]
FIRST_DAY = 19_800  # days since 1970


def table_of(folder: Path, keys: tuple[str, ...] = ("id", "day", "hour")) -> Table:
    catalog = penstock.Catalog(str(folder))
    catalog.create_database("d")
    options = {"bucket": "2"} if keys else {}
    return catalog.create_table(
        "d.t", COLUMNS, primary_keys=list(keys), partition_keys=["day", "hour"], options=options
    )


def write(table: Table, rows: list[tuple[int, int, int, str]]) -> None:
    columns = list(zip(*rows, strict=True))
    day = pa.array([FIRST_DAY + day for day in columns[1]], pa.int32()).cast(pa.date32())
    given = [pa.array(columns[0], pa.int64()), day, pa.array(columns[2], pa.int32()), pa.array(columns[3])]
    with table.writer() as writer:
        writer.write(pa.table(given, schema=table.schema))
        writer.commit()


def names(dimension: Dimension, ids: list[int]) -> list[tuple[int, str]]:
    found = dimension.rows([pa.array(ids)])
    return sorted(zip(found.keys.tolist(), found.rows.column("name").to_pylist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("keys", [("id", "day", "hour"), ()], ids=["keys", "no keys"])
def test_the_newest_partitions_are_those_of_the_snapshot(tmp_path: Path, keys: tuple[str, ...]) -> None:
    table, chance = table_of(tmp_path / "w", keys), random.Random(4)
    given: dict[str, Any] = {"by": ["id"], "folder": tmp_path / "local"}
    of_newest = Dimension.open(table.store, partitions=LookupPartitions.parse("max_pt()"), **given)
    of_two_newest = Dimension.open(table.store, partitions=LookupPartitions.parse(" MAX_TWO_PT() "), **given)
    assert of_newest.is_unique == bool(keys)
    assert not of_two_newest.is_unique
    assert names(of_newest, [1]) == []
    rows: list[tuple[int, int, int, str]] = []
    for number in range(8):
        # The hour 10 is later than the hour 9, although its text is not.
        place = (chance.randrange(4), chance.randrange(8, 12))
        made = [(one_, *place, f"{number} {one_}") for one_ in chance.sample(range(20), 8)]
        write(table, made)
        rows = [row for row in rows if not keys or row[:3] not in {new[:3] for new in made}] + made
        newest = sorted({row[1:3] for row in rows})
        for dimension, chosen in ((of_newest, newest[-1:]), (of_two_newest, newest[-2:])):
            dimension.refresh()
            expected = sorted((row[0], row[3]) for row in rows if row[1:3] in chosen)
            assert names(dimension, list(range(20))) == expected


def test_given_partitions_are_read_by_the_types_of_their_columns(tmp_path: Path) -> None:
    table = table_of(tmp_path / "w")
    write(table, [(1, 0, 9, "a"), (2, 0, 10, "b"), (3, 1, 9, "c"), (4, 2, 9, "d")])
    folder = tmp_path / "local"
    for text, expected in (
        ("hour=9", ["a", "c", "d"]),
        ("day=2024-03-18", ["a", "b"]),
        (" day = 2024-03-18 , hour = 09 ; day=2024-03-20", ["a", "d"]),
        ("day=2030-01-01", []),
    ):
        partitions = LookupPartitions.parse(text)
        dimension = Dimension.open(table.store, by=["id"], partitions=partitions, folder=folder)
        assert [name for _, name in names(dimension, list(range(6)))] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_three_pt()", "does not name partitions"),
        ("", "does not name partitions"),
        ("day", "does not name partitions"),
        ("day=2024-03-18;", "does not name partitions"),
        ("month=3", "'month' is not a partition column"),
        ("hour=late", "a partition cannot have this value: 'late' cannot be read as INT"),
    ],
)
def test_other_texts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    table = table_of(tmp_path)
    with pytest.raises(ConfigError, match=message):
        Dimension.open(table.store, by=["id"], partitions=LookupPartitions.parse(text))
