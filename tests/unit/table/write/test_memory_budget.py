"""The write buffer: what goes to disk when memory is short, and that nothing tells it from what did not."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from penstock.table.handle import Table
from penstock.table.write import keyed_buffer as keyed_rows
from penstock.table.write.memory_budget import WriteBudget
from tests.unit.table.tables import content, new_table, rows

COLUMNS = [("id", "STRING NOT NULL"), ("a", "INT"), ("b", "INT"), ("g", "INT")]
SUMS = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "last_value",
}
GROUPS = {"merge-engine": "partial-update", "fields.g.sequence-group": "a,b", "fields.a.aggregate-function": "sum"}
TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "by sequence": {"sequence.field": "a"},
    "input": {"changelog-producer": "input"},
    "input by sequence": {"changelog-producer": "input", "sequence.field": "g"},
    "aggregation": SUMS,
    "sequence groups": GROUPS,
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def random_rows(table: Table, random: Random, count: int) -> tuple[pa.Table, list[str]]:
    def value() -> int | None:
        return random.choice([None, *range(9)])

    values = [(f"k{random.randrange(40)}", value(), value(), value()) for _ in range(count)]
    return rows(table, *values), [random.choice(["+I", "+I", "+U", "-D"]) for _ in values]


def as_files(table: Table) -> list[list[dict[str, object]]]:
    """Return the rows of the table's data and changelog files, file by file, without names."""
    paths = Path(table.path).rglob("bucket-*/*.parquet")
    return sorted((pq.read_table(path).to_pylist() for path in paths), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_spilled_buffer_writes_the_same_files(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "_PIECE_ROWS", 7)
    monkeypatch.setattr(keyed_rows, "_PIECE_BYTES", 700)
    made = []
    for size in ("256 mb", "4 kb"):
        options = {"bucket": "1", "write-only": "true", "write-buffer-size": size, **TABLES[name]}
        table, random = new_table(tmp_path / size, COLUMNS, options=options), Random(name)
        for _ in range(2):
            with table.writer() as writer:
                for _ in range(12):
                    writer.write(*random_rows(table, random, 30))
                writer.commit()
        made.append(as_files(table))
    assert made[0] == made[1]


@pytest.mark.slow
def test_spilled_files_are_removed_with_or_without_a_commit(tmp_path: Path, temporary: Path) -> None:
    table = new_table(tmp_path, COLUMNS, options={"write-buffer-size": "1 kb", "spill-compression": "lz4"})
    for commits in (True, False):
        with table.writer() as writer:
            writer.write(*random_rows(table, Random(1), 100))
            writer.write(*random_rows(table, Random(2), 100))
            assert list(temporary.rglob("penstock-spill-*/*.arrow"))
            assert not list(Path(table.path).rglob("data-*")) or not commits
            if commits:
                writer.commit()
        assert not list(temporary.rglob("*.arrow"))


@pytest.mark.slow
def test_rows_beyond_the_disk_limit_are_flushed_to_table_files(tmp_path: Path) -> None:
    options = {
        "bucket": "1",
        "write-only": "true",
        "write-buffer-size": "1 kb",
        "write-buffer-spill.max-disk-size": "6 kb",
    }
    table = new_table(tmp_path, COLUMNS, options=options)
    with table.writer() as writer:
        for number in range(8):
            writer.write(*random_rows(table, Random(number), 100))
        assert list(Path(table.path).rglob("data-*"))
        writer.commit()
    spilled = new_table(tmp_path / "beside", COLUMNS, options={**options, "write-buffer-spill.max-disk-size": "1 gb"})
    with spilled.writer() as writer:
        for number in range(8):
            writer.write(*random_rows(table, Random(number), 100))
        writer.commit()
    assert content(table) == content(spilled)


def test_an_append_table_continues_one_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, keys=(), options={"bucket": "-1", "write-buffer-size": "1 kb"})
    with table.writer() as writer:
        for number in range(20):
            writer.write(rows(table, (f"k{number}", number, None, None)))
        writer.commit()
    assert table.scan().to_arrow().column("a").to_pylist() == list(range(20))
    assert len(list(Path(table.path).rglob("data-*"))) == 1


class Holding:
    """A bucket that records when it is flushed."""

    def __init__(self, budget: WriteBudget) -> None:
        self.budget, self.buffered_bytes, self.released = budget, 0, 0

    def add(self, size: int) -> None:
        self.buffered_bytes += size
        self.budget.grew(self, size)

    def release(self) -> None:
        self.released += 1
        buffered, self.buffered_bytes = self.buffered_bytes, 0
        self.budget.shrank(self, buffered)


def test_the_largest_buffer_of_any_writer_is_flushed_first() -> None:
    budget = WriteBudget(100)
    buffers = [Holding(budget) for _ in range(4)]
    for buffer, size in zip(buffers, (10, 60, 20, 11), strict=True):
        buffer.add(size)
    assert [buffer.released for buffer in buffers] == [0, 1, 0, 0]
    for buffer in buffers:
        buffer.add(20)
    assert [buffer.released for buffer in buffers] == [0, 1, 1, 0]


@pytest.mark.slow
def test_writers_of_several_tables_share_a_budget(tmp_path: Path, temporary: Path) -> None:
    tables = [new_table(tmp_path / name, COLUMNS, options={"bucket": "1"}) for name in "ab"]
    budget = WriteBudget(12_000)
    with tables[0].writer(budget=budget) as first, tables[1].writer(budget=budget) as second:
        first.write(*random_rows(tables[0], Random(1), 300))
        assert not list(temporary.rglob("*.arrow"))
        second.write(*random_rows(tables[1], Random(1), 350))
        assert len(list(temporary.rglob("*.arrow"))) == 1
        first.commit()
        second.commit()
    assert len(content(tables[0])) > 20


SPILLING_OFF = pytest.param({"write-buffer-spillable": "false"}, marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, SPILLING_OFF], ids=str)
def test_many_partitions_with_one_row_fit_in_a_small_budget(tmp_path: Path, options: Mapping[str, str]) -> None:
    columns = [("id", "INT NOT NULL"), ("p", "INT NOT NULL")]
    table = new_table(
        tmp_path, columns, keys=("id", "p"), partitions=("p",), options={"write-buffer-size": "100 kb", **options}
    )
    with table.writer() as writer:
        writer.write(rows(table, *((number, number) for number in range(300))))
        writer.commit()
    assert len(content(table)) == 300
