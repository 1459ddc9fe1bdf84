"""Lookups of keys in a dimension: CPU time of batches of several sizes, for keys that exist and keys that do not.

    python -m benchmarks.lookups [ROWS]

The dimension has 7 columns and 4 buckets and is fully compacted. Rounds of hits and misses alternate, so that other
load on the machine meets both.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.figures import Figure, record
from penstock.table.handle import Table
from penstock.table.lookup.dimension import Dimension

ROUNDS = 20
COLUMNS = [("id", "BIGINT NOT NULL"), *((f"c{number}", "STRING") for number in range(4)), ("a", "INT"), ("b", "DOUBLE")]


def dimension_table(folder: Path, rows: int) -> Table:
    catalog = penstock.Catalog(str(folder / "warehouse"))
    catalog.create_database("d")
    table = catalog.create_table("d.dim", COLUMNS, primary_keys=["id"], options={"bucket": "4"})
    ids = np.arange(rows, dtype=np.int64) * 2  # odd keys are misses
    texts = {f"c{number}": pa.array(np.char.add("text ", (ids % (97 + number)).astype(str))) for number in range(4)}
    columns = {"id": ids, **texts, "a": (ids % 1000).astype(np.int32), "b": ids / 7}
    with table.writer() as writer:
        writer.write(pa.table(columns))
        writer.commit()
    table.compact()
    return table


def main() -> None:
    pa.set_cpu_count(1)
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = dimension_table(folder, rows)
        chance = np.random.default_rng(7)
        began = time.process_time()
        dimension = Dimension.open(table.store, by=["id"], columns=["c0", "a"], folder=folder / "local")
        dimension.rows([pa.array(chance.integers(0, rows, 10_000) * 2)])
        opened = time.process_time() - began
        print(f"first batch of 10,000, local files written: {opened:.2f} CPU-s")
        record(Figure("first batch of 10,000, local files written", opened, "CPU-s", less=True))
        for size in (100, 1_000, 10_000, 100_000):
            spent = {"hits": 0.0, "misses": 0.0}
            for _ in range(ROUNDS):
                for kind, odd in (("hits", 0), ("misses", 1)):
                    keys = pa.array(chance.integers(0, rows, size) * 2 + odd)
                    began = time.process_time()
                    found = dimension.rows([keys])
                    spent[kind] += time.process_time() - began
                    assert len(found.missing) == (size if odd else 0)
            speeds = ", ".join(f"{kind} {size * ROUNDS / seconds:,.0f} keys/CPU-s" for kind, seconds in spent.items())
            for kind, seconds in spent.items():
                goal = 1.0 if size == 10_000 else None
                speed = size * ROUNDS / seconds / 1e6
                record(Figure(f"batches of {size:,} keys: {kind}", speed, "M keys/CPU-s", goal=goal))
            print(f"batches of {size:,}: {speeds}")
        with table.writer() as writer:
            ids = np.arange(1_000, dtype=np.int64) * 2
            writer.write(pa.table({"id": ids, "a": np.zeros(1_000, np.int32)}))
            writer.commit()
        began = time.process_time()
        dimension.refresh()
        dimension.rows([pa.array(ids)])
        spent_millis = (time.process_time() - began) * 1000
        what = "refresh after a snapshot of 1,000 rows, and their first lookup"
        print(f"{what}: {spent_millis:.0f} CPU-ms")
        record(Figure(what, spent_millis, "CPU-ms", goal=50.0, less=True))


if __name__ == "__main__":
    main()
