"""A table of PostgreSQL, and changes of it through a slot: ours, then Flink CDC with Java Paimon.

    python -m benchmarks.postgres_flink ROWS CHANGES --less SIZE [--tasks 2]

Both get the same flags of `postgres-sync-table`, and commit every ten seconds. A job that reads a table is stopped when
its own has all rows. A job that follows the log begins at its end, on a slot of its own; the changes are made once it
streams, and it is stopped when its table has all of them. CPU seconds are those of all processes of the job, start-up
included. Each job also runs for the smaller size: what the further rows cost is the cost without the start.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, record
from benchmarks.mysql_job import PEER, STEADY_GOAL, has_all, settled
from benchmarks.peers import flink
from benchmarks.postgres import COLUMNS as ALL_COLUMNS
from benchmarks.postgres import ROW, update
from benchmarks.processes import Cost, cost_of, record_costs
from tests.integration.postgres.sync import DATABASE, PgPlayground
from tests.servers.launch import running

BATCH_S = 10
# The peer stops at times with other precisions, and at times with a zone: "Cannot convert field updated".
COLUMNS = ALL_COLUMNS.replace("timestamptz(3)", "timestamp").replace("timestamp(3)", "timestamp")
PEER_FAILED = "switched from RUNNING to FAILED"
NAMES = {"snapshot": "snapshot of {:,} rows of PostgreSQL, beside the peer", "log": "{:,} changes of PostgreSQL's log"}


@dataclass(slots=True)
class Jobs:
    """Runs of ours and of the peer's, each with a table and a slot of its own on one server."""

    server: PgPlayground
    folder: Path
    tasks: int
    made: int = 0

    def snapshot(self, size: int, *, peer: bool) -> Cost:
        name = self._table(size)
        home = self._home(name)
        over = unless_failed(settled(lambda found: len(found.scan(columns=["id"]).to_arrow()) == size, home), home)
        return cost_of(self._command(name, home, peer=peer), home / "log", until=over)

    def log(self, size: int, *, peer: bool) -> Cost:
        """Let each row be updated once, and insert one behind all changes, whose key is -1."""
        name = self._table(size)
        home = self._home(name)
        over = unless_failed(settled(lambda found: has_all(found, -1, size + 1, 2 * size), home), home)

        def change() -> None:
            update(self.server, size, size, name)
            self.server.run(f"INSERT INTO {name} (id) VALUES (-1)")

        writer = threading.Thread(target=change)

        def look() -> bool:
            if writer.ident is None and self._streams(name, active=peer):
                writer.start()
            return over() and not writer.is_alive()

        command = self._command(name, home, "scan.startup.mode=latest-offset", peer=peer)
        return cost_of(command, home / "log", until=look)

    def _table(self, rows: int) -> str:
        self.made += 1
        name = f"orders_{self.made}"
        self.server.create(name, COLUMNS)
        self.server.run(
            f"INSERT INTO {name} SELECT {ROW} FROM generate_series(0, {rows - 1}) n", f"VACUUM ANALYZE {name}"
        )
        return name

    def _home(self, name: str) -> Path:
        home = self.folder / name
        home.mkdir()
        return home

    def _streams(self, slot: str, *, active: bool) -> bool:
        """Return whether changes of the log come from now on. Ours is connected only while it reads."""
        question = f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{slot}'"
        return self.server.run(question + " AND active" * active) == "1"

    def _command(self, name: str, home: Path, *begins: str, peer: bool) -> list[str]:
        conf = ["hostname=127.0.0.1", f"port={self.server.port}", "username=cdc", "password=cdc", *begins]
        conf += [f"database-name={DATABASE}", "schema-name=public", f"table-name={name}", f"slot.name={name}"]
        conf += [f"debezium.publication.name={name}", "debezium.publication.autocreate.mode=filtered"]
        conf += ["decoding.plugin.name=pgoutput"]
        flags = ["--warehouse", str(home), "--database", "ods", "--table", "orders"]
        flags += [word for item in conf for word in ("--postgres_conf", item)]
        for option in ("bucket=4", "write-only=true", "file.compression=zstd"):
            flags += ["--table_conf", option]
        if peer:
            return flink.command(
                "postgres_sync_table",
                flags,
                connector=flink.POSTGRES,
                parallelism=self.tasks,
                checkpoint_seconds=BATCH_S,
            )
        action = [sys.executable, "-m", "penstock.pipelines.commands.main", "postgres-sync-table", *flags]
        return [*action, "--master", f"local[{self.tasks},4]", "--trigger", f"{BATCH_S}s"]


def unless_failed(over: Callable[[], bool], home: Path) -> Callable[[], bool]:
    """The peer begins a job that has failed again and again, without an end."""

    def look() -> bool:
        log = (home / "log").read_text(errors="replace")
        if PEER_FAILED in log:
            raise SystemExit(log[-4000:])
        return over()

    return look


def beside(what: str, run: Callable[..., Cost], size: int) -> tuple[Cost, Cost]:
    costs = []
    for peer in (False, True):
        costs.append(run(size, peer=peer))
        who = "flink" if peer else "ours"
        print(f"{what:9} {size:>9,} {who:6} {costs[-1]}, {costs[-1].cpu / size * 1e6:.1f} CPU-us a row", flush=True)
    return costs[0], costs[1]


def measure(jobs: Jobs, what: str, size: int, less: int) -> None:
    run = {"snapshot": jobs.snapshot, "log": jobs.log}[what]
    work = NAMES[what].format(size)
    fewer = beside(what, run, less)
    costs = beside(what, run, size)
    record_costs(work, *costs, PEER)
    ours, peer = ((more.cpu - few.cpu) / (size - less) * 1e6 for more, few in zip(costs, fewer, strict=True))
    print(f"{what:9} without starts: {ours:.2f} and {peer:.2f} CPU-us a row, {peer / ours:.1f} times", flush=True)
    if ours <= 0 or peer <= 0:
        raise SystemExit(f"{what}: starts differ by more than the further rows cost: take a larger size")
    name = f"{work}, without starts (less {less:,}): CPU of one"
    record(Figure(name, ours, "us", peer, PEER, STEADY_GOAL, goal_of_ratio=True, less=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres_flink")
    parser.add_argument("rows", type=int)
    parser.add_argument("changes", type=int)
    parser.add_argument("--less", type=int, required=True, metavar="SIZE")
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--only", choices=list(NAMES))
    arguments = parser.parse_args()
    flink.prepare(flink.POSTGRES)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)  # the server may run as a user of its own
        with running("postgres", folder / "server") as port:
            jobs = Jobs(PgPlayground(port), folder, arguments.tasks)
            jobs.server.start_over()
            for what, size in (("snapshot", arguments.rows), ("log", arguments.changes)):
                if arguments.only in (None, what):
                    measure(jobs, what, size, arguments.less)


if __name__ == "__main__":
    main()
