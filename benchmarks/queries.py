"""Queries and a merge on a table of 1,000,000 rows with twelve columns, in CPU seconds, beside pypaimon-rust.

python -m benchmarks.queries [ROWS]

`PEER=/path/to/python` names an environment with pypaimon-rust 0.4 (`pip install pypaimon-rust pyarrow`). Without it the
peer is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from benchmarks.figures import Figure, record
from penstock.table.sql.dml.merge_into import MergeSource, merge_into
from penstock.table.sql.dml.merge_query import Clause
from penstock.table.sql.queries.session import Session

QUERIES = 40
NAMES = {
    "point": "point query, `table.scan(where=...)`, all columns,",
    "point, SQL": "point query, `SELECT * ... WHERE id = ...`",
    "sum, SQL": "`SELECT sum(c1)`",
    "scan": "full scan, all columns,",
}
PEER = Path(__file__).with_name("peer_rust.py")


def filled(catalog: penstock.Catalog, name: str, rows: int) -> penstock.Table:
    columns = [("id", "BIGINT NOT NULL"), *((f"c{n}", "BIGINT" if n % 2 else "STRING") for n in range(11))]
    table = catalog.create_table(f"shop.{name}", columns, ["id"], options={"bucket": "4"})
    chance = np.random.default_rng(1)
    with table.writer() as writer:
        for ids in np.array_split(np.arange(rows), max(1, rows // 100_000)):
            values = {n: chance.integers(0, 5_000 if n % 2 == 0 else 1 << 30, len(ids)) for n in range(11)}
            texts = {
                f"c{n}": [f"v{value}-{n}" for value in found] if n % 2 == 0 else found for n, found in values.items()
            }
            writer.write(pa.table({"id": ids, **texts}))
        writer.commit()
    table.compact()
    return table


def cpu(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def peer(path: str, rows: int) -> dict[str, float]:
    python = os.environ.get("PEER")
    if python is None:
        return {}
    done = subprocess.run([python, PEER, path, str(rows), str(QUERIES)], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def own(catalog: penstock.Catalog, table: penstock.Table, rows: int) -> dict[str, float]:
    keys = [place * (rows // QUERIES) + 7 for place in range(QUERIES)]
    found = {}
    for key in keys[:3]:
        table.scan(where=pc.field("id") == key).to_arrow()
    found["point"] = median(cpu(lambda key=key: table.scan(where=pc.field("id") == key).to_arrow()) for key in keys)
    with Session(catalog, "shop") as session:
        ask = "SELECT * FROM t WHERE id = {}"
        for key in keys[:3]:
            session.query(ask.format(key))
        found["point, SQL"] = median(cpu(lambda key=key: session.query(ask.format(key))) for key in keys)
        found["sum, SQL"] = median(cpu(lambda: session.query("SELECT sum(c1) FROM t")) for _ in range(5))
    found["scan"] = median(cpu(lambda: table.scan().to_arrow()) for _ in range(5))
    return found


def merged(catalog: penstock.Catalog, rows: int) -> tuple[float, float]:
    table = filled(catalog, "target", rows)
    ids = np.arange(rows - rows // 20, rows + rows // 20)
    columns = {f"c{n}": [f"new {n}"] * len(ids) if n % 2 == 0 else ids for n in range(11)}
    clauses = [Clause("matched-upsert", "*"), Clause("not-matched-insert", "*")]
    start, wall = time.process_time(), time.perf_counter()
    source = MergeSource("changes", rows={"changes": pa.table({"id": ids, **columns})})
    merge_into(catalog, "shop.target", source, "target.id = changes.id", clauses)
    found = time.process_time() - start, time.perf_counter() - wall
    assert table.refresh().count() == rows + rows // 20
    return found


# A process that has done nothing else; the statements are in the order in which they are given.
_PROCESS = """
import sys
import penstock

for statement in sys.argv[2:]:
    penstock.sql(statement, warehouse=sys.argv[1])
# Not ru_maxrss, which begins with the memory of the process that started this one.
print(next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak(folder: str, *statements: str) -> float:
    """Return the peak memory, in MB, of a whole process that runs statements."""
    # A file: without one DuckDB takes Python for a shell, and prints how far a query is.
    program = Path(folder, "process.py")
    program.write_text(_PROCESS)
    done = subprocess.run([sys.executable, program, folder, *statements], capture_output=True, check=True)
    return float(done.stdout)


def peaks(catalog: penstock.Catalog, folder: str, rows: int) -> dict[str, tuple[float, float | None]]:
    """Return the peaks of processes and their goals; MERGE writes changes to the table `target`."""
    filled(catalog, "changes", rows // 10)
    merge = """MERGE INTO shop.target t USING shop.changes s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    return {
        "`SELECT 1`, no table": (peak(folder, "SELECT 1"), None),
        f"point query on {rows:,} rows": (peak(folder, f"SELECT * FROM shop.t WHERE id = {rows // 2}"), None),
        f"MERGE of {rows // 10:,} rows into {rows:,}": (peak(folder, merge), 1024.0),
    }


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = penstock.Catalog(folder, {"local.sync": "false"})
        catalog.create_database("shop")
        table = filled(catalog, "t", rows)
        # In turns, since the machine may be busy with other work.
        turns = [(own(catalog, table, rows), peer(table.path, rows)) for _ in range(3)]
        for name in turns[0][0]:
            ours = median(turn[0][name] for turn in turns) * 1000
            theirs = [turn[1][name] * 1000 for turn in turns if name in turn[1]]
            beside = median(theirs) if theirs else None
            print(f"{name}: {ours:.1f} ms" + (f", pypaimon-rust {beside:.1f} ms" if theirs else ""))
            what, by_ratio = f"{NAMES[name]} on {rows:,} rows", not name.startswith("point")
            goal = 1.0 if by_ratio else 10.0
            record(Figure(what, ours, "CPU-ms", beside, "pypaimon-rust", goal, goal_of_ratio=by_ratio, less=True))
        found = merged(catalog, rows)
        print(f"MERGE of {rows // 10} rows into {rows}: {found[0]:.2f} CPU-s, {found[1]:.2f} s")
        what = f"MERGE of {rows // 10:,} rows into {rows:,}"
        record(Figure(f"{what}: CPU", found[0], "CPU-s", less=True))
        record(Figure(f"{what}: wall", found[1], "s", goal=2.0, less=True))
        for name, (megabytes, goal) in peaks(catalog, folder, rows).items():
            print(f"peak memory of a process, {name}: {megabytes:.0f} MB")
            record(Figure(f"peak memory of a process, {name}", megabytes, "MB", goal=goal, less=True))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
