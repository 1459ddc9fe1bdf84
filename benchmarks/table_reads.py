"""Reads of tables whose rows are merged otherwise: partial updates, and deletion vectors.

    PEER=/path/to/python python -m benchmarks.table_reads [rows]

The rows are those of `benchmarks.table_io`: one bucket of five commits, 70 % of the rows in the first. A partial update
has nulls in half of its columns, so that a read merges rows. A table with deletion vectors is compacted as it is
written, so that a read only leaves out the marked rows. Each read takes ten columns, beside a read of the same files by
Parquet alone and, with `PEER`, beside pypaimon-rust (`benchmarks/peer_rust_tables.py`), in turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.figures import Figure, record
from benchmarks.table_io import UNIT, drained, orders, own_scan, parquet_compacted, record_rust, rust, timed
from penstock.table.handle import Table

TURNS = 3
COLUMNS = 10
TABLES = {
    "deduplicate": {"write-only": "true"},
    "partial-update": {"write-only": "true", "merge-engine": "partial-update"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
}


def made(catalog: penstock.Catalog, name: str, rows: int) -> Table:
    """Return a table of five commits over each other."""
    draw = np.random.default_rng(5)
    sizes = [rows * 70 // 100] + [rows * 75 // 1000] * 4
    sample = orders(np.arange(1), 0)
    options = {"bucket": "1", **TABLES[name]}
    path = f"bench.{name.replace(' ', '_').replace('-', '_')}"
    table = catalog.create_table(path, sample.schema, primary_keys=["id"], options=options)
    for seed, size in enumerate(sizes):
        written = orders(draw.choice(rows, size, replace=False), seed)
        with table.writer() as writer:
            writer.write(with_nulls(written, seed) if name == "partial-update" else written)
            writer.commit()
    return table


def with_nulls(rows: pa.Table, seed: int) -> pa.Table:
    """Return the rows with nulls in every other column, which an update leaves as they are."""
    for place in range(1 + seed % 2, rows.num_columns, 2):
        column = rows.schema.field(place)
        rows = rows.set_column(place, column, pa.nulls(len(rows), column.type))
    return rows


def measured(folder: str, name: str, table: Table) -> None:
    """Record a read beside Parquet alone and beside pypaimon-rust, which may refuse the table."""
    columns = table.schema.names[:COLUMNS]
    read = sum(split.rows for split in table.scan().plan().splits)
    cost, kept = timed(lambda: drained(table.scan(columns=columns).to_batches()))
    plain, _ = timed(lambda: parquet_compacted(table, columns))
    what = f"{name}: read of {read:,} rows, {COLUMNS} columns, {kept:,} kept"
    print(f"| {what} | {read / cost:,.0f} | plain Parquet {read / plain:,.0f} | {plain / cost:.0%} |")
    record(Figure(what, read / cost, UNIT, read / plain, "plain Parquet"))
    if "PEER" not in os.environ:
        return
    chosen, full_name = ",".join(columns), f"bench.{table.path.rpartition('/')[2]}"
    try:
        turns = [(own_scan(table.path, chosen), rust("scan", folder, full_name, chosen)) for _ in range(TURNS)]
    except subprocess.CalledProcessError as failed:
        print(f"| {name} | | pypaimon-rust: {failed.stderr.strip().splitlines()[-1]} | |")
        return
    if {turn[1]["rows"] for turn in turns} != {kept}:
        raise ValueError(f"{name}: pypaimon-rust reads {turns[0][1]['rows']:,} rows, and not {kept:,}")
    speeds = min(turn[0]["cpu"] for turn in turns), min(turn[1]["cpu"] for turn in turns)
    record_rust(f"{name}: the same, beside pypaimon-rust", read, speeds, 2.0)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        catalog = penstock.Catalog(folder)
        catalog.create_database("bench")
        print("| work | Penstock, rows per CPU-s | beside it | ratio |")
        print("|---|---|---|---|")
        for name in TABLES:
            measured(folder, name, made(catalog, name, rows))


if __name__ == "__main__":
    main()
