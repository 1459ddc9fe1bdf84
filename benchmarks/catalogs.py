"""The cost of a catalog beside folders: `python -m benchmarks.catalogs [repetitions]`.

Each kind opens a table, lists, and commits one row to an append table on the local disk. The REST server is that of the
tests, in a thread of the same process, so its own work is in the times; its requests are counted. MySQL, PostgreSQL and
the metastore of Hive 2.3 are processes of this machine. In the metastore, a table with partitions is written too: with
rows of a known partition, and once with those of 100 new ones.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pymysql

import penstock
from benchmarks.figures import Figure, record
from penstock.table.handle import Table
from tests.integration.hive.conftest import metastore_of
from tests.rest_server import RestCatalogServer, running
from tests.servers import launch

ROW = pa.table({"id": pa.array([1], pa.int32())})
PARTED = pa.table({"id": pa.array([1], pa.int32()), "dt": ["a"]})
MANY = 100


def millis(act: Callable[[], object], repetitions: int) -> float:
    """Return the median time of an action."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        act()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def measure(
    kind: str, warehouse: str, options: dict[str, str], repetitions: int, server: RestCatalogServer | None
) -> None:
    catalog = penstock.Catalog(warehouse, {"local.sync": "false", **options})
    catalog.create_database("shop")
    table = catalog.create_table("shop.events", [("id", "INT")], options={"bucket": "-1"})

    def commit() -> None:
        with table.writer() as writer:
            writer.write(ROW)
            writer.commit()

    for what, act in (
        ("table opened", lambda: catalog.table("shop.events")),
        ("tables listed", lambda: catalog.tables("shop")),
        ("commit of one row", commit),
    ):
        act()
        before = len(server.requests) if server else 0
        took = millis(act, repetitions)
        asked = f"{(len(server.requests) - before) / repetitions:.1f} requests" if server else ""
        print(f"{kind:<22}{what:<20}{took:8.1f} ms   {asked}")
        goal = None if what.startswith("commit") else 100.0
        record(Figure(f"{kind}: {what}" + f", {asked}" * bool(asked), took, "ms", goal=goal, less=True))


def measure_partitions(place: str, options: dict[str, str], repetitions: int) -> None:
    """Commit to two equal tables in turns, one of them with its partitions in the metastore."""
    catalog = penstock.Catalog(f"{place}/hive", {"local.sync": "false", **options})
    columns, tables = [("id", "INT"), ("dt", "STRING")], []
    for synced in ("false", "true"):
        made = {"bucket": "-1", "metastore.partitioned-table": synced}
        tables.append(catalog.create_table(f"shop.parted_{synced}", columns, (), ["dt"], made))

    def took(table: Table, rows: pa.Table) -> float:
        start = time.perf_counter()
        with table.writer() as writer:
            writer.write(rows)
            writer.commit()
        return (time.perf_counter() - start) * 1000

    times = [[took(table, PARTED) for table in tables] for _ in range(repetitions + 1)][1:]
    added = statistics.median(synced - plain for plain, synced in times)
    record(
        Figure("hive: added to a commit by partitions in the metastore, none new", added, "ms", goal=50.0, less=True)
    )
    days = pa.table({"id": pa.array([1] * MANY, pa.int32()), "dt": [f"day {number}" for number in range(MANY)]})
    plain, synced = (took(table, days) for table in tables)
    print(f"hive        partitions: {added:.1f} ms, {MANY} new ones {synced - plain:.0f} ms beside {plain:.0f} ms")
    record(Figure(f"hive: added by {MANY} new partitions, in one request", synced - plain, "ms", less=True))


def measure_servers(place: str, repetitions: int) -> None:
    jdbc = {"metastore": "jdbc", "lock.enabled": "true"}
    with launch.running("mysql", Path(place) / "mysql") as port:
        with pymysql.connect(host="127.0.0.1", port=port, user="root") as own, own.cursor() as cursor:
            cursor.execute("CREATE DATABASE names")
            cursor.execute("CREATE USER lake@'%' IDENTIFIED BY 'secret'")
            cursor.execute("GRANT ALL ON names.* TO lake@'%'")
        server = {"uri": f"jdbc:mysql://127.0.0.1:{port}/names", "jdbc.user": "lake", "jdbc.password": "secret"}
        measure("mysql, with locks", f"{place}/in_mysql", {**jdbc, **server}, repetitions, None)
    # The server runs as a user of its own, which may not enter the folder of this run.
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with launch.running("postgres", Path(folder)) as port:
            login = {"host": "127.0.0.1", "port": port, "user": "postgres", "dbname": "postgres"}
            with psycopg.connect(**login, autocommit=True) as own:
                own.execute("CREATE DATABASE names")
            server = {"uri": f"jdbc:postgresql://127.0.0.1:{port}/names", "jdbc.user": "postgres"}
            measure("postgres, with locks", f"{place}/in_postgres", {**jdbc, **server}, repetitions, None)
    Path(place, "metastore").mkdir()
    with metastore_of("2.3", Path(place) / "metastore") as address:
        options = {"metastore": "hive", "uri": address}
        measure("hive", f"{place}/hive", options, repetitions, None)
        measure_partitions(place, options, repetitions)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as place, running(Path(place) / "files") as (server, options):
        measure("filesystem", f"{place}/lake", {}, repetitions, None)
        measure(
            "jdbc", f"{place}/named", {"metastore": "jdbc", "uri": f"jdbc:sqlite:{place}/names.db"}, repetitions, None
        )
        measure("rest", "lake", options, repetitions, server)
        measure_servers(place, repetitions)


if __name__ == "__main__":
    main()
