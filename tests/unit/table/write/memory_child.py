"""A process of its own that works on a table and tells how much its memory grew: `python -m ... WORK FOLDER ROWS`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore

BATCH = 50_000


def status(name: str) -> float:
    """A line of what the kernel tells of this process, in MB."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) / 1024


def batches(table: Table, rows: int, width: int = 40) -> Iterator[pa.Table]:
    """Each row in a partition of its own where the table has partitions; else keys in no order."""
    random = np.random.default_rng(1)
    size = BATCH * 40 // width
    for begin in range(0, rows, size):
        ids = np.arange(begin, min(begin + size, rows))
        keys = ids if table.partition_keys else random.integers(0, rows, len(ids))
        notes = pa.array(["n" * width + str(number) for number in range(1000)]).take(pa.array(ids % 1000))
        columns = {"id": keys, "p": ids, "note": notes, "v": random.random(len(ids))}
        yield pa.table({name: columns[name] for name in table.schema.names})


def write(table: Table, rows: int, width: int = 40) -> None:
    with table.writer() as writer:
        for batch in batches(table, rows, width):
            writer.write(batch)
        writer.commit()


def main() -> None:
    work, folder, rows = sys.argv[1:]
    pa.set_cpu_count(1)
    table = Table(TableStore.open(LocalStorage(sync=False), folder))
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
    before = status("VmRSS")
    match work:
        case "write":
            write(table, int(rows))
        case "write long rows":
            write(table, int(rows), 1000)
        case "compact":
            table.compact(full=True)
    print(f"{status('VmHWM') - before:.0f}")


if __name__ == "__main__":
    main()
