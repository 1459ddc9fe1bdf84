"""Keys that move between partitions, per CPU second: `python -m benchmarks.moving_keys [keys of the table]`.

The index of a table is made from its files, and then brought forward batch by batch: what a batch costs must not depend
on how many keys the table has. Tables of a tenth and of all keys are measured side by side.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.compaction import peak_memory
from benchmarks.figures import Figure, record
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import Layout
from penstock.table.dynamic_buckets.cross_partition import KeyPlacer
from penstock.table.dynamic_buckets.index_folder import IndexFolder
from penstock.table.handle import Table

PARTITIONS, BATCH, BATCHES = 20, 100_000, 6


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def rows(ids: np.ndarray, random: np.random.Generator, *, text: bool) -> pa.Table:
    days = pa.array([f"2026-01-{day + 1:02}" for day in range(PARTITIONS)]).take(
        random.integers(0, PARTITIONS, len(ids))
    )
    keys = pa.array(np.char.mod("user-%012d-abcdefghijklmnop", ids)) if text else pa.array(ids)
    return pa.table({"id": keys, "dt": days, "v": random.integers(0, 1000, len(ids))})


def filled(folder: Path, keys: int, random: np.random.Generator, *, text: bool) -> Table:
    catalog = penstock.Catalog(str(folder))
    catalog.create_database("b", ignore_if_exists=True)
    schema = pa.schema([("id", pa.string() if text else pa.int64()), ("dt", pa.string()), ("v", pa.int64())])
    table = catalog.create_table(
        "b.t", schema=schema, primary_keys=["id"], partition_keys=["dt"], options={"bucket": "-1"}
    )
    with table.overwrite(partition={}) as writer:  # places keys as in an empty table
        for begin in range(0, keys, 1_000_000):
            writer.write(rows(np.arange(begin, min(begin + 1_000_000, keys)), random, text=text))
        writer.commit()
    return table


def measure(folder: Path, keys: int, *, text: bool) -> None:
    random = np.random.default_rng(1)
    table = filled(folder / str(keys), keys, random, text=text)
    layout, home = Layout.of(table.definition), folder / f"index-{keys}"
    home.mkdir()
    tempfile.tempdir = str(home)
    index = IndexFolder(table.store, layout)
    with peak_memory() as peak:
        seconds = cpu_seconds(lambda: index.at(table.latest_snapshot))
    print(
        f"  {keys:10,} keys indexed in {seconds:5.1f} CPU-s, {keys / seconds / 1e6:4.1f} M/CPU-s, peak {peak[0]:.0f} MB"
    )
    name = f"{keys:,} keys {'of 33 characters' if text else 'of BIGINT'}"
    goal = 60.0 if keys == 10_000_000 else None
    spent = []
    for number in range(BATCHES):
        ids = np.append(
            random.integers(0, keys, BATCH // 2), np.arange(keys + number * BATCH, keys + number * BATCH + BATCH // 2)
        )
        batch = rows(ids, random, text=text).to_batches()[0]
        placer = KeyPlacer.opened(table.store, layout, TableState(table.store, table.latest_snapshot))
        catching_up = cpu_seconds(lambda placer=placer: placer.index)
        placing = cpu_seconds(lambda placer=placer, batch=batch: placer.place(batch, np.zeros(BATCH, np.int8)))
        with table.writer(options={"write-only": "true"}) as writer:
            whole = cpu_seconds(lambda writer=writer, batch=batch: (writer.write(batch), writer.commit()))
        spent.append((catching_up, placing, whole))
    places = median(forward + placed for forward, placed, _ in spent) * 1e3
    whole_batch = median(total for *_, total in spent) * 1e3
    what = f"{name}: index made from the table; then a batch: index forward and places, of write and commit"
    batches = f"CPU-s, peak {peak[0]:.0f} MB; {places:.0f} of {whole_batch:.0f} CPU-ms"
    record(Figure(what, seconds, batches, goal=goal, less=True))
    text_of = "  ".join(f"{a * 1e3:.0f}+{b * 1e3:.0f} of {c * 1e3:.0f}" for a, b, c in spent)
    print(f"             batches of {BATCH:,}: index forward + places, of write and commit, ms CPU: {text_of}")


def main() -> None:
    pa.set_cpu_count(1)
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        for text in (False, True):
            print("keys of 33 characters" if text else "keys of BIGINT")
            for size in (keys // 10, keys):
                measure(folder / str(text), size, text=text)
    finally:
        tempfile.tempdir = None
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
