"""Runs in pypaimon's own environment: the same work as table_io.py, its CPU seconds as JSON."""

from __future__ import annotations

import json
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
from pypaimon import CatalogFactory, Schema
from pypaimon.table.file_store_table import FileStoreTable

pa.set_cpu_count(1)


def write(folder, file):
    rows = pq.read_table(file)
    rows = rows.set_column(0, pa.field("id", pa.int64(), nullable=False), rows.column("id"))
    catalog = CatalogFactory.create({"warehouse": folder})
    schema = Schema.from_pyarrow_schema(rows.schema, primary_keys=["id"], options={"bucket": "4", "write-only": "true"})
    catalog.create_table("bench.peer", schema, ignore_if_exists=False)
    table = catalog.get_table("bench.peer")
    start = time.process_time()
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    for batch in rows.to_batches(max_chunksize=100_000):
        writer.write_arrow_batch(batch)
    commit.commit(writer.prepare_commit())
    return time.process_time() - start


def scan(path, columns):
    table = FileStoreTable.from_path(path)
    start = time.process_time()
    builder = table.new_read_builder().with_projection(columns.split(","))
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    seconds = time.process_time() - start
    assert rows.num_rows
    return seconds


print(json.dumps({"cpu": {"write": write, "scan": scan}[sys.argv[1]](*sys.argv[2:])}))
