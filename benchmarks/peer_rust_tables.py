"""Runs in an environment with pypaimon-rust: the writing and reading of table_io.py, its CPU seconds as JSON.

    peer_rust_tables.py write WAREHOUSE TABLE PARQUET_FILE
    peer_rust_tables.py scan WAREHOUSE TABLE COLUMN,COLUMN...

A scan also gives the resident memory in MB that it adds at most, its rows being read batch by batch.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from pypaimon_rust.datafusion import PaimonCatalog


def peak():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def write(table, file):
    rows = pq.read_table(file)
    start = time.process_time()
    builder = table.new_batch_write_builder()
    writer = builder.new_write()
    for batch in rows.to_batches(max_chunksize=100_000):
        writer.write_arrow(batch)
    builder.new_commit().commit(writer.prepare_commit())
    return {"cpu": time.process_time() - start}


def scan(table, columns):
    builder = table.new_read_builder().with_projection(columns.split(","))
    best, before, rows = float("inf"), peak(), 0
    for _ in range(3):
        start, rows = time.process_time(), 0
        reader = builder.new_read().read(builder.new_scan().plan().splits())
        rows = sum(batch.num_rows for batch in reader)
        best = min(best, time.process_time() - start)
    return {"cpu": best, "rows": rows, "megabytes": peak() - before}


def main(work, warehouse, name, argument):
    table = PaimonCatalog({"warehouse": warehouse}).get_table(name)
    print(json.dumps({"write": write, "scan": scan}[work](table, argument)))


main(*sys.argv[1:])
