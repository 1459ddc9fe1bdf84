"""What a scan does not open: files, buckets and partitions that cannot hold its rows, columns it does not want."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.table.handle import Table
from tests.unit.table.tables import new_table, rows

F = pc.field
COLUMNS = [("id", "BIGINT NOT NULL"), ("city", "STRING NOT NULL"), ("note", "STRING")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two partitions of four buckets, six commits; each of 200 ids of its own."""
    made = new_table(
        tmp_path,
        COLUMNS,
        keys=("id", "city"),
        partitions=("city",),
        options={"bucket": "4", "write-only": "true"},
    )
    for commit in range(6):
        with made.writer() as writer:
            ids = range(commit * 200, commit * 200 + 200)
            writer.write(rows(made, *((n, "ab"[commit % 2], f"note {commit}") for n in ids)))
            writer.commit()
    return made


def files(table: Table, where: pc.Expression | None = None) -> int:
    return table.scan(where=where).plan().files


PRUNED = {
    "the value of a partition": (F("city") == "a", 12),
    "a partition there is not": (F("city") == "c", 0),
    "a key's bucket": (F("id") == 7, 1),
    "a range of keys": (F("id") < 150, 4),
    "keys beyond all files": (F("id") > 10**9, 0),
    "a partition and a key": ((F("city") == "b") & (F("id") == 7), 0),
    "either of two": ((F("city") == "a") | (F("id") >= 1000), 16),
}


@pytest.mark.parametrize("name", PRUNED)
def test_a_condition_spares_the_files_that_cannot_hold_its_rows(table: Table, name: str) -> None:
    where, wanted = PRUNED[name]
    assert files(table) == 24
    assert files(table, where) == wanted
    every = table.scan().to_arrow().filter(where).sort_by("id")
    assert table.scan(where=where).to_arrow().sort_by("id").equals(every)


def test_values_spare_files_only_where_no_newer_row_of_a_key_can_be_missed(table: Table) -> None:
    assert files(table, F("note") == "note 5") == 24  # an older file may hold what a newer one replaced
    table.compact()
    assert files(table, F("note") == "note 5") < files(table)
    assert files(table, F("note") == "z") == 0


def test_a_replaced_row_does_not_come_back_by_a_condition_on_its_old_value(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "write-only": "true"})
    for name in ("old", "new"):
        with table.writer() as writer:
            writer.write(rows(table, (1, name, None)))
            writer.commit()
    assert table.scan(where=F("name") == "old").to_arrow().num_rows == 0


def test_splits_follow_the_target_size(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1", "bucket-key": "", "write-only": "true"})
    for commit in range(8):
        with table.writer() as writer:
            writer.write(rows(table, (commit, "x", None)))
            writer.commit()
    cost = {"source.split.open-file-cost": "1 kb"}
    assert len(table.scan(options=cost).plan().splits) == 1
    assert len(table.scan(options={**cost, "source.split.target-size": "1 b"}).plan().splits) == 8
    two = table.scan(options={"source.split.open-file-cost": "4 mb", "source.split.target-size": "8 mb"})
    assert [split.rows for split in two.plan().splits] == [2, 2, 2, 2]
    assert sum(batch.num_rows for split in two.plan().splits for batch in two.read(split)) == 8


def test_sections_of_keys_are_split_but_never_divided(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "write-only": "true"})
    for start in (0, 0, 100, 100, 200):  # keys 0.., 100.. and 200..: three sections, the first two of two runs
        with table.writer() as writer:
            writer.write(rows(table, *((n, f"{start}", None) for n in range(start, start + 50))))
            writer.commit()
    scan = table.scan(options={"source.split.target-size": "1 b"})
    splits = scan.plan().splits
    assert [(len(split.files), split.raw) for split in splits] == [(2, False), (2, False), (1, True)]
    found = pa.Table.from_batches(batch for split in splits for batch in scan.read(split))
    assert sorted(found["id"].to_pylist()) == [n for start in (0, 100, 200) for n in range(start, start + 50)]


def test_only_wanted_columns_are_given_in_the_wanted_order(table: Table) -> None:
    found = table.scan(columns=["note", "id"], where=F("city") == "a").to_arrow()
    assert found.column_names == ["note", "id"]
    assert table.scan(columns=[]).to_arrow().num_rows == 1200
