"""The cost of a catalog beside folders: `python -m benchmarks.catalogs [repetitions]`.

Each kind opens a table, lists, and commits one row to an append table on the local disk. The REST server is that of the
tests, in a thread of the same process, so its own work is in the times; its requests are counted.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import penstock
from benchmarks.figures import Figure, record
from tests.rest_server import RestCatalogServer, running

ROW = pa.table({"id": pa.array([1], pa.int32())})


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
        print(f"{kind:<12}{what:<20}{took:8.1f} ms   {asked}")
        goal = None if what.startswith("commit") else 100.0
        record(Figure(f"{kind}: {what}" + f", {asked}" * bool(asked), took, "ms", goal=goal, less=True))


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as place, running(Path(place) / "files") as (server, options):
        measure("filesystem", f"{place}/lake", {}, repetitions, None)
        measure(
            "jdbc", f"{place}/named", {"metastore": "jdbc", "uri": f"jdbc:sqlite:{place}/names.db"}, repetitions, None
        )
        measure("rest", "lake", options, repetitions, server)


if __name__ == "__main__":
    main()
