"""The Spark catalog: a question about a table, and MERGE of 100,000 rows into 1,000,000 beside the same join by hand.

python -m benchmarks.spark_catalog [ROWS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

import penstock
from benchmarks.figures import Figure, record
from penstock.pipelines.spark.session import open_session
from penstock.table.handle import Table

TURNS = 7  # of each way; the first one also starts Spark's Python workers
COLUMNS = [("id", "BIGINT NOT NULL"), ("status", "STRING"), ("city", "STRING"), ("n", "INT")]
MERGE = """MERGE INTO lake.shop.{} t USING changes s ON t.id = s.id
    WHEN MATCHED AND s.gone THEN DELETE
    WHEN MATCHED THEN UPDATE SET city = s.city, n = t.n + 1
    WHEN NOT MATCHED THEN INSERT (id, status, city, n) VALUES (s.id, 'inserted', s.city, 0)"""


def filled(catalog: penstock.Catalog, name: str, rows: int) -> Table:
    table = catalog.create_table(f"shop.{name}", COLUMNS, ["id"], options={"bucket": "4"})
    with table.writer() as writer:
        for ids in np.array_split(np.arange(rows), max(1, rows // 100_000)):
            cities = [f"city {number % 337}" for number in ids]
            n = pa.array(ids % 7, pa.int32())
            writer.write(pa.table({"id": ids, "status": ["new"] * len(ids), "city": cities, "n": n}))
        writer.commit()
    return table


def by_hand(spark: SparkSession, table: Table) -> None:
    target = spark.read.format("penstock").load(table.path).alias("t")
    joined = spark.table("changes").alias("s").join(target, expr("t.id = s.id"), "left")
    changed = joined.selectExpr(
        "CASE WHEN t.id IS NULL THEN '+I' WHEN s.gone THEN '-D' ELSE '+U' END rowkind",
        "s.id",
        "if(t.id IS NULL, 'inserted', t.status) status",
        "if(t.id IS NOT NULL AND s.gone, t.city, s.city) city",
        "CASE WHEN t.id IS NULL THEN 0 WHEN s.gone THEN t.n ELSE t.n + 1 END n",
    )
    changed.write.format("penstock").option("rowkind", "true").mode("append").save(table.path)


def took(run: object) -> float:
    start = time.perf_counter()
    run()  # type: ignore[operator]
    return time.perf_counter() - start


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session("benchmark", master="local[2]", settings={"spark.driver.memory": "2g"})
        print(f"register {took(lambda: penstock.register(spark, catalog='lake', warehouse=folder)):.2f} s")
        catalog = penstock.Catalog(folder)
        catalog.create_database("shop")
        names = [f"t{number}" for number in range(2 * TURNS)]
        tables = {name: filled(catalog, name, rows) for name in names}
        half = rows // 20
        changes = spark.range(rows - half, rows + half)
        changes.selectExpr("id", "concat('c', id) city", "id % 3 = 0 gone").createOrReplaceTempView("changes")
        spark.sql("SELECT count(*) FROM lake.shop.t0").collect()
        times = {"by hand": [], "catalog": []}
        for place, name in enumerate(names):
            if place % 2:
                times["catalog"].append(took(lambda name=name: spark.sql(MERGE.format(name)).collect()))
            else:
                times["by hand"].append(took(lambda name=name: by_hand(spark, tables[name])))
        what = f"MERGE of {rows // 10:,} rows into {rows:,} by the catalog, warm"
        merges = median(times["catalog"][1:]), median(times["by hand"][1:])
        goal = 1 / 1.2
        record(Figure(what, merges[0], "s", merges[1], "the join by hand", goal, goal_of_ratio=True, less=True))
        for way, found in times.items():
            print(f"MERGE {way}: {', '.join(f'{seconds:.2f}' for seconds in found)} s")
        counts = {table.refresh().count() for table in tables.values()}
        assert len(counts) == 1, counts
        asked = [took(lambda: spark.sql("DESCRIBE lake.shop.t0").collect()) for _ in range(30)]
        print(f"DESCRIBE: median {median(asked) * 1000:.0f} ms, fastest {min(asked) * 1000:.0f} ms")
        record(Figure("`DESCRIBE`, one question, warm", median(asked) * 1000, "ms", less=True))
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
