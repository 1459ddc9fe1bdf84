"""PostgreSQL into tables, CPU microseconds a row: `python -m benchmarks.postgres [rows] [changes]`.

An orders table of 20 columns is read whole, then updated through the log, both to committed files of 4 buckets.
Planning, reading, routing, writing and committing are measured, all in this one process, as in benchmarks/mysql.py;
before each, the source alone, which reads the same rows into columns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.figures import Figure, record
from benchmarks.mysql import measured
from penstock.formats.change import DecodeOptions
from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.source import NO_LIMIT, Offsets
from penstock.pipelines.job import build
from tests.here import Log, run
from tests.integration.postgres.sync import DATABASE, PgPlayground
from tests.servers.launch import running
from tests.sync_flags import spec_of_action

COLUMNS = (
    "id bigint PRIMARY KEY, user_id bigint, sku varchar(24), quantity int, price numeric(12, 2),"
    " discount numeric(8, 4), status smallint, paid boolean, channel text, city varchar(40),"
    " address varchar(120), phone char(11), note varchar(200), weight float8, ratio float4, day date,"
    " created timestamp,"
    " updated timestamp(3), seen timestamptz(3), version int"
)
ROW = (
    "n, n::bigint * 7919 % 50021, 'sku-' || n % 9973, n % 9, n % 90000 + 0.25, 0.0500, n % 5, n % 2 = 1, 'web',"
    " 'city ' || n % 300, 'street of many names, number ' || n % 999, lpad(n::text, 11, '1'),"
    " CASE WHEN n % 3 = 0 THEN 'leave it at the front desk, please' END, n / 8.0, n / 3.0, date '2024-05-01' + n % 300,"
    " timestamp '2024-05-01 10:00:00' + n * interval '1 s', '2024-05-01 10:00:00.123', '2024-05-01 10:00:00.123+00', 1"
)
SNAPSHOT_GOAL, LOG_GOAL = 6.0, 8.0
# Rows and changes per CPU second of the source alone.
ROWS_GOAL, CHANGES_GOAL = 1_500_000.0, 1_200_000.0


def main(rows: int, changes: int) -> None:
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server may run as a user of its own
        with running("postgres", folder / "server") as port:
            measure(PgPlayground(port), folder, rows, changes)


def measure(server: PgPlayground, folder: Path, rows: int, changes: int) -> None:
    server.start_over()
    server.create("orders", COLUMNS)
    server.run(f"INSERT INTO orders SELECT {ROW} FROM generate_series(0, {rows - 1}) n")
    words = ["--warehouse", f"{folder}/warehouse", "--database", "ods", "--table", "orders", "--until-caught-up"]
    conf = ("hostname=127.0.0.1", f"port={server.port}", "username=cdc", "password=cdc", "slot.name=benchmark")
    for item in (*conf, f"database-name={DATABASE}", "schema-name=public", "table-name=orders"):
        words += ["--postgres-conf", item]
    words += ["--table-conf", "bucket=4", "--table-conf", "write-only=true"]
    spec = spec_of_action("postgres-sync-table", words)
    job = build.ready(spec)
    source = job.source
    read_alone("source alone: rows of the snapshot", source, source.initial_offsets(), rows, ROWS_GOAL)
    measured("snapshot", rows, SNAPSHOT_GOAL, lambda: run(spec, tasks=2))
    reached = Log.at(Path(job.checkpoint) / "log.json").ends[-1]
    update(server, rows, changes)
    read_alone("source alone: changes of the log", source, reached, changes, CHANGES_GOAL)
    measured("updates through the log", changes, LOG_GOAL, lambda: run(spec, tasks=2))


def read_alone(what: str, source: ChangeSource, start: Offsets, rows: int, goal: float) -> None:
    """Read what follows an offset into columns, and no further."""
    until, found, cpu = source.available(), 0, time.process_time()
    while (end := source.latest_offsets(start, NO_LIMIT, until)) != start:
        for range_ in source.plan(start, end, 1):
            found += sum(chunk.messages for chunk in source.chunks(range_, DecodeOptions(before_images="key-changes")))
        start = end
    speed = found / (time.process_time() - cpu)
    if found < rows:
        raise SystemExit(f"{what}: {found:,} were read, and there are {rows:,}")
    print(f"{what:<34} {found:>9,} rows  {speed:,.0f} rows per CPU-s")
    record(Figure(what, speed, "rows/CPU-s", goal=goal))


def update(server: PgPlayground, rows: int, changes: int, table: str = "orders") -> None:
    """Update rows in transactions of 500."""
    server.run(
        f"DO $$ BEGIN FOR place IN 0..{changes - 1} BY 500 LOOP "
        f"UPDATE {table} SET status = status + 1, price = price + 1, version = version + 1 "
        f"WHERE id >= place % {rows} AND id < place % {rows} + 500; COMMIT; END LOOP; END $$"
    )


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(numbers[0] if numbers else 200_000, numbers[1] if len(numbers) > 1 else 100_000)
