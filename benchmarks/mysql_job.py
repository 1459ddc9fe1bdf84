"""A table of MariaDB, and changes of it through the log: ours under Spark, then Flink CDC with Java Paimon.

    python -m benchmarks.mysql_job ROWS CHANGES [--tasks 2] [--only ours|flink] [--server mariadb|mysql]

Both get the same flags of `mysql-sync-table`: once to read the table, once to follow the log from where the changes
begin. What they leave is counted and summed against the server. CPU seconds are those of all processes of the job from
its start to its end, start-up included. MySQL 9 refuses the statements of Flink CDC 3.1: there only ours runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pymysql

import penstock
from benchmarks.mysql import COLUMNS, fill, update
from benchmarks.peers import flink
from benchmarks.processes import Cost, cost_of, record_costs
from penstock.table.meta.store import TableMissing
from tests.servers import launch

NAMES = {"snapshot": "snapshot of {:,} rows of MariaDB", "log": "{:,} changes of the binlog"}
LAST = -1  # the key of a row that is inserted behind all changes


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a run: rows of the table, or changes of the binlog from a position on."""

    name: str
    port: int
    size: int
    begins: Sequence[str]
    done: Callable[[penstock.Table], bool]

    def flags(self, warehouse: Path) -> list[str]:
        conf = [
            "hostname=127.0.0.1",
            f"port={self.port}",
            "username=cdc",
            "password=cdc",
            "jdbc.properties.useSSL=false",
        ]
        conf += ["database-name=shop", "table-name=orders", "server-time-zone=UTC", *self.begins]
        flags = ["--warehouse", str(warehouse), "--database", "ods", "--table", "orders"]
        flags += [word for item in conf for word in ("--mysql_conf", item)]
        options = ("bucket=4", "write-only=true", "file.compression=zstd")
        return flags + [word for option in options for word in ("--table_conf", option)]


def run_ours(work: Work, home: Path, tasks: int) -> Cost:
    action = [sys.executable, "-m", "penstock.pipelines.commands.main", "mysql-sync-table", *work.flags(home)]
    return cost_of([*action, "--master", f"local[{tasks},4]", "--until-caught-up"], home / "log")


def run_flink(work: Work, home: Path, tasks: int) -> Cost:
    """Flink does not end by itself: it is stopped when its table holds all."""
    flink.prepare()
    flags = [*work.flags(home), "--mysql_conf", "server-id=6400-6464"]
    return cost_of(flink.command("mysql_sync_table", flags, parallelism=tasks), home / "log", until=settled(work, home))


def settled(work: Work, home: Path) -> Callable[[], bool]:
    """Return whether the table contains all of the work; its files are read again only after a new snapshot."""
    seen: set[int] = set()

    def look() -> bool:
        try:
            table = penstock.open_table(f"{home}/ods.db/orders")
        except TableMissing:
            return False
        snapshot = table.latest_snapshot
        if snapshot is None or snapshot.id in seen:
            return False
        seen.add(snapshot.id)
        return work.done(table)

    return look


RUNS: dict[str, Callable[[Work, Path, int], Cost]] = {"ours": run_ours, "flink": run_flink}


def report(name: str, work: Work, home: Path, cost: Cost) -> str:
    if not work.done(penstock.open_table(f"{home}/ods.db/orders")):
        raise SystemExit(f"{name} left other rows than the server has: {work.name}")
    figures = f"{cost.cpu / work.size * 1e6:.1f} CPU-us a row, {work.size / cost.wall:,.0f} rows/s"
    return f"{work.name:9} {name:6} {cost}, largest worker {cost.worker >> 20} MB, {figures}"


def works(port: int, rows: int, changes: int) -> Sequence[Callable[[], Work]]:
    """The table to be read; then, made when it is asked for, the changes to be followed."""
    cursor = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True).cursor()
    cursor.execute("CREATE DATABASE shop")
    cursor.execute(f"CREATE TABLE shop.orders ({COLUMNS})")
    fill(cursor, rows)

    def whole() -> Work:
        # Flink has no option to end with the snapshot, so its table is read until it is complete.
        return Work("snapshot", port, rows, [], lambda table: len(table.scan(columns=["id"]).to_arrow()) == rows)

    def log() -> Work:
        cursor.execute("SHOW MASTER STATUS")
        file, pos = cursor.fetchall()[0][:2]
        update(cursor, rows, changes)
        cursor.execute(f"INSERT INTO shop.orders (id) VALUES ({LAST})")
        begins = ["scan.startup.mode=specific-offset", f"scan.startup.specific-offset.file={file}"]
        begins.append(f"scan.startup.specific-offset.pos={pos}")
        return Work("log", port, changes, begins, lambda table: has_all(table, rows, changes))

    return (whole, log) if changes else (whole,)


def has_all(table: penstock.Table, rows: int, changes: int) -> bool:
    found = table.scan(columns=["id", "version"]).to_arrow()
    if not pc.any(pc.equal(found["id"], LAST)).as_py():
        return False
    return len(found) == min(rows, changes) + 1 and pc.sum(found["version"]).as_py() == min(rows, changes) + changes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mysql_job")
    parser.add_argument("rows", type=int)
    parser.add_argument("changes", type=int)
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--server", choices=["mariadb", "mysql"], default="mariadb")
    parser.add_argument("--only", choices=list(RUNS))
    parser.add_argument("--keep", type=Path, help="a folder for tables and logs")
    arguments = parser.parse_args()
    runs = [arguments.only] if arguments.only else ["ours"] if arguments.server == "mysql" else list(RUNS)
    with tempfile.TemporaryDirectory() as scratch, launch.running(arguments.server, Path(scratch) / "server") as port:
        for work in works(port, arguments.rows, arguments.changes):
            made = work()
            costs = {}
            for name in runs:
                home = Path(tempfile.mkdtemp(prefix=name, dir=arguments.keep or scratch))
                costs[name] = RUNS[name](made, home, arguments.tasks)
                print(report(name, made, home, costs[name]), flush=True)
            if "ours" in costs:
                record_costs(
                    NAMES[made.name].format(made.size),
                    costs["ours"],
                    costs.get("flink"),
                    "Flink CDC 3.1.1, Paimon 1.3.1",
                )


if __name__ == "__main__":
    main()
