"""A snapshot of a part of a table beside the whole table, CPU seconds: `python -m benchmarks.demand [rows]`.

The table has 21 columns. A transform lists 2 of them, or passes 1 % of the rows, or both; the whole table is written
beside. Then the pipeline of the whole table copies 1 % of the rows again, and all of them (`penstock signal`).
Planning, reading, routing, writing and committing are measured, all in this one process. The bytes are those that
MySQL counted as sent.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pymysql

from benchmarks import mysql, postgres
from benchmarks.figures import Figure, record
from penstock.pipelines.config import yaml_file
from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from tests.here import run
from tests.integration.postgres.sync import PgPlayground
from tests.servers.launch import running

PARTS = {
    "all": "",
    "2 of 21 columns": 'projection: "id, price"',
    "1 % of the rows": 'filter: "user_id < 500"',
    "2 of 21 columns, 1 % of the rows": 'projection: "id, price", filter: "user_id < 500"',
}
FILE = """
pipeline: {{name: {name}}}
source: {{{source}, port: {port}, hostname: 127.0.0.1, username: cdc, password: cdc}}
{transform}
sink: {{catalog: {{warehouse: "{folder}/{name}"}}, database: ods, table-options: {{bucket: 4, write-only: "true"}}}}
"""
MYSQL = "type: mysql, tables: [shop.orders], ssl: {{mode: disabled, allow-public-key-retrieval: true}}"
POSTGRES = "type: postgres, tables: [public.orders], database-name: play, slot.name: {name}"


def main(rows: int) -> None:
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server of PostgreSQL may run as a user of its own
        with running("mysql", folder / "mysql") as port:
            cursor = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True).cursor()
            cursor.execute("CREATE DATABASE shop")
            cursor.execute(f"CREATE TABLE shop.orders ({mysql.COLUMNS})")
            mysql.fill(cursor, rows)
            cursor.execute("ALTER TABLE shop.orders ADD COLUMN remark VARCHAR(40) DEFAULT 'none'")

            def sent() -> int:
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")
                return int(cursor.fetchall()[0][1])

            measure("MySQL", "shop", MYSQL, folder, port, rows, sent)
        with running("postgres", folder / "postgres") as port:
            server = PgPlayground(port)
            server.start_over()
            server.create("orders", postgres.COLUMNS + ", remark varchar(40) DEFAULT 'none'")
            server.run(f"INSERT INTO orders SELECT {postgres.ROW} FROM generate_series(0, {rows - 1}) n")
            measure("PostgreSQL", "public", POSTGRES, folder, port, rows, None)


def measure(
    server: str, database: str, source: str, folder: Path, port: int, rows: int, sent: Callable[[], int] | None
) -> None:
    """Run a pipeline for each part of the table; a first run that is not measured loads modules."""
    whole = 0.0
    for number, part in enumerate([next(reversed(PARTS)), *PARTS]):
        name, rules = f"{server.lower()}_{number}", PARTS[part]
        transform = f"transform: [{{source-table: {database}.orders, {rules}}}]" if rules else ""
        path = folder / f"{name}.yaml"
        text = FILE.format(source=source.format(name=name), name=name, port=port, transform=transform, folder=folder)
        path.write_text(text)
        before, bytes_before = cpu_seconds(), sent() if sent else 0
        run(yaml_file.load(path), tasks=2)
        spent = cpu_seconds() - before
        if not number:
            continue
        moved = f", {(sent() - bytes_before) / 1e6:.1f} MB sent" if sent else ""
        print(f"{server}, {rows:,} rows, {part}: {spent:.2f} CPU-s{moved}")
        record(Figure(f"{server}, {rows:,} rows, {part}{moved}", spent, "CPU-s", whole or None, "all", less=True))
        whole = whole or spent
    copied_again(server, f"{database}.orders", folder / f"{server.lower()}_1.yaml", rows)


def copied_again(server: str, table: str, path: Path, rows: int) -> None:
    """Copy 1 % of the rows again, and then all rows, in the pipeline of the whole table."""
    spec, times = yaml_file.load(path), []
    for number, where in enumerate(["user_id < 500", ""]):
        CheckpointFolder(spec.checkpoint).signal(f"{SNAPSHOT_REQUEST}{number}.json", (table,), where)
        before = cpu_seconds()
        run(spec, tasks=2)
        times.append(cpu_seconds() - before)
    part, whole = times
    print(f"{server}, {rows:,} rows, copied again: 1 % {part:.2f} CPU-s, all {whole:.2f} CPU-s")
    text = f"{server}, {rows:,} rows, 1 % of the rows copied again by a signal"
    record(Figure(text, part, "CPU-s", whole, "all copied again", less=True))


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000)
