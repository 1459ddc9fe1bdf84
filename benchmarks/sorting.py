"""An append table's rows written again in order: `python -m benchmarks.sorting [rows]`.

Ten commits of random rows; then `order`, `zorder` and `hilbert` by two columns, with a write buffer too small for all
of them. Beside each, what share of the files a scan of one per cent of the range of either column opens afterwards.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from benchmarks.figures import Figure, record
from penstock.table.handle import Table

COMMITS, BUFFER = 10, "32 mb"
RANGE = 1_000_000


def filled(folder: Path, rows: int) -> Table:
    catalog = penstock.Catalog(str(folder))
    catalog.create_database("b")
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("note", pa.string()), ("v", pa.float64())])
    options = {"bucket": "-1", "target-file-size": "1 mb", "write-buffer-size": BUFFER}
    table = catalog.create_table("b.t", schema=schema, options=options)
    random = np.random.default_rng(1)
    for _ in range(COMMITS):
        with table.writer() as writer:
            count = rows // COMMITS
            both = [random.integers(0, RANGE, count) for _ in range(2)]
            note = pa.array(random.integers(0, 10**6, count).astype(str))
            writer.write(pa.table([*map(pa.array, both), note, pa.array(random.random(count))], schema.names))
            writer.commit()
    return table


def opened(table: Table, column: str) -> float:
    """The share of files that a scan of one per cent of the column's range has to open."""
    files = [len(split.files) for split in table.scan().plan().splits]
    where = (pc.field(column) >= RANGE // 2) & (pc.field(column) < RANGE // 2 + RANGE // 100)
    return sum(len(split.files) for split in table.scan(where=where).plan().splits) / sum(files)


def main() -> None:
    pa.set_cpu_count(1)
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        for strategy in ("order", "zorder", "hilbert"):
            table = filled(folder / strategy, rows)
            start = time.process_time()
            table.sort(["a", "b"], strategy)
            seconds = time.process_time() - start
            shares = ", ".join(f"{column} {opened(table, column):.0%}" for column in ("a", "b"))
            files = table.refresh().system("files").num_rows
            print(f"{strategy:8} {rows / seconds / 1e6:5.2f} M rows/CPU-s, {files} files; opened for 1%: {shares}")
            what = f"{strategy} (a scan of 1 % opens: {shares})"
            record(Figure(what, rows / seconds / 1e6, "M rows/CPU-s"))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
