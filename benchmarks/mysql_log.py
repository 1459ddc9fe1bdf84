"""Reading MySQL's binlog beside the library mysql-replication: CPU seconds of the reading process, in turns.

    python -m benchmarks.mysql_log [changes]

An orders table of 20 columns is updated, and the log of the updates is read from the server whole: here to Arrow
columns, there to dictionaries of Python, both with the row before and after each change. mysql-replication is installed
from PyPI into an environment of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pymysql

from benchmarks.figures import Figure, record
from benchmarks.mysql import COLUMNS, fill, update
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.binlog.range_cutter import BinlogRange
from penstock.ingest.mysql.binlog.server_positions import latest
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.read_range import read_range
from penstock.ingest.mysql.server.address import Secret, ServerAddress, Tls
from penstock.ingest.mysql.server.connection import connected, server_facts
from tests.interop.peer_process import prepared_environment
from tests.servers.launch import running

ROUNDS = 3
HERE = Path(__file__).parent
REQUIREMENTS = HERE / "peers" / "mysql_replication.txt"


def main(changes: int) -> None:
    pa.set_cpu_count(1)
    python = prepared_environment("mysql-replication", REQUIREMENTS)
    with tempfile.TemporaryDirectory() as folder, running("mysql", Path(folder) / "server") as port:
        address = ServerAddress("127.0.0.1", port, "cdc", Secret("cdc"), Tls("disabled", public_key_retrieval=True))
        cursor = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True).cursor()
        cursor.execute("CREATE DATABASE shop")
        cursor.execute(f"CREATE TABLE shop.orders ({COLUMNS})")
        rows = min(changes, 100_000)
        fill(cursor, rows)
        cursor.execute("FLUSH BINARY LOGS")
        start = newest(address)
        update(cursor, rows, changes)
        end = newest(address)
        best_ours, best_theirs = 0.0, 0.0
        for _ in range(ROUNDS):
            best_ours = max(best_ours, changes / ours(address, start, end, changes))
            best_theirs = max(best_theirs, changes / theirs(python, port, start, changes))
    print(f"{best_ours:,.0f} changes/CPU-s, mysql-replication {best_theirs:,.0f}: {best_ours / best_theirs:.1f} times")
    what = f"{changes:,} updates of 20 columns from the binlog"
    record(Figure(what, best_ours, "changes/CPU-s", best_theirs, "mysql-replication"))


def newest(address: ServerAddress) -> LogPosition:
    with connected(address) as connection:
        return latest(connection, server_facts(connection))


def ours(address: ServerAddress, start: LogPosition, end: LogPosition, changes: int) -> float:
    cpu, found = time.process_time(), 0
    for batch in read_range(address, BinlogRange(start.file, start.pos, end.pos), BinlogOptions(), 6001):
        found += len(batch)
    # An update is two rows: before and after.
    assert found == 2 * changes, found
    return time.process_time() - cpu


def theirs(python: Path, port: int, start: LogPosition, changes: int) -> float:
    words = [python, HERE / "peer_mysql_replication.py", str(port), start.file, str(start.pos)]
    answer = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert answer["changes"] == changes, answer
    return float(answer["cpu"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
