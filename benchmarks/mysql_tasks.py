"""A MySQL table and its log by one task and by two: `python -m benchmarks.mysql_tasks [rows]`.

Every task is a process of its own, as under Spark, with files between reading and writing; nothing is committed. They
are forked off a process that has imported all, as Spark's daemon forks them. A quarter of the table is read first, so
that what tasks hold can be compared. At the end every row is changed, and the tasks share the log of these changes,
each with a connection of its own. The CPU of the server is printed as well: the server uses the same cores, so this CPU
is a part of the shortest possible time of reading.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pymysql
from pymysql.cursors import Cursor

from benchmarks.figures import Figure, record
from benchmarks.mysql import COLUMNS, PLAIN, fill, update
from penstock.pipelines.config.model import PipelineSpec
from tests.servers.launch import running
from tests.sync_flags import spec_of_action
from tests.tasks import Stage, stages


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder, running("mysql", Path(folder) / "server") as port:
        cursor = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True).cursor()
        cursor.execute("CREATE DATABASE shop")
        cursor.execute(f"CREATE TABLE shop.orders ({COLUMNS})")
        cursor.execute("SET sql_log_bin = 0")
        fill(cursor, rows // 4)
        snapshot = Work("{:,} rows", port)
        snapshot.measure(folder, rows // 4, 1)
        grow(cursor, rows // 4, 4)
        for tasks in (1, 2):
            snapshot.measure(folder, rows // 4 * 4, tasks)
        log = Work("{:,} changes of one log", port, changed(cursor, rows // 4 * 4))
        for tasks in (1, 2):
            log.measure(folder, rows // 4 * 4, tasks)


def grow(cursor: Cursor, rows: int, times: int) -> None:
    """The same rows again under later keys."""
    others = ", ".join(part.split()[0] for part in COLUMNS.split(", ") if part[0].isalpha())
    names = others.removeprefix("id, ")
    for turn in range(1, times):
        cursor.execute(f"INSERT INTO shop.orders SELECT id + {turn * rows}, {names} FROM shop.orders WHERE id < {rows}")


def changed(cursor: Cursor, rows: int) -> tuple[str, ...]:
    """Change every row once, in the log, and return the options with which a pipeline begins before these changes."""
    cursor.execute("SET sql_log_bin = 1")
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute("SHOW BINARY LOGS")
    file = cursor.fetchall()[-1][0]
    update(cursor, rows, rows)
    begins = {"mode": "specific-offset", "specific-offset.file": file, "specific-offset.pos": "4"}
    return tuple(f"scan.startup.{name}={value}" for name, value in begins.items())


@dataclass(frozen=True, slots=True)
class Work:
    """What tasks read: the rows of the table, or the changes of the log from where `begins` says."""

    name: str
    port: int
    begins: tuple[str, ...] = ()

    def measure(self, folder: str, rows: int, tasks: int) -> None:
        home = Path(tempfile.mkdtemp(dir=folder))
        server = int((Path(folder) / "server/pid").read_text())
        before = cpu_of(server)
        reading, writing = stages(self.pipeline(home), home / "tasks", tasks)
        by_server = cpu_of(server) - before
        name = self.name.format(rows)
        for kind, stage in (("reading", reading), ("writing", writing)):
            print(line(f"{kind} {name} by {tasks}", rows, stage), flush=True)
            what = f"{kind} {name} by {tasks} (the server: {by_server / rows * 1e6:.2f} us a row)"
            more = f"largest task {stage.peak >> 20} MB, {rows / stage.wall:,.0f} rows/s"
            record(Figure(what, stage.cpu / rows * 1e6, f"us a row, {more}", less=True))
        cores = os.cpu_count() or 1
        least = max(reading.cpu / tasks, (reading.cpu + by_server) / cores)
        print(f"        planned in {reading.planned:.2f} s; the server took {by_server / rows * 1e6:.2f} us CPU a row")
        print(
            f"        on {cores} cores with the server on them, reading cannot take less than {least:.1f} s", flush=True
        )
        shutil.rmtree(home)

    def pipeline(self, home: Path) -> PipelineSpec:
        words = ["--warehouse", f"{home}/warehouse", "--database", "ods", "--table", "orders"]
        conf = ("hostname=127.0.0.1", f"port={self.port}", "username=cdc", "password=cdc", *PLAIN, *self.begins)
        for item in (*conf, "database-name=shop", "table-name=orders"):
            words += ["--mysql-conf", item]
        words += ["--max-batch-rows", "100000000", "--table-conf", "bucket=4", "--table-conf", "write-only=true"]
        return spec_of_action("mysql-sync-table", words)


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def line(what: str, rows: int, stage: Stage) -> str:
    each = stage.cpu / rows * 1e6
    peak = f"largest task {stage.peak >> 20} MB"
    return f"{what}  {stage.wall:5.1f} s  {each:5.2f} us CPU a row  {rows / stage.wall:,.0f} rows/s  {peak}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
