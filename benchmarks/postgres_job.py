"""A large table of PostgreSQL, read whole by a pipeline: `python -m benchmarks.postgres_job [rows]`.

The figure is the memory of all processes of the job, which must not grow with the table: a fifth of the rows is read by
a job of its own first. CPU seconds and wall time include the start.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import penstock
from benchmarks.postgres import COLUMNS, ROW
from benchmarks.processes import Cost, cost_of, record_bounds, record_costs
from tests.integration.postgres.sync import DATABASE, PgPlayground
from tests.servers.launch import running


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server may run as a user of its own
        with running("postgres", folder / "server") as port:
            server = PgPlayground(port)
            server.start_over()
            for table, size in (("fifth", rows // 5), ("orders", rows)):
                server.create(table, COLUMNS)
                server.run(f"INSERT INTO {table} SELECT {ROW} FROM generate_series(0, {size - 1}) n")
                work = f"snapshot of {size:,} rows of PostgreSQL"
                cost = read_whole(server, folder, table, size)
                bounds = f"driver {cost.driver >> 20} MiB, largest task {cost.worker >> 20} MiB"
                print(f"{work}: {cost}, {bounds}", flush=True)
                record_costs(work, cost, None, "")
                record_bounds(work, cost)
                server.run(f"DROP TABLE {table}")


def read_whole(server: PgPlayground, folder: Path, table: str, rows: int) -> Cost:
    conf = ["hostname=127.0.0.1", f"port={server.port}", "username=cdc", "password=cdc", f"slot.name={table}"]
    conf += [f"database-name={DATABASE}", "schema-name=public", f"table-name={table}"]
    flags = ["--warehouse", str(folder / "warehouse"), "--database", "ods", "--table", table]
    flags += [word for item in conf for word in ("--postgres-conf", item)]
    for option in ("bucket=4", "write-only=true", "file.compression=zstd"):
        flags += ["--table-conf", option]
    action = [sys.executable, "-m", "penstock.pipelines.commands.main", "postgres-sync-table", *flags]
    cost = cost_of([*action, "--master", "local[2,4]", "--until-caught-up"], folder / "log")
    found = penstock.open_table(f"{folder}/warehouse/ods.db/{table}").scan(columns=["id"]).to_arrow()
    if len(found) != rows:
        raise SystemExit(f"{len(found):,} rows of {table} were written, and the server has {rows:,}")
    return cost


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
