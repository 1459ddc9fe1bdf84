"""Lookup joins in streaming SQL: the CPU time that each dimension adds to a fact.

    python -m benchmarks.lookup_joins [FACTS] [ROWS]

Jobs without a dimension, with one and with three write the same facts, 50,000 in each snapshot, to a table without a
key. Rounds alternate, so that other load on the machine meets all of them; the first round, which writes local files,
is left out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.lookups import dimension_table
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.session_options import STREAMING

ROUNDS = 3
BATCH = 50_000
KEYS = ("a", "b", "c")


def facts_table(catalog: Catalog, facts: int, rows: int) -> None:
    columns = [("id", "BIGINT"), *((key, "BIGINT") for key in KEYS)]
    table = catalog.create_table("d.facts", columns)
    chance = np.random.default_rng(7)
    for begin in range(0, facts, BATCH):
        ids = np.arange(begin, min(begin + BATCH, facts))
        keys = {key: chance.integers(0, rows, len(ids)) * 2 for key in KEYS}
        with table.writer() as writer:
            writer.write(pa.table({"id": ids, **keys}))
            writer.commit()


def insert(dimensions: int, number: int) -> str:
    used = KEYS[:dimensions]
    columns = ["o.id", *(f"{key}.c0" for key in used), *(["'text'"] * (len(KEYS) - dimensions))]
    joins = [f"LEFT JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS {key} ON o.{key} = {key}.id" for key in used]
    target = f"t_{dimensions}_{number}"
    source = "facts /*+ OPTIONS('scan.snapshot-id' = '1') */ AS o"
    return (
        f"CREATE TABLE {target} (id BIGINT, a STRING, b STRING, c STRING);"
        f"{STREAMING}; INSERT INTO {target} SELECT {', '.join(columns)} FROM {source} {' '.join(joins)}"
    )


def main() -> None:
    pa.set_cpu_count(1)
    facts = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dimension_table(folder, rows)
        catalog = penstock.Catalog(str(folder / "warehouse"))
        facts_table(catalog, facts, rows)
        spent = dict.fromkeys((0, 1, 3), 0.0)
        for number in range(ROUNDS + 1):
            for dimensions in spent:
                began = time.process_time()
                with Interpreter(catalog, "d", until_caught_up=True) as interpreter:
                    *_, result = interpreter.run(insert(dimensions, number))
                assert result.column("written").to_pylist() == [facts]
                spent[dimensions] += (time.process_time() - began) if number else 0.0
        for dimensions, seconds in spent.items():
            micros = seconds / ROUNDS / facts * 1e6
            added = (seconds - spent[0]) / ROUNDS / facts * 1e6
            print(f"{dimensions} dimensions: {micros:.2f} CPU-us a fact, {added:.2f} of them for lookups")


if __name__ == "__main__":
    main()
