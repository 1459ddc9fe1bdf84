"""The cost of an operation grows with the number of columns, not with its square."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.merge.merge_rows import merge_rows
from penstock.table.sql.interpreter import sql
from penstock.table.sql.queries.session import Session
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


def compaction_steps(folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of merges in a compaction of a thousand rows with so many columns."""
    columns = [("id", "BIGINT NOT NULL"), *((f"c{number}", "BIGINT") for number in range(count - 1))]
    table = new_table(folder / str(count), columns, options={"bucket": "1", "write-only": "true"})
    same = pa.array([7] * 1000, pa.int64())
    rows = pa.Table.from_arrays([pa.array(range(1000), pa.int64()), *[same] * (count - 1)], schema=table.schema)
    for _ in range(2):
        with table.writer() as writer:
            writer.write(rows)
            writer.commit()
    steps = 0

    def merged(*given: Any, **named: Any) -> pa.Table:
        nonlocal steps
        steps += 1
        return merge_rows(*given, **named)

    with monkeypatch.context() as counted:
        counted.setattr("penstock.table.compaction.compact.merge_rows", merged)
        table.refresh().compact(full=True)
    return steps


@pytest.mark.slow
def test_a_compaction_has_as_many_steps_for_many_columns_as_for_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step has a cost for each column, so more steps for more columns cost the square."""
    few = compaction_steps(tmp_path, 400, monkeypatch)
    assert compaction_steps(tmp_path, 1600, monkeypatch) == few


@pytest.mark.slow
@pytest.mark.parametrize("keys", [["id"], []])
def test_a_merge_of_many_columns_is_planned_without_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    """DuckDB derives them again for each column, in a time that grows with the square: 7 s for 2,000 columns."""
    catalog = Catalog(tmp_path)
    catalog.create_database("d")
    columns = [("id", "BIGINT NOT NULL"), *((f"c{number}", "BIGINT") for number in range(250))]
    for name in ("d.t", "d.s"):
        table = catalog.create_table(name, columns, primary_keys=keys)
        with table.writer() as writer:
            writer.write(pa.Table.from_arrays([pa.array([1], pa.int64())] * 251, schema=table.schema))
            writer.commit()
    off: list[tuple[str, str]] = []
    run = Session.run

    def noted(session: Session, text: str) -> None:
        setting = session.query("SELECT current_setting('disabled_optimizers')").column(0)[0].as_py()
        off.append(("merge" if "_in_target" in text else "other", setting))
        run(session, text)

    monkeypatch.setattr(Session, "run", noted)
    changed = "WHEN MATCHED AND s.c1 > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET c1 = s.c1 + 1"
    sql(f"MERGE INTO d.t USING d.s ON t.id = s.id {changed}", warehouse=tmp_path)
    assert set(off) == {("merge", "statistics_propagation"), ("other", "")}
    assert catalog.table("d.t").scan(columns=["c1", "c2"]).to_arrow().to_pylist() == [{"c1": 2, "c2": 1}]
