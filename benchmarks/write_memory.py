"""The memory of a write: `python -m benchmarks.write_memory [partitions] [rows of one bucket]`.

Each case runs in a process of its own, with the default `write-buffer-size` of 256 MB. A row has 5 columns, 45 bytes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.figures import Figure, record
from penstock.table.handle import Table

BATCH = 100_000
COLUMNS = {"id": pa.int64(), "p": pa.int64(), "v": pa.string(), "d": pa.float64(), "e": pa.int64()}


def batches(rows: int, *, partitioned: bool) -> Iterator[pa.Table]:
    random = np.random.default_rng(1)
    for begin in range(0, rows, BATCH):
        count = min(BATCH, rows - begin)
        ids = np.arange(begin, begin + count) if partitioned else random.integers(0, rows, count)
        values = [ids, ids if partitioned else np.zeros(count, np.int64), pa.array(ids).cast(pa.string())]
        values += [random.random(count), random.integers(0, 1000, count)]
        yield pa.table(dict(zip(COLUMNS, values, strict=True)))


def table(folder: str) -> Table:
    catalog = penstock.Catalog(folder)
    catalog.create_database("b")
    return catalog.create_table(
        "b.t",
        schema=pa.schema(list(COLUMNS.items())),
        primary_keys=["id", "p"],
        partition_keys=["p"],
        options={"bucket": "1"},
    )


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write(rows: int, *, partitioned: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        target, before, start = table(folder), peak(), time.process_time()
        with target.writer() as writer:
            for batch in batches(rows, partitioned=partitioned):
                writer.write(batch)
            writer.commit()
        what = f"{rows:,} partitions of a row" if partitioned else f"{rows:,} rows into one bucket"
        spent = time.process_time() - start
        files = target.system("files").num_rows
        print(
            f"{what:32} peak {peak():5.0f} MB of the process ({before:.0f} before), {spent:5.1f} CPU-s, {files:,} files"
        )
        record(Figure(what, peak(), f"MB, {spent:.1f} CPU-s, {files:,} files", goal=1024.0, less=True))


def main() -> None:
    match sys.argv[1:]:
        case ["one", rows, kind]:
            write(int(rows), partitioned=kind == "partitions")
        case given:
            sizes = [*given, *("5000", "20000000")[len(given) :]]
            for rows, kind in zip(sizes, ("partitions", "bucket"), strict=True):
                subprocess.run([sys.executable, "-m", "benchmarks.write_memory", "one", rows, kind], check=True)


if __name__ == "__main__":
    main()
