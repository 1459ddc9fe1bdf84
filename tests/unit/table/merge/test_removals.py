"""Deletes before later rows of the same key, in one commit and among rows that are assigned to their bucket."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.live import live_entries

ENGINES = {
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {
        "merge-engine": "aggregation",
        "aggregation.remove-record-on-delete": "true",
        "fields.n.aggregate-function": "sum",
    },
}
WAYS = {
    "plain": {"bucket": "1"},
    "dynamic": {"bucket": "-1"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "full-compaction": {"bucket": "1", "changelog-producer": "full-compaction"},
    "input": {"bucket": "1", "changelog-producer": "input"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "postponed": {"bucket": "-2"},
    "postponed, lookup": {"bucket": "-2", "changelog-producer": "lookup"},
    "small files": {"bucket": "1", "target-file-size": "1 b"},
    "sequence": {"bucket": "1", "sequence.field": "s"},
    "postponed, sequence": {"bucket": "-2", "sequence.field": "s"},
    "spilled": {"bucket": "1", "write-buffer-size": "1 b"},
    "released": {"bucket": "1", "write-buffer-size": "1 b", "write-buffer-spillable": "false"},
}
NAMES = ("k", "v", "n", "s")
OLDER = [("+I", key, "old", 100, 1) for key in range(6)]
CHANGES = [
    ("+I", 0, "mid", 1, 2),
    ("+I", 1, "mid", 1, 2),
    ("-D", 1, None, None, 3),
    ("-D", 2, None, None, 2),
    ("+I", 2, None, 5, 3),
    ("+I", 3, "mid", 1, 2),
    ("-D", 3, None, None, 3),
    ("+I", 3, None, 5, 4),
    ("-D", 3, None, None, 5),
    ("+I", 3, "new", None, 6),
    ("+I", 3, None, 6, 7),
    ("-D", 4, None, None, 2),
    ("+I", 7, None, 8, 2),
]
# Columns of a row that was deleted never come back: key 2 has no "old", and a sum begins with the row after the delete.
LEFT = {0: ("mid", (1, 101)), 2: (None, (5, 5)), 3: ("new", (6, 6)), 5: ("old", (100, 100)), 7: (None, (8, 8))}


def created(folder: Path, options: dict[str, str]) -> Table:
    catalog = Catalog(folder, {"local.sync": "false"})
    catalog.create_database("d")
    columns = [("k", "INT NOT NULL"), ("v", "STRING"), ("n", "INT"), ("s", "INT")]
    return catalog.create_table("d.t", columns, primary_keys=["k"], options=options)


def write(table: Table, rows: list[tuple[Any, ...]], *, compacts: bool = False, parts: int = 1) -> None:
    with table.writer() as writer:
        for part in range(parts):
            some = rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
            columns = [[row[place] for row in some] for place in range(1, 5)]
            writer.write(pa.table(columns, schema=table.schema), [row[0] for row in some])
        writer.commit()
    if compacts:
        table.compact(full=True)


def rows_of(table: Table) -> dict[int, tuple[Any, ...]]:
    return {row["k"]: (row["v"], row["n"]) for row in table.scan().to_arrow().to_pylist()}


def files_of(table: Table) -> list[DataFile]:
    latest = table.store.snapshots.latest()
    assert latest is not None
    return [entry.file for entry in live_entries(table.store, latest)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_after_a_delete_does_not_get_the_deleted_columns(tmp_path: Path, engine: str, way: str) -> None:
    table = created(tmp_path, ENGINES[engine] | WAYS[way])
    waits = way == "full-compaction" or way.startswith("postponed")
    write(table, OLDER, compacts=way != "dynamic")
    write(table, CHANGES, compacts=waits, parts=13 if way in {"spilled", "released"} else 1)
    expected = {key: (v, numbers[engine == "aggregation"]) for key, (v, numbers) in LEFT.items()}
    assert rows_of(table) == expected
    table.compact(full=True)
    assert rows_of(table) == expected


@pytest.mark.parametrize("way", ["postponed", "postponed, lookup", "postponed, sequence"])
@pytest.mark.parametrize("engine", ENGINES)
def test_postponed_rows_of_several_commits_are_merged_in_their_order(tmp_path: Path, engine: str, way: str) -> None:
    table = created(tmp_path, ENGINES[engine] | WAYS[way])
    write(table, OLDER, compacts=True)
    for row in CHANGES:
        write(table, [row])
    table.compact(full=True)
    assert rows_of(table) == {key: (v, numbers[engine == "aggregation"]) for key, (v, numbers) in LEFT.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_last_delete_of_a_commit_keeps_its_sequence(tmp_path: Path, engine: str) -> None:
    table = created(tmp_path, ENGINES[engine] | WAYS["sequence"])
    write(table, [("+I", 1, "old", 1, 4)])
    write(table, [("+I", 1, "late", 2, 3), ("-D", 1, None, None, 5)])
    assert rows_of(table) == {}


def test_a_delete_is_in_a_separate_file_only_if_its_key_has_later_rows(tmp_path: Path) -> None:
    table = created(tmp_path, ENGINES["partial-update"] | WAYS["plain"] | {"write-only": "true"})
    write(table, [("+I", 1, "a", 1, 1), ("-D", 1, None, None, 1), ("-D", 2, None, None, 1), ("+I", 3, "a", 1, 1)])
    assert len(files_of(table)) == 1
    write(table, [("-D", 1, None, None, 1), ("+I", 1, "a", 1, 1)])
    assert [file.row_count for file in files_of(table)] == [3, 1, 1]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_that_came_back_in_a_commit_keeps_its_new_partition(tmp_path: Path, engine: str) -> None:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    columns = [("k", "INT NOT NULL"), ("v", "STRING"), ("n", "INT"), ("p", "INT NOT NULL")]
    table = catalog.create_table(
        "d.t", columns, primary_keys=["k"], partition_keys=["p"], options=ENGINES[engine] | {"bucket": "-1"}
    )
    # The delete of key 2 has a higher number than the row of key 1, which is in the file with the later row of key 2.
    write(table, [("+I", 1, "a", 1, 0), ("-D", 2, None, None, 0), ("+I", 2, "new", 1, 0)])
    write(table, [("+I", 2, "newer", 1, 1)])
    assert [(row["k"], row["p"]) for row in table.scan().to_arrow().sort_by("k").to_pylist()] == [(1, 0), (2, 0)]
