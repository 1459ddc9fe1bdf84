"""`penstock warm`: let Spark start faster from now on, by an archive of the classes its JVM loads."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from penstock.pipelines.commands.arguments import parse
from penstock.pipelines.commands.demo import put, spec_of
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.target import JSON


def command(name: str, words: list[str]) -> int:
    flags = parse(
        name, (JSON,), words, "Make Spark start faster by archiving the classes that it loads (about 150 MB)."
    )
    from penstock.pipelines.spark.versions import check_version

    check_version()  # before modules that import PySpark, which fail in versions before 4.0
    from penstock.pipelines.job.build import job
    from penstock.pipelines.job.job_run import JobRun
    from penstock.pipelines.spark.quick_start import archive_path, make_flags, use_lean_home
    from penstock.pipelines.spark.session import open_session
    from penstock.pipelines.spark.session_settings import JVM_FLAGS, LOG_FLAG, prepare_environment

    prepare_environment()
    use_lean_home()
    target = archive_path()
    half = target.with_suffix(f".{time.time_ns()}")
    session = open_session(
        name, cores=1, settings={"spark.driver.extraJavaOptions": f"{JVM_FLAGS} {LOG_FLAG} {make_flags(half)}"}
    )
    # The job of the demo, which alters a table in the middle of a batch, loads the classes of a real job.
    with tempfile.TemporaryDirectory() as folder:
        for part in ("morning", "afternoon"):
            put(Path(folder), part)
            JobRun(job(spec_of(Path(folder), "always")), session).run()
    # The JVM writes the archive when it ends, and it ends when its standard input is closed.
    process = session.sparkContext._gateway.proc
    session.stop()
    process.stdin.close()
    process.wait()
    Path(half).replace(target)
    size = target.stat().st_size
    return answer(flags, {"archive": str(target), "bytes": size}, f"{target}  {size >> 20} MB")
