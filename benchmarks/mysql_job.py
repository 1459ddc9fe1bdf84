"""A table of MariaDB, and changes of it through the log: ours under Spark, then Flink CDC with Java Paimon.

    python -m benchmarks.mysql_job ROWS CHANGES [--less SIZE] [--tasks 2] [--only ours|flink]
        [--server mariadb|mysql] [--work snapshot|log]

Both get the same flags of `mysql-sync-table`: once to read the table, once to follow the log from where the changes
begin. What they leave is counted and summed against the server. CPU seconds are those of all processes of the job from
its start to its end, start-up included. With `--less` each job also runs for so many rows and so many changes: what the
further ones cost is the cost without the start. MySQL 9 refuses the statements of Flink CDC 3.1: there only ours runs.
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
from pymysql.cursors import Cursor

import penstock
from benchmarks.figures import Figure, record
from benchmarks.mysql import COLUMNS, fill, update
from benchmarks.peers import flink
from benchmarks.processes import Cost, cost_of, record_bounds, record_costs
from penstock.table.meta.store import TableMissing
from tests.servers import launch

NAMES = {"snapshot": "snapshot of {:,} rows of MariaDB", "log": "{:,} changes of the binlog"}
PEER = "Flink CDC 3.1.1, Paimon 1.3.1"
# Times less CPU than the peer without starts.
STEADY_GOAL = 15.0


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a run: rows of the table, or changes of the binlog from a position on."""

    name: str
    port: int
    size: int
    table: str
    begins: Sequence[str]
    done: Callable[[penstock.Table], bool]

    def flags(self, warehouse: Path) -> list[str]:
        conf = [
            "hostname=127.0.0.1",
            f"port={self.port}",
            "username=cdc",
            "password=cdc",
            "jdbc.properties.useSSL=false",
            "jdbc.properties.allowPublicKeyRetrieval=true",  # MySQL 8 and later ask for more without TLS
        ]
        conf += ["database-name=shop", f"table-name={self.table}", "server-time-zone=UTC", *self.begins]
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
    return cost_of(
        flink.command("mysql_sync_table", flags, parallelism=tasks), home / "log", until=settled(work.done, home)
    )


def settled(done: Callable[[penstock.Table], bool], home: Path) -> Callable[[], bool]:
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
        return done(table)

    return look


RUNS: dict[str, Callable[[Work, Path, int], Cost]] = {"ours": run_ours, "flink": run_flink}


def report(name: str, work: Work, home: Path, cost: Cost) -> str:
    if not work.done(penstock.open_table(f"{home}/ods.db/orders")):
        raise SystemExit(f"{name} left other rows than the server has: {work.name}")
    bounds = f"driver {cost.driver >> 20} MiB, largest task {cost.worker >> 20} MiB"
    figures = f"{cost.cpu / work.size * 1e6:.1f} CPU-us a row, {work.size / cost.wall:,.0f} rows/s"
    return f"{work.name:9} {name:6} {cost}, {bounds}, {figures}"


@dataclass(slots=True)
class Server:
    """The source: a table for each size of a snapshot, and its changes, which are made when they are asked for."""

    port: int
    cursor: Cursor
    parts: int = 0

    @classmethod
    def at(cls, port: int) -> Server:
        cursor = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True).cursor()
        cursor.execute("CREATE DATABASE shop")
        return cls(port, cursor)

    def snapshot(self, table: str, rows: int) -> Work:
        self.cursor.execute(f"CREATE TABLE shop.{table} ({COLUMNS})")
        fill(self.cursor, rows, table)
        # Flink has no option to end with the snapshot, so its table is read until it is complete.
        return Work(
            "snapshot", self.port, rows, table, [], lambda found: len(found.scan(columns=["id"]).to_arrow()) == rows
        )

    def log(self, rows: int, changes: int) -> Work:
        """Change rows of the table of orders, and insert one behind all changes, whose key is a negative number."""
        self.cursor.execute("SHOW MASTER STATUS")
        file, pos = self.cursor.fetchall()[0][:2]
        update(self.cursor, rows, changes)
        self.parts += 1
        last = -self.parts
        self.cursor.execute(f"INSERT INTO shop.orders (id) VALUES ({last})")
        self.cursor.execute(f"SELECT sum(version) FROM shop.orders WHERE id BETWEEN 0 AND {min(rows, changes) - 1}")
        versions = int(self.cursor.fetchall()[0][0])
        begins = ["scan.startup.mode=specific-offset", f"scan.startup.specific-offset.file={file}"]
        begins.append(f"scan.startup.specific-offset.pos={pos}")
        changed = min(rows, changes) + 1
        return Work("log", self.port, changes, "orders", begins, lambda found: has_all(found, last, changed, versions))


