"""The costs of tables beside pypaimon on the same machine in the same run: `python -m benchmarks.table_io [rows]`.

Prints a Markdown table of CPU seconds and their ratios: write to 4 buckets, merge-on-read of 5 overlapping runs, full
compaction, planning 10,000 files. Figures are of one thread; the machine's other load moves them, ratios hold better.

`PEER=/path/to/python` names an environment with pypaimon-rust 0.4 (`pip install pypaimon-rust pyarrow`), which then
does the same writing and reading, in turns. `python -m benchmarks.table_io scan TABLE COLUMNS` is our own part of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from benchmarks.figures import Figure, record
from penstock.table.handle import Table
from tests.interop.pypaimon.client import prepare

T = TypeVar("T")
UNIT = "rows/CPU-s"
PEER = Path(__file__).with_name("peer_pypaimon.py")
RUST = Path(__file__).with_name("peer_rust_tables.py")


def orders(ids: np.ndarray, seed: int) -> pa.Table:
    """12 columns of a web shop's orders."""
    draw, rows = np.random.default_rng(seed), len(ids)
    cents = pa.array(draw.integers(0, 10**8, rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 2))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "user_id": pa.array(draw.integers(0, 1 << 40, rows)),
            "status": pa.array(draw.integers(0, 5, rows).astype(np.int32)),
            "paid": pa.array(draw.integers(0, 2, rows).astype(bool)),
            "amount": cents.cast(pa.decimal128(16, 2)),
            "price": pa.array(draw.random(rows)),
            "customer": pa.array(np.char.add("customer-", draw.integers(0, 100_000, rows).astype(str))),
            "city": pa.array(draw.choice(["Berlin", "北京", "Paris", "Rome"], rows)),
            "note": pa.array(np.char.add("note ", draw.integers(0, 1 << 30, rows).astype(str))),
            "created": pa.array(draw.integers(1_600_000_000, 1_700_000_000, rows) * 1_000_000).cast(pa.timestamp("us")),
            "day": pa.array(draw.integers(18000, 20000, rows).astype(np.int32)).cast(pa.date32()),
            "score": pa.array(draw.random(rows).astype(np.float32)),
        }
    )


def timed(work: Callable[[], T], times: int = 3) -> tuple[float, T]:
    """The least CPU seconds of several runs: what the work itself takes."""
    best, result = float("inf"), None
    for _ in range(times):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result  # type: ignore[return-value]


