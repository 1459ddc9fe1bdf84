"""The cost of an operation grows with the number of columns, not with its square."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.table.handle import Table
from tests.unit.table.tables import new_table

FEW, MANY, ROWS = 150, 900, 20
TYPES = ("INT", "STRING", "DECIMAL(10, 2)", "TIMESTAMP(3)")


def table_with(folder: Path, count: int, file_format: str) -> tuple[Table, pa.Table]:
    columns = [("id", "BIGINT NOT NULL"), *((f"c{number}", TYPES[number % 4]) for number in range(count))]
    table = new_table(folder / str(count), columns, options={"bucket": "1", "file.format": file_format})
    arrays = [pa.array(range(ROWS)), *(pa.nulls(ROWS, field.type) for field in list(table.schema)[1:])]
    return table, pa.Table.from_arrays(arrays, schema=table.schema)


def spent(work: Callable[[], object]) -> float:
    """Return the CPU seconds, without those of a garbage collection over all that other tests have left."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    try:
        work()
        return time.process_time() - began
    finally:
        gc.enable()


def always_dearer(attempt: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Return what is too dear in each of three attempts.

    A machine that has other work makes one of two measurements dear, and a machine that becomes faster the other.
    """
    found = attempt()
    for _ in range(2):
        if found:
            again = attempt()
            found = {name: again[name] for name in found.keys() & again.keys()}
    return found


def costs(table: Table, rows: pa.Table) -> dict[str, float]:
    """Return the CPU seconds of each operation, the least of two."""

    def write() -> None:
        with table.writer() as writer:
            writer.write(rows)
            writer.commit()

    works = {"write": write, "scan": lambda: table.refresh().scan().to_arrow(), "changes": lambda: table.changes(0, 2)}
    found = {name: min(spent(work), spent(work)) for name, work in works.items()}

    def compact() -> None:
        table.refresh().compact(full=True)

    first = spent(compact)
    write()  # or the second compaction would have nothing to do
    return {**found, "compact": min(first, spent(compact))}


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_the_cost_grows_with_the_number_of_columns(tmp_path: Path, file_format: str) -> None:
    """Six times as many columns cost six times as much; a square would be 36 times."""

    def dearer() -> dict[str, float]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        few = costs(*table_with(folder, FEW, file_format))
        many = costs(*table_with(folder, MANY, file_format))
        return {name: many[name] / few[name] for name in few if many[name] > 18 * few[name]}

    assert always_dearer(dearer) == {}


def test_what_is_dear_by_chance_is_not_dear_each_time() -> None:
    attempts = iter([{"scan": 20.0, "write": 19.0}, {"write": 21.0, "compact": 30.0}, {"write": 40.0}, {"scan": 50.0}])
    assert always_dearer(lambda: next(attempts)) == {"write": 40.0}
    assert always_dearer(dict) == {}
