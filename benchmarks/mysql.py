"""MySQL into tables, CPU microseconds a row: `python -m benchmarks.mysql [rows] [changes]`.

An orders table of 20 columns is read whole, then updated through the log, both to committed files of 4 buckets.
Planning, reading, routing, writing and committing are measured, all in this one process; what Spark adds, a JVM that
moves blobs, is measured by benchmarks/kafka_job.py.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pymysql
from pymysql.cursors import Cursor

from benchmarks.figures import Figure, record
from penstock.pipelines.config.model import PipelineSpec
from tests.here import run
from tests.servers.launch import running
from tests.sync_flags import spec_of_action

# The server is started for the benchmark on this machine; MySQL logs in without TLS only by its public key.
PLAIN = ("jdbc.properties.useSSL=false", "jdbc.properties.allowPublicKeyRetrieval=true")
COLUMNS = (
    "id BIGINT PRIMARY KEY, user_id BIGINT, sku VARCHAR(24), quantity INT, price DECIMAL(12, 2),"
    " discount DECIMAL(8, 4), status TINYINT, paid TINYINT(1), channel ENUM('app', 'web', 'shop'), city VARCHAR(40),"
    " address VARCHAR(120), phone CHAR(11), note VARCHAR(200), weight DOUBLE, ratio FLOAT, day DATE, created DATETIME,"
    " updated DATETIME(3), seen TIMESTAMP(3) NULL, version INT"
)
ROW = (
    "n, n * 7919 % 50021, CONCAT('sku-', n % 9973), n % 9, n % 90000 + 0.25, 0.0500, n % 5, n % 2, 1 + n % 3,"
    " CONCAT('city ', n % 300), CONCAT('street of many names, number ', n % 999), LPAD(n, 11, '1'),"
    " IF(n % 3, NULL, 'leave it at the front desk, please'), n / 8, n / 3, '2024-05-01' + INTERVAL n % 300 DAY,"
    " '2024-05-01 10:00:00' + INTERVAL n SECOND, '2024-05-01 10:00:00.123', '2024-05-01 10:00:00.123', 1"
)


def main(rows: int, changes: int) -> None:
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder, running("mysql", Path(folder) / "server") as port:
        cursor = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True).cursor()
        cursor.execute("CREATE DATABASE shop")
        for table, size in (("small", 1_000), ("orders", rows)):
            cursor.execute(f"CREATE TABLE shop.{table} ({COLUMNS})")
            fill(cursor, size, table)
        # Tasks of Spark run in processes that have imported everything, so the first table pays for the imports here.
        run(spec_of(folder, port, "small"), tasks=2)
        spec = spec_of(folder, port, "orders")
        measured("snapshot", rows, 2.5, lambda: run(spec, tasks=2))
        update(cursor, rows, changes)
        measured("updates through the log", changes, 2.5, lambda: run(spec, tasks=2))


def spec_of(folder: str, port: int, table: str) -> PipelineSpec:
    words = ["--warehouse", f"{folder}/warehouse", "--database", "ods", "--table", table, "--until-caught-up"]
    conf = ("hostname=127.0.0.1", f"port={port}", "username=cdc", "password=cdc", *PLAIN)
    for item in (*conf, "database-name=shop", f"table-name={table}"):
        words += ["--mysql-conf", item]
    words += ["--table-conf", "bucket=4", "--table-conf", "write-only=true"]
    return spec_of_action("mysql-sync-table", words)


def fill(cursor: Cursor, rows: int, table: str = "orders") -> None:
    cursor.execute("SHOW VARIABLES WHERE Variable_name IN ('cte_max_recursion_depth', 'max_recursive_iterations')")
    cursor.execute(f"SET {cursor.fetchall()[0][0]} = 100000000")
    for first in range(0, rows, 100_000):
        last = min(first + 100_000, rows)
        numbers = f"WITH RECURSIVE s (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {last})"
        cursor.execute(f"INSERT INTO shop.{table} {numbers} SELECT {ROW} FROM s")


def update(cursor: Cursor, rows: int, changes: int) -> None:
    for first in range(0, changes, 500):
        cursor.execute(
            "UPDATE shop.orders SET status = status + 1, price = price + 1, version = version + 1"
            f" WHERE id >= {first % rows} AND id < {first % rows + 500}"
        )


def measured(what: str, rows: int, goal: float, work: Callable[[], object]) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    work()
    spent, wall = time.process_time() - cpu, time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:<26} {rows:>9,} rows  {spent / rows * 1e6:6.2f} us CPU a row  {wall:6.1f} s  peak {peak:,.0f} MB")
    unit = f"us a row, peak of the process {peak:,.0f} MB"
    record(Figure(f"{what}, {rows:,} rows", spent / rows * 1e6, unit, goal=goal, less=True))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(numbers[0] if numbers else 200_000, numbers[1] if len(numbers) > 1 else 100_000)
