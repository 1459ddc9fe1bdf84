"""Million rows of 12 columns written and read per CPU second, by format: `python benchmarks/write_files.py [rows]`.

Beside ours stands what Arrow alone costs: `pq.write_table` of the same columns, `ParquetFile.iter_batches` of the file.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.storage.local import LocalStorage
from penstock.table.files.file_reader import FileReader
from penstock.table.files.file_writer import FileFolder, FileNames, RollingWriter
from penstock.table.meta.data_file import DataFile
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import Field, parse_atomic

COLUMNS = {
    "id": "BIGINT NOT NULL",
    "order_id": "BIGINT",
    "user_id": "INT",
    "goods": "STRING",
    "sku": "VARCHAR(20)",
    "price": "DECIMAL(16, 2)",
    "discount": "DECIMAL(10, 4)",
    "quantity": "INT",
    "state": "STRING",
    "paid": "BOOLEAN",
    "created": "TIMESTAMP(3)",
    "updated": "TIMESTAMP(6)",
}
SCHEMA = TableSchema(
    0,
    tuple(Field(place, name, parse_atomic(kind)) for place, (name, kind) in enumerate(COLUMNS.items())),
    len(COLUMNS),
    primary_keys=("id",),
)


def rows(count: int) -> pa.Table:
    random = np.random.default_rng(7)
    goods = pa.array([f"商品 {n * 7919 % 100_003} ({n % 17} pieces)" for n in range(count)])
    cents = pa.array(random.integers(100, 10**7, count)).cast(pa.decimal128(19, 0))
    moments = np.int64(1_700_000_000_000_000) + np.sort(random.integers(0, 10**13, count))
    return pa.table(
        {
            "_SEQUENCE_NUMBER": pa.array(np.arange(count)),
            "_VALUE_KIND": pa.array(np.zeros(count, np.int8)),
            "id": pa.array(np.arange(count) * 3),
            "order_id": pa.array(random.integers(0, 10**9, count)),
            "user_id": pa.array(random.integers(0, 10**6, count).astype(np.int32), mask=random.random(count) < 0.1),
            "goods": goods,
            "sku": pa.array([f"SKU{n % 5000:05d}" for n in random.permutation(count)]),
            "price": cents.cast(pa.decimal128(16, 2)),
            "discount": cents.cast(pa.decimal128(10, 4), safe=False).slice(0, count),
            "quantity": pa.array(random.integers(1, 20, count).astype(np.int32)),
            "state": pa.array(random.choice(["paid", "shipped", "done", "returned"], count)),
            "paid": pa.array(random.random(count) < 0.9),
            "created": pa.array(moments // 1000, pa.timestamp("ms")),
            "updated": pa.array(moments, pa.timestamp("us")),
        }
    )


def cpu(work: Callable[[], object], runs: int = 3) -> float:
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def write(folder: str, schema: TableSchema, table: pa.Table, name: str = "u") -> list[DataFile]:
    writer = RollingWriter(FileFolder(LocalStorage(sync=False), folder, FileNames(name), lambda: 0), schema)
    for batch in table.to_batches(16_384):
        writer.write(batch)
    return writer.finish()


def read(folder: str, schema: TableSchema, files: list[DataFile]) -> int:
    reader = FileReader(LocalStorage(), lambda file: f"{folder}/{file.name}", lambda _: schema, schema.fields)
    return sum(batch.num_rows for file in files for batch in reader.read(file))


def bare_read(path: str) -> int:
    names = [field.name for field in SCHEMA.fields]
    with pa.OSFile(path) as source:
        batches = pq.ParquetFile(source).iter_batches(16_384, columns=names, use_threads=False)
        return sum(batch.num_rows for batch in batches)


def measure(folder: str, label: str, table: pa.Table, options: dict[str, str]) -> None:
    schema, size = replace(SCHEMA, options=options), len(table)
    files = write(folder, schema, table, label)
    writing, reading = cpu(lambda: write(folder, schema, table)), cpu(lambda: read(folder, schema, files))
    speeds = f"write {size / writing / 1e6:5.2f}  read {size / reading / 1e6:5.2f}"
    print(f"{label:15} {speeds}  {sum(file.size for file in files) / size:5.1f} MB/M rows")
    if label == "parquet":
        first = files[:1]
        ours = cpu(lambda: read(folder, schema, first), 7)
        bare = cpu(lambda: bare_read(f"{folder}/{first[0].name}"), 7)
        print(f"{'':15} reading costs {ours / bare - 1:+.1%} over iter_batches")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    pa.set_cpu_count(1)
    table = rows(count)
    with tempfile.TemporaryDirectory() as folder:
        measure(folder, "parquet", table, {"file.format": "parquet"})
        measure(folder, "parquet, thin", table, {"file.format": "parquet", "data-file.thin-mode": "true"})
        measure(folder, "orc", table, {"file.format": "orc"})
        measure(folder, "avro", table.slice(0, count // 20), {"file.format": "avro"})
        bare = cpu(lambda: pq.write_table(table, f"{folder}/bare", compression="zstd", compression_level=1))
        print(f"{'pq.write_table':15} write {count / bare / 1e6:5.2f}  (dictionaries everywhere, no key columns)")


if __name__ == "__main__":
    main()