def has_all(table: penstock.Table, last: int, rows: int, versions: int) -> bool:
    found = table.scan(columns=["id", "version"]).to_arrow()
    if not pc.any(pc.equal(found["id"], last)).as_py():
        return False
    return len(found) == rows and pc.sum(found["version"]).as_py() == versions


def works(
    server: Server, rows: int, changes: int, less: int, only: str | None
) -> Sequence[Sequence[Callable[[], Work]]]:
    """Return how the work is made: of a table and of the log, each in its whole size and maybe in a small one."""
    if only == "log":
        server.snapshot("orders", rows)  # the changes need the table
    snapshots = [lambda: server.snapshot("orders", rows)]
    logs = [lambda: server.log(rows, changes)]
    if less:
        snapshots.append(lambda: server.snapshot("fewer", less))
        logs.append(lambda: server.log(rows, less))
    chosen = {"snapshot": snapshots, "log": logs} if changes else {"snapshot": snapshots}
    return [chosen[only]] if only else list(chosen.values())


def measured(made: Work, runs: Sequence[str], folder: Path, tasks: int) -> dict[str, Cost]:
    costs = {}
    for name in runs:
        home = Path(tempfile.mkdtemp(prefix=name, dir=folder))
        costs[name] = RUNS[name](made, home, tasks)
        print(report(name, made, home, costs[name]), flush=True)
    return costs


def record_further(whole: tuple[Work, dict[str, Cost]], small: tuple[Work, dict[str, Cost]]) -> None:
    """Record what each row costs that the larger work has more than the smaller one: the cost without starts."""
    (work, costs), (less, fewer) = whole, small
    further = {
        name: (costs[name].cpu - fewer[name].cpu) / (work.size - less.size) * 1e6
        for name in costs.keys() & fewer.keys()
    }
    print(f"{work.name:9} without starts: {further} CPU-us a row", flush=True)
    ours = further.get("ours")
    if ours is None:
        return
    if ours <= 0:
        print(f"{work.name:9} starts differ by more than the further rows cost: take a larger size", flush=True)
        return
    name = f"{NAMES[work.name].format(work.size)}, without starts (less {less.size:,}): CPU of one"
    record(Figure(name, ours, "us", further.get("flink"), PEER, STEADY_GOAL, goal_of_ratio=True, less=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mysql_job")
    parser.add_argument("rows", type=int)
    parser.add_argument("changes", type=int)
    parser.add_argument("--less", type=int, default=0, metavar="SIZE")
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--server", choices=["mariadb", "mysql"], default="mariadb")
    parser.add_argument("--only", choices=list(RUNS))
    parser.add_argument("--work", choices=list(NAMES), help="the one of both that is measured")
    parser.add_argument("--keep", type=Path, help="a folder for tables and logs")
    arguments = parser.parse_args()
    sizes_of = {"snapshot": arguments.rows, "log": arguments.changes}
    smallest = sizes_of[arguments.work] if arguments.work else min(filter(None, sizes_of.values()))
    if arguments.less >= smallest:
        parser.error(f"--less {arguments.less} has to be smaller than {smallest}, the size of the larger run")
    runs = [arguments.only] if arguments.only else ["ours"] if arguments.server == "mysql" else list(RUNS)
    with tempfile.TemporaryDirectory() as scratch, launch.running(arguments.server, Path(scratch) / "server") as port:
        for sizes in works(Server.at(port), arguments.rows, arguments.changes, arguments.less, arguments.work):
            done = []
            for work in sizes:
                made = work()
                costs = measured(made, runs, arguments.keep or Path(scratch), arguments.tasks)
                if "ours" in costs and not done:
                    record_costs(NAMES[made.name].format(made.size), costs["ours"], costs.get("flink"), PEER)
                    record_bounds(NAMES[made.name].format(made.size), costs["ours"])
                done.append((made, costs))
            if len(done) > 1:
                record_further(*done)


if __name__ == "__main__":
    main()
