"""Columns that a codec does not shrink are stored without it, beside others that are compressed: Java reads both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle

COLUMNS = [
    ("id", "BIGINT NOT NULL"),
    ("random", "BIGINT"),
    ("price", "DECIMAL(12, 2)"),
    ("text", "STRING"),
    ("tags", {"type": "ARRAY", "element": "INT"}),
]


def test_java_reads_uncompressed_columns_beside_compressed_ones(oracle: Oracle, tmp_path: Path) -> None:
    path = oracle.create(tmp_path, "shop.t", COLUMNS, primary_keys=["id"], partition_keys=[], options={"bucket": "1"})
    table = penstock.Catalog(str(tmp_path)).table("shop.t")
    draw, count = np.random.default_rng(1), 6_000
    cents = pa.array(draw.integers(0, 10**9, count)).cast(pa.decimal128(19, 0))
    rows = {
        "id": np.arange(count),
        "random": draw.integers(0, 1 << 60, count),
        "price": cents.cast(pa.decimal128(38, 2)).cast(pa.decimal128(12, 2)),
        "text": [f"text {number}" for number in range(count)],
        "tags": [[number] for number in range(count)],
    }
    with table.writer() as writer:
        writer.write(pa.table(rows))
        writer.commit()

    (file,) = table.system("files")["file_path"].to_pylist()
    group = pq.ParquetFile(file).metadata.row_group(0)
    assert {group.column(at).compression for at in range(group.num_columns)} == {"ZSTD", "UNCOMPRESSED"}
    assert difference(oracle.read(path), table.scan().to_arrow()) is None


def test_java_reads_timestamps_in_delta_encoding(oracle: Oracle, tmp_path: Path) -> None:
    """Timestamps of any unit in 64 bits, with nulls, before the epoch and out of order are read and compacted."""
    types = {"s": "TIMESTAMP(0)", "ms": "TIMESTAMP(3)", "us": "TIMESTAMP(6)"}
    types |= {f"local_{name}": f"{text} WITH LOCAL TIME ZONE" for name, text in types.items()}
    columns = [("id", "BIGINT NOT NULL"), *types.items()]
    path = oracle.create(tmp_path, "shop.t", columns, primary_keys=["id"], options={"bucket": "1"})
    table = penstock.Catalog(str(tmp_path)).table("shop.t")
    draw, count = np.random.default_rng(1), 6_000
    rows: dict[str, pa.Array] = {"id": pa.array(np.arange(count))}
    for unit, per_second in (("s", 1), ("ms", 10**3), ("us", 10**6)):
        numbers = draw.integers(-(10**9) * per_second, 4 * 10**9 * per_second, count)
        for name, zone in ((unit, None), (f"local_{unit}", "UTC")):
            rows[name] = pa.array(numbers, pa.timestamp(unit, zone), mask=draw.random(count) < 0.1)
    with table.writer() as writer:
        writer.write(pa.table(rows))
        writer.commit()

    (file,) = table.system("files")["file_path"].to_pylist()
    group = pq.ParquetFile(file).metadata.row_group(0)
    laid = {group.column(at).path_in_schema: group.column(at).encodings for at in range(group.num_columns)}
    assert all("DELTA_BINARY_PACKED" in laid[name] for name in types)
    assert difference(oracle.read(path), table.scan().to_arrow()) is None
    oracle.write(path, [["+I", 1, *["2026-01-01T00:00:00"] * 3, *["2026-01-01T00:00:00Z"] * 3]], compact="full")
    assert difference(oracle.read(path), table.refresh().scan().to_arrow()) is None
