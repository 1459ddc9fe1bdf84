"""The snapshot of a MySQL table by one task and by two: `python -m benchmarks.mysql_tasks [rows]`.

Every task is a process of its own, as under Spark, with files between reading and writing; nothing is committed. A
quarter of the table is read first, so that what tasks hold can be compared. Wall time has the start of processes in it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pymysql

from benchmarks.mysql import COLUMNS, fill
from penstock.pipelines.commands.arguments import parse
from penstock.pipelines.spec.actions import MYSQL_TABLE
from penstock.pipelines.spec.from_flags import mysql_pipeline
from penstock.pipelines.spec.model import PipelineSpec
from tests.servers.launch import running
from tests.tasks import Stage, stages


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder, running("mysql", Path(folder) / "server") as port:
        cursor = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True).cursor()
        cursor.execute("CREATE DATABASE shop")
        cursor.execute(f"CREATE TABLE shop.orders ({COLUMNS})")
        fill(cursor, rows // 4)
        told(folder, port, rows // 4, 1)
        cursor.execute("TRUNCATE shop.orders")
        fill(cursor, rows)
        for tasks in (1, 2):
            told(folder, port, rows, tasks)


def told(folder: str, port: int, rows: int, tasks: int) -> None:
    home = Path(tempfile.mkdtemp(dir=folder))
    for kind, stage in zip(("reading", "writing"), stages(pipeline(home, port), home / "tasks", tasks), strict=True):
        print(line(kind, rows, tasks, stage), flush=True)


def pipeline(home: Path, port: int) -> PipelineSpec:
    words = ["--warehouse", f"{home}/warehouse", "--database", "ods", "--table", "orders"]
    conf = ("hostname=127.0.0.1", f"port={port}", "username=cdc", "password=cdc", "jdbc.properties.useSSL=false")
    for one in (*conf, "database-name=shop", "table-name=orders"):
        words += ["--mysql-conf", one]
    words += ["--table-conf", "bucket=4", "--table-conf", "write-only=true"]
    return mysql_pipeline(parse("mysql-sync-table", MYSQL_TABLE, words))


def line(kind: str, rows: int, tasks: int, stage: Stage) -> str:
    each = stage.cpu / rows * 1e6
    peak = f"largest task {stage.peak >> 20} MB"
    return f"{kind} {rows:>9,} rows by {tasks}  {stage.wall:5.1f} s  {each:5.2f} us CPU a row  {peak}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
