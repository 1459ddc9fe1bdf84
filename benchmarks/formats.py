"""The costs of the file formats: `python -m benchmarks.formats [rows]`.

A keyed table of 15 columns: a commit of all rows, a smaller one over them, a scan that merges both, a full compaction,
and a scan after it. Million rows per CPU second.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.compaction import COLUMNS, TYPES
from benchmarks.figures import Figure, record


def rows(first: int, count: int, random: np.random.Generator) -> pa.Table:
    columns = [pa.array(np.arange(first, first + count))]
    columns += [_column(TYPES[i % 5], random.integers(0, 1 << 40, count)) for i in range(len(COLUMNS) - 1)]
    return pa.table(columns, names=list(COLUMNS))


def _column(type_: str, numbers: np.ndarray) -> pa.Array:
    match type_:
        case "STRING":
            return pa.array((numbers % 100_000).astype(str))
        case "DOUBLE":
            return pa.array(numbers / 7)
        case "TIMESTAMP(3)":
            return pa.array(numbers, pa.timestamp("ms"))
        case "DECIMAL(10, 2)":
            return pa.array((numbers % 10**7).astype(np.int32)).cast(pa.decimal128(12, 2)).cast(pa.decimal128(10, 2))
    return pa.array(numbers)


def measured(count: int, what: str, work: Callable[[], object]) -> str:
    start = time.process_time()
    work()
    speed = count / (time.process_time() - start) / 1e6
    record(Figure(what, speed, "M rows/CPU-s"))
    return f"{what.partition(': ')[2]} {speed:.3f}"


def main() -> None:
    pa.set_cpu_count(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    random = np.random.default_rng(1)
    large, small = rows(0, count, random), rows(count // 2, count // 4, random)
    with tempfile.TemporaryDirectory() as folder:
        catalog = penstock.Catalog(folder)
        catalog.create_database("d")
        for name in ("parquet", "orc", "avro"):
            options = {"bucket": "1", "file.format": name, "write-only": "true"}
            table = catalog.create_table(f"d.{name}", list(COLUMNS.items()), ["k"], options=options)
            write(table, large.slice(0, 10))
            both = count + count // 4
            print(
                f"{name}:",
                measured(count, f"{name}: write", lambda: write(table, large)),  # noqa: B023 -- called at once
                write(table, small) or "",
                measured(both, f"{name}: merging scan", lambda: table.scan().to_arrow()),  # noqa: B023
                measured(both, f"{name}: compaction", table.compact),
                measured(count, f"{name}: scan", lambda: table.scan().to_arrow()),  # noqa: B023
            )


def write(table: penstock.Table, batch: pa.Table) -> None:
    with table.writer() as writer:
        writer.write(batch)
        writer.commit()


if __name__ == "__main__":
    main()
