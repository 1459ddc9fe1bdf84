"""A full compaction by ours and by Java Paimon on the same files: `python -m benchmarks.beside_java [rows]`.

A bucket of `rows` on the top level and five runs of an eighth on level 0, 15 columns. The JVM serves, and is warm: it
has done the same compaction twice before. Its CPU seconds are those of its whole process, with its collector's threads.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.compaction import COLUMNS, TYPES, Bucket
from benchmarks.figures import Figure, record
from penstock.table.handle import Table
from tests.interop.oracle.client import Oracle

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        **{f"fields.c{i}.aggregate-function": "sum" for i in range(14) if TYPES[i % 5] in {"BIGINT", "DOUBLE"}},
    },
}


def made(folder: Path, rows: int, options: dict[str, str]) -> Path:
    catalog = penstock.Catalog(str(folder))
    catalog.create_database("b")
    table = catalog.create_table(
        "b.t",
        schema=list(COLUMNS.items()),
        primary_keys=["k"],
        options={"bucket": "1", "write-only": "true", **options},
    )
    source = Bucket({}, folder, 64)
    source.rows = rows
    for number in range(6):
        batch = source._table(rows if number == 0 else rows // 8, 0, deletes=False)
        with table.writer() as writer:
            writer.write(batch.select(list(COLUMNS)))
            writer.commit()
        if number == 0:
            table.compact()
    return Path(table.path)


def tree_seconds(root: int) -> float:
    """CPU seconds of a process and its children."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parts = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.name)] = int(parts[1])
        spent[int(path.name)] = (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    wanted = {root}
    for _ in range(4):
        wanted |= {process for process, parent in parents.items() if parent in wanted}
    return sum(spent.get(process, 0.0) for process in wanted)


def main() -> None:
    pa.set_cpu_count(1)
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_100_000
    total = rows + 5 * (rows // 8)
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        with Oracle.started(folder / "oracle.log") as oracle:
            for name, options in ENGINES.items():
                path = made(folder / name, rows, options)
                spent = []
                for turn in range(3):
                    copy = folder / f"{name}-java-{turn}"
                    shutil.copytree(path, copy)
                    before = tree_seconds(oracle.process_id)
                    oracle.compact(copy)
                    spent.append(tree_seconds(oracle.process_id) - before)
                start = time.process_time()
                table = penstock.open_table(str(path))
                table.compact()
                ours = time.process_time() - start
                same = _count(table) == _count(penstock.open_table(str(copy)))
                print(
                    f"{name:16} ours {total / ours / 1e6:5.2f}, Java {total / spent[-1] / 1e6:5.2f} M input rows/CPU-s:"
                    f" {spent[-1] / ours:.1f} times less CPU; rows {'equal' if same else 'DIFFER'} in number and sums"
                )
                if not same:
                    raise SystemExit(f"{name}: the compactions left different rows, so they cannot be compared")
                unit, speeds = "M input rows/CPU-s", (total / ours / 1e6, total / spent[-1] / 1e6)
                record(Figure(f"full compaction, {name}", speeds[0], unit, speeds[1], "Java Paimon 1.3.1"))
    finally:
        shutil.rmtree(folder)


def _count(table: Table) -> tuple[int, int]:
    keys = table.scan(columns=["k", "c0"]).to_arrow()
    return keys.num_rows, int(np.nansum(keys.column("c0").to_numpy().astype(float)))


if __name__ == "__main__":
    main()
