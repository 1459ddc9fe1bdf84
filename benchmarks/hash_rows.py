"""Million rows hashed per CPU second, by key type: `python benchmarks/hash_rows.py [rows]`."""

from __future__ import annotations

import sys
import time
import uuid

import numpy as np
import pyarrow as pa

from penstock.table.values.hashing import bucket_rows
from penstock.table.values.types import BIGINT, INT, STRING, DataType, parse_type


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
        print(f"{name:20} {rows / min(seconds) / 1e6:7.1f} M rows/CPU-s")


if __name__ == "__main__":
    main()
