"""UPDATE and MERGE of SQL without Spark on a table without a key: CPU seconds for 1,000,000 rows in 4 partitions.

python -m benchmarks.keyless_changes [ROWS]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

import penstock
from benchmarks.figures import Figure, record
from penstock.table.sql.interpreter import Interpreter

FORMS = {"false": "rewritten files", "true": "deletion vectors"}
STATEMENTS = {
    "UPDATE of 1 row": "UPDATE t SET v = 'x' WHERE id = 77",
    "UPDATE of a tenth of the rows": "UPDATE t SET a = a + 1 WHERE id % 10 = 0",
    "MERGE of a tenth as many rows": """MERGE INTO t USING (SELECT range * 10 AS id FROM range({rows} // 10)) s
        ON t.id = s.id WHEN MATCHED AND s.id < {rows} // 2 THEN UPDATE SET v = 'merged' WHEN MATCHED THEN DELETE""",
}


def cpu_seconds() -> float:
    """Return the CPU time of this process."""
    used = os.times()
    return used.user + used.system


def measure(folder: str, rows: int, vectors: str) -> None:
    with Interpreter(penstock.Catalog(folder, {"local.sync": "false"})) as interpreter:
        list(
            interpreter.run(
                f"""CREATE DATABASE d; USE d;
                CREATE TABLE t (id BIGINT, v STRING, a DECIMAL(10, 2), p INT) PARTITIONED BY (p)
                    WITH ('bucket' = '-1', 'deletion-vectors.enabled' = '{vectors}');
                INSERT INTO t SELECT range, 'value ' || range, range % 1000, range % 4 FROM range({rows})"""
            )
        )
        for name, statement in STATEMENTS.items():
            cpu, begin = cpu_seconds(), time.perf_counter()
            list(interpreter.run(statement.format(rows=rows)))
            wall = time.perf_counter() - begin
            used = cpu_seconds() - cpu
            work = f"{name}, {FORMS[vectors]}"
            print(f"{work}: {used:.2f} CPU-s, {wall:.1f} s", flush=True)
            record(Figure(work, used, "CPU-s", less=True))


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for vectors in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            measure(folder, rows, vectors)


if __name__ == "__main__":
    main()