def drained(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def peer(*arguments: str) -> dict[str, float]:
    done = subprocess.run([prepare(), "-W", "ignore", PEER, *arguments], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def rust(*arguments: str) -> dict[str, float]:
    """Return what pypaimon-rust needs for some work; nothing without its environment."""
    python = os.environ.get("PEER")
    if python is None:
        return {}
    done = subprocess.run([python, RUST, *arguments], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def scanned(path: str, columns: str) -> dict[str, float]:
    """Read a table batch by batch, and return the CPU seconds and the resident memory in MB that this adds."""
    table = penstock.open_table(path)
    before = peak_memory()
    cost, _ = timed(lambda: drained(table.scan(columns=columns.split(",")).to_batches()))
    return {"cpu": cost, "megabytes": peak_memory() - before}


def peak_memory() -> float:
    """Return the most resident memory of this process so far in MB; `getrusage` would include that of its parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def own_scan(path: str, columns: str) -> dict[str, float]:
    """Return the costs of a scan in a new process, where no other work has raised the peak of the memory."""
    command = [sys.executable, "-m", "benchmarks.table_io", "scan", path, columns]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def beside_rust(catalog: penstock.Catalog, folder: str, rows: pa.Table, runs: Table, read: int) -> None:
    """Record writing and merge-on-read beside pypaimon-rust: the least costs of three turns each."""
    if "PEER" not in os.environ:
        return
    ours, theirs = [], []
    options = {"bucket": "4", "write-only": "true"}
    for turn in range(3):
        ours.append(timed(lambda turn=turn: written(catalog, f"bench.ours{turn}", rows), times=1)[0])
        catalog.create_table(f"bench.rust{turn}", rows.schema, primary_keys=["id"], options=options)
        theirs.append(rust("write", folder, f"bench.rust{turn}", f"{folder}/data.parquet")["cpu"])
    record_rust(f"write {len(rows):,} rows, beside pypaimon-rust", len(rows), (min(ours), min(theirs)), 3.0)
    columns = ",".join(runs.schema.names[:10])
    turns = [(own_scan(runs.path, columns), rust("scan", folder, "bench.runs", columns)) for _ in range(3)]
    speeds = min(turn[0]["cpu"] for turn in turns), min(turn[1]["cpu"] for turn in turns)
    record_rust("merge-on-read, 10 columns, beside pypaimon-rust", read, speeds, 2.0)
    memory = [min(turn[side]["megabytes"] for turn in turns) for side in (0, 1)]
    print(
        f"| memory of that read, MB | {memory[0]:.0f} | pypaimon-rust {memory[1]:.0f} | {memory[1] / memory[0]:.2f} |"
    )
    work = "memory that the merge-on-read adds, batch by batch"
    record(Figure(work, memory[0], "MB", memory[1], "pypaimon-rust", 1.0, goal_of_ratio=True, less=True))


def record_rust(work: str, rows: int, seconds: tuple[float, float], goal: float) -> None:
    ours, theirs = (rows / spent for spent in seconds)
    print(f"| {work} | {ours:,.0f} | pypaimon-rust {theirs:,.0f} | {ours / theirs:.2f} |")
    record(Figure(work, ours, UNIT, theirs, "pypaimon-rust", goal, goal_of_ratio=True))


def written(catalog: penstock.Catalog, name: str, rows: pa.Table) -> Table:
    table = catalog.create_table(name, rows.schema, primary_keys=["id"], options={"bucket": "4", "write-only": "true"})
    with table.writer() as writer:
        for batch in rows.to_batches(max_chunksize=100_000):
            writer.write(batch)
        writer.commit()
    return table


def overlapping(catalog: penstock.Catalog, rows: int) -> Table:
    """One bucket of five runs: 70 % of the rows in the first, the rest over it."""
    draw = np.random.default_rng(5)
    sizes = [rows * 70 // 100] + [rows * 75 // 1000] * 4
    sample = orders(np.arange(1), 0)
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table("bench.runs", sample.schema, primary_keys=["id"], options=options)
    for seed, size in enumerate(sizes):
        with table.writer() as writer:
            writer.write(orders(draw.choice(rows, size, replace=False), seed))
            writer.commit()
    return table


def parquet_alone(table: Table, columns: list[str]) -> int:
    total = 0
    for file in Path(table.path).glob("bucket-*/*.parquet"):
        total += drained(pq.ParquetFile(file).iter_batches(65_536, columns=columns, use_threads=False))
    return total


def many_files(catalog: penstock.Catalog) -> Table:
    """10,000 files in about 100 manifests: 100 commits of 100 partitions, metadata of real files reused by name."""
    from benchmarks.many_files import made

    return made(catalog)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    pa.set_cpu_count(1)
    folder = tempfile.mkdtemp(prefix="penstock-bench-")
    catalog = penstock.Catalog(folder)
    catalog.create_database("bench")
    data = orders(np.random.default_rng(1).permutation(rows), 1)
    pq.write_table(data, f"{folder}/data.parquet")
    print("| work | Penstock, rows per CPU-s | beside it | ratio |")
    print("|---|---|---|---|")
    names = iter(range(10))
    cost, _ = timed(lambda: written(catalog, f"bench.write{next(names)}", data))
    plain, _ = timed(lambda: pq.write_table(data, f"{folder}/plain.parquet", compression="zstd", compression_level=1))
    theirs = peer("write", folder, f"{folder}/data.parquet")["cpu"]
    print(
        f"| write {rows:,} rows of 12 columns to 4 buckets, Parquet zstd | {rows / cost:,.0f} | pypaimon "
        f"{rows / theirs:,.0f} | {theirs / cost:.1f} times less CPU; {plain / cost:.0%} of a plain Parquet write |"
    )
    what = f"write {rows:,} rows of 12 columns to 4 buckets, Parquet zstd"
    beside(what, (rows / cost, rows / plain, rows / theirs), goal=1_500_000.0)
    table = overlapping(catalog, rows)
    columns = table.schema.names[:10]
    read = sum(split.rows for split in table.scan().plan().splits)
    cost, kept = timed(lambda: drained(table.scan(columns=columns).to_batches()))
    plain, _ = timed(lambda: parquet_alone(table, columns))
    theirs = peer("scan", table.path, ",".join(columns))["cpu"]
    print(
        f"| merge-on-read of {read:,} rows in 5 runs, 10 columns, {kept:,} kept | {read / cost:,.0f} | pypaimon "
        f"{read / theirs:,.0f} | {theirs / cost:.1f} times less CPU; {plain / cost:.0%} of a plain Parquet read |"
    )
    what = f"merge-on-read of {read:,} rows in 5 runs, 10 columns, {kept:,} kept"
    beside(what, (read / cost, read / plain, read / theirs), of_parquet=0.85)
    beside_rust(catalog, folder, data, table, read)
    start = time.process_time()
    table.compact()
    cost = time.process_time() - start
    print(f"| full compaction of the same runs | {read / cost:,.0f} | | |")
    record(Figure("full compaction of the same runs", read / cost, UNIT, goal=2_000_000.0))
    cost, _ = timed(lambda: drained(table.scan(columns=columns).to_batches()))
    plain, _ = timed(lambda: parquet_compacted(table, columns))
    print(
        f"| scan after it, 10 columns | {kept / cost:,.0f} | plain Parquet {kept / plain:,.0f} | {plain / cost:.0%} |"
    )
    record(Figure("scan after it, 10 columns", kept / cost, UNIT, kept / plain, "plain Parquet"))
    table = many_files(catalog)
    cost, plan = timed(lambda: penstock.open_table(table.path).scan().plan())
    print(
        f"| plan {plan.files:,} files in {len(table.system('manifests')):,} manifests | {cost:.2f} s | goal 0.5 s | |"
    )
    record(Figure(f"plan {plan.files:,} files", cost, "CPU-s", goal=0.5, less=True))
    shutil.rmtree(folder)


def beside(
    what: str, speeds: tuple[float, float, float], *, goal: float | None = None, of_parquet: float | None = None
) -> None:
    """Record a speed beside those of Parquet alone and of pypaimon, with the goals of it and of the first ratio."""
    ours, plain, pypaimon = speeds
    record(Figure(what, ours, UNIT, pypaimon, "pypaimon", goal))
    alone = f"{what.split()[0]}, beside Parquet alone"
    record(Figure(alone, ours, UNIT, plain, "plain Parquet", of_parquet, goal_of_ratio=True))


def parquet_compacted(table: Table, columns: list[str]) -> int:
    """Read the files of the newest snapshot; those that a compaction has replaced are in the folder as well."""
    total = 0
    for path in table.system("files")["file_path"].to_pylist():
        total += drained(pq.ParquetFile(path).iter_batches(65_536, columns=columns, use_threads=False))
    return total


if __name__ == "__main__":
    if sys.argv[1:2] == ["scan"]:
        pa.set_cpu_count(1)
        print(json.dumps(scanned(*sys.argv[2:])))
    else:
        main()
