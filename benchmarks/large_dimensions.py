"""A dimension of many rows: the time until the first batch has its rows, and the memory of the process that looks up.

    python -m benchmarks.large_dimensions [ROWS] [FOLDER]

The dimension has 3 columns and a bucket for each 2.5 million rows. It is written and compacted once, and kept in FOLDER
if one is named. A new process then looks up batches of 10,000 keys, at first without local files, as on a new machine.
Memory is counted without pages of local files, which the system takes back when others need them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.figures import Figure, record
from penstock.table.lookup.dimension import Dimension

COLUMNS = [("id", "BIGINT NOT NULL"), ("name", "STRING"), ("a", "INT")]
SLICE = 1_000_000
BATCHES = 20


def made(folder: Path, rows: int) -> str:
    path = folder / "dim"
    if not path.exists():
        options = {"bucket": str(max(4, rows // 2_500_000)), "write-only": "true"}
        table = penstock.create_table(str(path), COLUMNS, primary_keys=["id"], options=options)
        for first in range(0, rows, SLICE):
            ids = np.arange(first, min(first + SLICE, rows), dtype=np.int64)
            names = pa.array(np.char.add("name ", (ids % 997).astype(str)))
            with table.writer() as writer:
                writer.write(pa.table({"id": ids, "name": names, "a": (ids % 1000).astype(np.int32)}))
                writer.commit()
        penstock.open_table(str(path)).compact()
    return str(path)


def resident_mb(kind: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{kind}:"))) / 1024


def look_up(path: str, local: str, rows: int) -> None:
    """Print the seconds and CPU seconds of the first batch, those of later batches, and the memory."""
    pa.set_cpu_count(1)
    chance = np.random.default_rng(7)
    before = resident_mb("RssAnon")
    most = before
    began, worked = time.monotonic(), time.process_time()
    dimension = Dimension.open(penstock.open_table(path).store, by=["id"], columns=["name", "a"], folder=Path(local))
    assert not len(dimension.rows([pa.array(chance.integers(0, rows, 10_000))]).missing)
    first, first_cpu = time.monotonic() - began, time.process_time() - worked
    most = max(most, resident_mb("RssAnon"))
    worked = time.process_time()
    for _ in range(BATCHES):
        assert not len(dimension.rows([pa.array(chance.integers(0, rows, 10_000))]).missing)
        most = max(most, resident_mb("RssAnon"))
    later = (time.process_time() - worked) / BATCHES
    print(first, first_cpu, later, before, most, resident_mb("VmHWM"))


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        path = made(folder, rows)
        words = [sys.executable, "-m", "benchmarks.large_dimensions", "look-up", path, f"{name}/local", str(rows)]
        millions = f"{rows / 1e6:g} M rows"
        for case in ("new machine", "local files there"):
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            first, first_cpu, later, before, most, _ = map(float, done.stdout.split())
            print(f"{millions}, {case}: first batch {first:.2f} s, {first_cpu:.2f} CPU-s")
            print(f"  later batches {later * 1000:.1f} CPU-ms")
            print(f"  memory {before:.0f} MB before, {most:.0f} MB at most")
            record(Figure(f"{millions}, {case}: first batch of 10,000", first_cpu, "CPU-s", goal=5.0, less=True))
            record(Figure(f"{millions}, {case}: later batches of 10,000", later * 1000, "CPU-ms", less=True))
            record(Figure(f"{millions}, {case}: memory of the process", most, "MB", goal=300.0, less=True))


if __name__ == "__main__":
    if sys.argv[1:2] == ["look-up"]:
        look_up(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
