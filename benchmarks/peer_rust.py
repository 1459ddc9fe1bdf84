"""Runs in an environment with pypaimon-rust: the queries of queries.py, their CPU seconds as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median

from pypaimon_rust.datafusion import PaimonCatalog, SQLContext


def cpu(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def main(path, rows, queries):
    warehouse = str(Path(path).parents[1])
    keys = [place * (rows // queries) + 7 for place in range(queries)]
    context = SQLContext()
    context.register_catalog("lake", {"warehouse": warehouse})
    context.set_current_catalog("lake")
    context.set_current_database("shop")
    for key in keys[:3]:
        assert sum(batch.num_rows for batch in context.sql(f"SELECT * FROM t WHERE id = {key}")) == 1
    found = {
        "point, SQL": median(cpu(lambda key=key: context.sql(f"SELECT * FROM t WHERE id = {key}")) for key in keys)
    }
    found["sum, SQL"] = median(cpu(lambda: context.sql("SELECT sum(c1) FROM t")) for _ in range(5))
    builder = PaimonCatalog({"warehouse": warehouse}).get_table("shop.t").new_read_builder()

    def scan():
        batches = builder.new_read().read_arrow(builder.new_scan().plan().splits())
        assert sum(batch.num_rows for batch in batches) == rows

    found["scan"] = median(cpu(scan) for _ in range(5))
    print(json.dumps(found))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
