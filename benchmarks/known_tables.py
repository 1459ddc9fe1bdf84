"""The memory of a pipeline that knows many tables, one in twenty of which has rows in its batch.

    python -m benchmarks.known_tables [TABLES]

The tables are made of their first schemas alone, as an earlier run of the pipeline would have created them. The source
is a file of canal messages, and Spark runs on this machine: the driver is a Python process and its JVM.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import penstock
from benchmarks.batch_costs import KINDS, held
from benchmarks.figures import Figure, record
from benchmarks.processes import Cost, cost_of
from benchmarks.starts import FILE, HERE, command_of, environment_of
from tests.shop import insert

TABLES = 10_000
ONE_IN = 20
LOOK_EVERY = 0.5
GOAL = 2.0  # GiB


def name_of(number: int) -> str:
    return f"t{number:05}"


def prepared(folder: Path, tables: int) -> None:
    """Make the tables, the messages and the pipeline file."""
    catalog = penstock.Catalog(f"{folder}/warehouse")
    catalog.create_database("shop")
    columns = [("id", "BIGINT NOT NULL"), *((f"name{n}", "VARCHAR(20)") for n in range(10))]
    options = {"bucket": "1"}
    first = catalog.create_table(f"shop.{name_of(0)}", columns, primary_keys=["id"], options=options)
    for number in range(1, tables):
        shutil.copytree(first.path, Path(first.path).with_name(name_of(number)))
    row = {"id": "1", **{f"name{n}": "value" for n in range(10)}}
    (folder / "in").mkdir()
    (folder / "in/rows.json").write_text("\n".join(insert(name_of(n), row) for n in range(0, tables, ONE_IN)))
    (folder / "pipeline.yaml").write_text(FILE.format(folder=folder))


def largest_by_kind(peaks: Counter[str]) -> Callable[[int], None]:
    """Return a function that looks at a session and keeps the most that each kind of process held."""
    due = [0.0]

    def look(session: int) -> None:
        if time.monotonic() >= due[0]:
            due[0] = time.monotonic() + LOOK_EVERY
            for kind, size in held(session).items():
                peaks[kind] = max(peaks[kind], size)

    return look


def measured(folder: Path) -> tuple[Cost, Counter[str]]:
    peaks: Counter[str] = Counter()
    cost = cost_of(command_of(folder), folder / "log", look=largest_by_kind(peaks), environment=environment_of(HERE))
    return cost, peaks


def main() -> None:
    tables = int(sys.argv[1]) if len(sys.argv) > 1 else TABLES
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        folder = Path(scratch)
        prepared(folder, tables)
        cost, peaks = measured(folder)
        written = sum(1 for _ in (folder / "warehouse/shop.db").glob("*/snapshot/snapshot-1"))
    work = f"{tables:,} known tables, {written:,} with a row"
    print(f"{work}: {cost}; most by kind " + ", ".join(f"{kind} {peaks[kind] / 2**20:,.0f} MiB" for kind in KINDS))
    driver = (peaks["driver"] + peaks["JVM"]) / 2**30
    record(Figure(f"{work}: memory of the driver and its JVM", driver, "GiB", goal=GOAL, less=True))
    record(Figure(f"{work}: of these the driver's own process", peaks["driver"] / 2**30, "GiB", less=True))
    record(Figure(f"{work}: peak memory of all processes", cost.peak / 2**30, "GiB", less=True))
    record(Figure(f"{work}: CPU of the run", cost.cpu, "CPU-s", less=True))


if __name__ == "__main__":
    main()
