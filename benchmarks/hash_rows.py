"""Million rows hashed per CPU second, by key type: `python benchmarks/hash_rows.py [rows]`."""

from __future__ import annotations

import sys
import time
import uuid

import numpy as np
import pyarrow as pa

from benchmarks.figures import Figure, record
from penstock.table.values.hashing import bucket_rows
from penstock.table.values.types import BIGINT, INT, STRING, DataType, parse_type

GOALS = {"bigint": 5.0, "uuid string": 2.0}


def cases(rows: int) -> dict[str, tuple[list[pa.Array], list[DataType]]]:
    random = np.random.default_rng(7)
    longs = pa.array(random.integers(0, 1 << 40, rows))
    ints = longs.cast(pa.int32(), safe=False)
    uuids = pa.array([str(uuid.UUID(int=int(v))) for v in random.integers(0, 1 << 62, rows)])
    mixed = pa.array(["x" * int(v) for v in random.integers(3, 31, rows)])
    decimals = longs.cast(pa.decimal128(30, 2))
    holes = pa.array(random.integers(0, 1 << 40, rows), mask=random.random(rows) < 0.1)
    return {
        "bigint": ([longs], [BIGINT]),
        "bigint, 10 % null": ([holes], [BIGINT]),
        "int": ([ints], [INT]),
        "string <= 7 bytes": ([pa.array([str(v % 10**6) for v in range(rows)])], [STRING]),
        "uuid string": ([uuids], [STRING]),
        "string 3-30 bytes": ([mixed], [STRING]),
        "decimal(30, 2)": ([decimals], [parse_type("DECIMAL(30, 2)")]),
        "bigint + uuid": ([longs, uuids], [BIGINT, STRING]),
    }


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for name, (columns, types) in cases(rows).items():
        seconds = []
        for _ in range(3):
            start = time.process_time()
            bucket_rows(columns, types, 16)
            seconds.append(time.process_time() - start)
        speed = rows / min(seconds) / 1e6
        print(f"{name:20} {speed:7.1f} M rows/CPU-s")
        record(Figure(f"hash of {name}", speed, "M rows/CPU-s", goal=GOALS.get(name)))


if __name__ == "__main__":
    main()
