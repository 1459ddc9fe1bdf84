"""A Spark query of a user over a source of changes, as a process that can be killed.

    python -m tests.chaos.stream_child KIND OPTIONS(JSON) MASTER SETTINGS(JSON) FOLDER

It reads what is there and ends. Each batch is a file, which a repeated batch replaces: `FOLDER/batches/NUMBER-ATTEMPT`
keeps each time that it was read.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame

import penstock
from penstock.pipelines.spark.session import open_session


def main(kind: str, options: str, master: str, settings: str, folder: str) -> None:
    spark = open_session("stream", master=master, settings=json.loads(settings))
    penstock.register(spark)
    batches = Path(folder) / "batches"
    batches.mkdir(exist_ok=True)

    def take(batch: DataFrame, number: int) -> None:
        rows = [row.asDict(recursive=True) for row in batch.collect()]
        name = f"{number:05d}-{time.time_ns()}"
        (batches / f".{name}").write_text(json.dumps(rows, default=str))
        (batches / f".{name}").rename(batches / name)

    stream = spark.readStream.format(f"{kind}-cdc").options(**json.loads(options)).load()
    writer = stream.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{folder}/checkpoint")
    writer.foreachBatch(take).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
