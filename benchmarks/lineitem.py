"""A full load of TPC-H's lineitem from MySQL: `python -m benchmarks.lineitem [scale factor] [turns]`.

The method is that of galaxy-io/benchmarks (data-movement): the rows of dbgen are loaded before, the time runs from the
start of the process until it has ended, each turn fills a new table, the numbers of rows are compared, and the median
counts. Its databases are other machines; here the server shares the cores with the job, so wall times are longer.
The table has two key columns and all of its rows are read: 6,001,215 with scale factor 1.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pymysql

import penstock
from benchmarks.figures import Figure, record
from benchmarks.mysql import PLAIN
from benchmarks.processes import Cost, cost_of
from tests.interop.peer_process import prepared_environment
from tests.servers.launch import running

HERE = Path(__file__).parent
# The types that the specification of TPC-H names.
COLUMNS = (
    "l_orderkey INT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity DECIMAL(15, 2),"
    " l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2), l_tax DECIMAL(15, 2), l_returnflag CHAR(1),"
    " l_linestatus CHAR(1), l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct CHAR(25),"
    " l_shipmode CHAR(10), l_comment VARCHAR(44), PRIMARY KEY (l_orderkey, l_linenumber)"
)


def main(scale: float, turns: int) -> None:
    python = prepared_environment("tpch", HERE / "peers" / "tpch.txt")
    with tempfile.TemporaryDirectory() as folder, running("mysql", Path(folder) / "server") as port:
        file = Path(folder) / "lineitem.csv"
        subprocess.run([python, HERE / "tpch_rows.py", str(scale), file], check=True)
        rows = load(port, file)
        file.unlink()
        costs = [turn(port, rows, Path(tempfile.mkdtemp(dir=folder))) for _ in range(turns)]
    what = f"TPC-H lineitem, scale factor {scale:g}, {rows:,} rows, median of {turns}"
    figures: tuple[tuple[str, str, Callable[[Cost], float]], ...] = (
        ("wall", "s", lambda cost: cost.wall),
        ("CPU of the job", "us a row", lambda cost: cost.cpu / rows * 1e6),
        ("peak memory", "GiB", lambda cost: cost.peak / 2**30),
    )
    for name, unit, of in figures:
        record(Figure(f"{what}: {name}", statistics.median(map(of, costs)), unit, less=True))


def load(port: int, file: Path) -> int:
    """Fill the table of the server, and return how many rows it has."""
    connection = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True, local_infile=True)
    with connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL local_infile = 1")
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("CREATE DATABASE tpch")
        cursor.execute(f"CREATE TABLE tpch.lineitem ({COLUMNS})")
        fields = "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''"
        cursor.execute(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE tpch.lineitem {fields}")
        cursor.execute("ANALYZE TABLE tpch.lineitem")
        cursor.execute("SELECT count(*) FROM tpch.lineitem")
        return int(cursor.fetchall()[0][0])


def turn(port: int, rows: int, home: Path) -> Cost:
    """Load the table once into a new warehouse."""
    words = ["--warehouse", str(home), "--database", "ods", "--table", "lineitem", "--until-caught-up"]
    conf = ("hostname=127.0.0.1", f"port={port}", "username=cdc", "password=cdc", *PLAIN)
    for item in (*conf, "database-name=tpch", "table-name=lineitem"):
        words += ["--mysql-conf", item]
    for item in ("bucket=4", "write-only=true"):
        words += ["--table-conf", item]
    action = [sys.executable, "-m", "penstock.pipelines.commands.main", "mysql-sync-table", *words]
    cost = cost_of([*action, "--master", "local[2,4]"], home / "log")
    found = penstock.open_table(f"{home}/ods.db/lineitem").scan(columns=["l_orderkey"]).to_arrow().num_rows
    if found != rows:
        raise SystemExit(f"the table has {found:,} rows, and the server {rows:,}")
    print(
        f"{rows:,} rows: {cost}, {cost.cpu / rows * 1e6:.2f} us of CPU a row, {rows / cost.wall:,.0f} rows/s",
        flush=True,
    )
    return cost


if __name__ == "__main__":
    numbers = sys.argv[1:]
    main(float(numbers[0]) if numbers else 1.0, int(numbers[1]) if len(numbers) > 1 else 3)
