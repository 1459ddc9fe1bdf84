"""`penstock warm`: let Spark start faster from now on, by an archive of the classes its JVM loads."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from penstock.pipelines.commands.arguments import parse
from penstock.pipelines.commands.printing import answer
from penstock.pipelines.commands.target import JSON


def command(name: str, words: list[str]) -> int:
    given = parse(
        name, (JSON,), words, "Make Spark start faster: keep an archive of the classes it loads (about 150 MB)."
    )
    from penstock.pipelines.run.class_archive import archive_path, make_flags
    from penstock.pipelines.run.session import JVM_FLAGS, LOG_FLAG, open_session, prepare_environment

    prepare_environment()
    target = archive_path()
    half = target.with_suffix(f".{time.time_ns()}")
    session = open_session(
        name, cores=1, settings={"spark.driver.extraJavaOptions": f"{JVM_FLAGS} {LOG_FLAG} {make_flags(half)}"}
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
        writer = stream.writeStream.option("checkpointLocation", checkpoint).trigger(once=True)
        writer.foreachBatch(lambda rows, number: rows.mapInArrow(lambda batches: batches, rows.schema).toArrow())
        writer.start().awaitTermination()
    process = session.sparkContext._gateway.proc
    session.stop()
    process.stdin.close()
    process.wait()
    Path(half).replace(target)
    size = target.stat().st_size
    return answer(given, {"archive": str(target), "bytes": size}, f"{target}  {size >> 20} MB")
