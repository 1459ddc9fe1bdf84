"""The memory of writes and compactions, measured in separate processes, does not grow with the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.table.handle import Table
from tests.unit.table.tables import new_table

COLUMNS = [("id", "BIGINT NOT NULL"), ("note", "STRING"), ("v", "DOUBLE")]
RUNS, ROWS, WIDTH = 5, 350_000, 400
BATCH = 50_000


def grown(work: str, table: Table, rows: int = 0) -> int:
    """MB that a process grew by over what it held before it began."""
    command = [sys.executable, "-m", "tests.unit.table.write.memory_child", work, table.path, str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def overlapping(folder: Path, options: dict[str, str]) -> Table:
    table = new_table(folder, COLUMNS, options={"bucket": "1", "write-only": "true", **options})
    notes = pa.array([f"{number}" + "x" * WIDTH for number in range(1000)])
    for run in range(RUNS):
        with table.writer() as writer:
            for begin in range(0, ROWS, BATCH):
                ids = np.arange(begin, begin + BATCH) * RUNS + run * (RUNS - 1)
                writer.write(pa.table({"id": ids, "note": notes.take(pa.array(ids % 1000)), "v": ids / 3}))
            writer.commit()
    return table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 320),
        ({"merge-engine": "partial-update"}, 320),
        ({"changelog-producer": "lookup"}, 400),
        ({"file.format": "orc"}, 400),
    ],
    ids=["deduplicate", "partial-update", "lookup", "orc"],
)
def test_a_bucket_larger_than_the_limit_is_compacted_within_it(
    tmp_path: Path, options: dict[str, str], most: int
) -> None:
    table = overlapping(tmp_path, options)
    assert RUNS * ROWS * WIDTH > 650e6
    assert grown("compact", table) < most


@pytest.mark.slow
def test_the_memory_of_a_write_is_bounded_by_its_buffer(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, options={"bucket": "1", "write-buffer-size": "16 mb"})
    rows = 2_000_000
    assert rows * 60 > 6 * (16 << 20)
    assert grown("write", table, rows) < 350


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_the_memory_of_a_write_does_not_grow_with_spilled_runs(tmp_path: Path, engine: str) -> None:
    """Runs are merged with a part of each in memory, and each is hardly longer than the buffer."""
    options = {"bucket": "1", "write-buffer-size": "8 mb", "merge-engine": engine, "write-only": "true"}
    small, large = (
        grown("write long rows", new_table(tmp_path / str(rows), COLUMNS, options=options), rows)
        for rows in (60_000, 400_000)
    )
    assert large - small < 70, (small, large)


@pytest.mark.slow
def test_partitions_with_one_row_need_little_memory(tmp_path: Path) -> None:
    columns = [("id", "BIGINT NOT NULL"), ("p", "BIGINT NOT NULL"), ("note", "STRING"), ("v", "DOUBLE")]
    table = new_table(tmp_path, columns, keys=("id", "p"), partitions=("p",), options={"bucket": "1"})
    partitions = 400
    assert grown("write", table, partitions) < 80  # of 1,024 for 5,000 of them
    assert len(table.refresh().system("files")) == partitions
