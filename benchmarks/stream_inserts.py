"""INSERT INTO ... SELECT over a changelog stream: rows per CPU second, with and without a projection.

    python -m benchmarks.stream_inserts [ROWS]

The source has a key, 20 further columns and a changelog; each snapshot has 50,000 rows. Jobs that name two columns and
jobs that read whole rows write the same rows to tables with a key that are compacted elsewhere. Rounds alternate, so
that other load on the machine meets both; the first round is left out.
"""

from __future__ import annotations

import sys
import tempfile
import time

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.figures import Figure, record
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.session_options import STREAMING

ROUNDS = 3
BATCH = 50_000
COLUMNS = 20
QUERIES = {
    "two of 21 columns, which the query names": "SELECT id, c0 FROM s {start}",
    "the same rows from whole rows: a `*` in brackets": "SELECT id, c0 FROM (SELECT * FROM s {start}) q",
    "all columns": "SELECT * FROM s {start}",
}


def source(catalog: Catalog, rows: int) -> None:
    columns = [("id", "BIGINT NOT NULL"), *((f"c{number}", "STRING") for number in range(COLUMNS))]
    options = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
    table = catalog.create_table("d.s", columns, primary_keys=["id"], options=options)
    for begin in range(0, rows, BATCH):
        ids = np.arange(begin, min(begin + BATCH, rows))
        texts = {f"c{number}": pa.array(np.char.add("text ", (ids * (number + 7)).astype(str))) for number in range(20)}
        with table.writer() as writer:
            writer.write(pa.table({"id": ids, **texts}))
            writer.commit()


def insert(query: str, number: int) -> str:
    target = f"t_{number}"
    columns = ", ".join(f"c{column} STRING" for column in range(COLUMNS if query.startswith("SELECT *") else 1))
    begin = query.format(start="/*+ OPTIONS('scan.snapshot-id' = '1') */")
    return (
        f"CREATE TABLE {target} (id BIGINT, {columns}, PRIMARY KEY (id) NOT ENFORCED) "
        f"WITH ('bucket' = '1', 'write-only' = 'true'); {STREAMING}; INSERT INTO {target} {begin}"
    )


def main() -> None:
    pa.set_cpu_count(1)
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    with tempfile.TemporaryDirectory() as folder:
        catalog = penstock.Catalog(folder, {"local.sync": "false"})
        catalog.create_database("d")
        source(catalog, rows)
        spent = dict.fromkeys(QUERIES, 0.0)
        for number in range(ROUNDS + 1):
            for place, (name, query) in enumerate(QUERIES.items()):
                began = time.process_time()
                with Interpreter(catalog, "d", until_caught_up=True) as interpreter:
                    *_, result = interpreter.run(insert(query, number * len(QUERIES) + place))
                assert result.column("written").to_pylist() == [rows]
                spent[name] += (time.process_time() - began) if number else 0.0
        for name, seconds in spent.items():
            speed = ROUNDS * rows / seconds / 1e6
            print(f"{name}: {speed:.2f} M rows/CPU-s")
            record(Figure(name, speed, "M rows/CPU-s"))


if __name__ == "__main__":
    main()
