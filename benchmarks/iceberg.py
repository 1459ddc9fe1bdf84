"""The cost of Iceberg metadata: CPU of commits with and without it, side by side.

`python -m benchmarks.iceberg [COMMITS]`: two tables of each kind, of which one has metadata, take the same commits of
1,000 rows in turn. The times are CPU of this process for a commit, the median of a fifth of them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

import penstock
from benchmarks.figures import Figure, record
from penstock.table.operations.write import TableWriter

ROWS = 1000
KINDS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "append": ((), {"bucket": "-1"}),
    "keys, one bucket": (("id",), {"bucket": "1"}),
    "keys, deletion vectors": (
        ("id",),
        {
            "bucket": "1",
            "deletion-vectors.enabled": "true",
            "deletion-vectors.bitmap64": "true",
            "metadata.iceberg.format-version": "3",
        },
    ),
}


def rows(number: int) -> pa.Table:
    first = number * ROWS // 2
    ids = pa.array(range(first, first + ROWS), pa.int64())
    return pa.table(
        {"id": ids, "name": pa.array([f"n{number}" for number in range(ROWS)]), "amount": pa.array([0.5] * ROWS)}
    )


def cost(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def commit(writer: TableWriter, number: int) -> None:
    writer.write(rows(number))
    writer.commit(number + 1)


def measure(folder: Path, kind: str, commits: int) -> None:
    keys, options = KINDS[kind]
    catalog = penstock.Catalog(str(folder), {"local.sync": "false"})
    catalog.create_database("shop")
    columns = [("id", "BIGINT"), ("name", "STRING"), ("amount", "DOUBLE")]
    writers = {}
    for name, storage in (("without", "disabled"), ("with", "table-location")):
        given = {**options, "metadata.iceberg.storage": storage}
        table = catalog.create_table(f"shop.{name}", columns, primary_keys=keys, options=given)
        writers[name] = table.writer("bench")
    spent: dict[str, list[float]] = {name: [] for name in writers}
    for number in range(commits):
        for name in sorted(writers, reverse=number % 2 == 0):
            spent[name].append(cost(partial(commit, writers[name], number)))
    for label, part in (("first", slice(5, 5 + commits // 5)), ("last", slice(-commits // 5, None))):
        plain, more = (sorted(spent[name][part]) for name in ("without", "with"))
        middle = len(plain) // 2
        ratio = more[middle] / plain[middle]
        times = f"{plain[middle] * 1000:.1f} ms without, {more[middle] * 1000:.1f} ms with: {ratio:.2f}"
        print(f"{kind}, {label} fifth: {times}")
        what, beside = f"{kind}, {label} fifth of the commits", "without metadata"
        record(Figure(what, more[middle] * 1000, "CPU-ms", plain[middle] * 1000, beside, less=True))


def main() -> None:
    commits = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), kind, commits)


if __name__ == "__main__":
    main()
