"""Runs a pipeline in this process: session, job, signals."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.pipelines.errors import StoppedEarly
from penstock.pipelines.spark import first_jvm
from penstock.pipelines.spark.session_start import SessionStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.config.model import PipelineSpec
    from penstock.pipelines.job.idle_run import IdleRun
    from penstock.pipelines.job.job_run import JobRun
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
    from penstock.pipelines.monitor.run_monitor import RunMonitor
    from penstock.pipelines.spark.start_mark import StartMark

log = logging.getLogger(__name__)


def run_command(
    spec: PipelineSpec,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    as_json: bool = False,
    mark: StartMark | None = None,
) -> int:
    """Run a pipeline in a process that does nothing else: the log goes to stderr, the summary to stdout.

    A run that ends when it has caught up first looks whether it has already. Only otherwise it starts Spark, unless
    the JVM was started before. What it finds is noted in `mark`.
    """
    from penstock.pipelines.monitor.logs import log_lines_of, log_to_stderr, stray_output_logged

    check_checkpoint_store(spec, settings or {})
    log_to_stderr(spec.observe.log.level, spec.observe.log.format)
    if _seems_caught_up(spec):
        first_jvm.end()
    else:
        first_jvm.start(master, settings or {})
    first = first_jvm.take()
    name, cores = spec.pipeline.name, spec.pipeline.parallelism
    start = None if first is None else SessionStart.ahead(first, name, master, cores, settings)

    def on_summary(done: dict[str, object]) -> None:
        if start is not None:
            _offer_faster_start()
        if mark is not None:
            mark.note(found=done["batch"] is not None)
        if as_json:
            print(json.dumps(done))

    if first is not None:
        log_lines_of(first.output)
    run_here(spec, start=start, master=master, settings=settings, on_summary=on_summary, output=stray_output_logged)
    # Otherwise the JVM ends by itself, after this process: its standard input is a pipe from here. Nobody waits for it.
    if start is not None and settings:  # such as an event log, which must be closed
        start.session().stop()
    return 0


def _seems_caught_up(spec: PipelineSpec) -> bool:
    if spec.pipeline.until != "caught-up":
        return False
    from penstock.pipelines.api.start_order import seems_caught_up

    return seems_caught_up(spec)


def run_here(
    spec: PipelineSpec,
    *,
    session: SparkSession | None = None,
    start: SessionStart | None = None,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    on_summary: Callable[[dict[str, object]], None] = lambda done: None,
    output: Callable[[], AbstractContextManager[int | None]] = nullcontext,
) -> dict[str, object]:
    """Run until caught up, asked to stop (SIGTERM, SIGINT or a signal: ends after the batch), or failed (raises).

    A run that ends when it has caught up raises StoppedEarly if it was asked to stop before: its tables lack rows.
    `on_summary` receives the summary, also if tables are parked, which raises. Ends the session it created, whose
    stderr is the file that `output` returns; sessions of others, and one that began to open before, it leaves open.
    Creates none if the run is to end when it has caught up, and has already.
    """
    from penstock.pipelines.spark.versions import check_version

    check_version()
    from penstock.pipelines.job.build import ready
    from penstock.pipelines.job.idle_run import idle_run
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
    from penstock.pipelines.monitor.driver_process import refuse_second_driver
    from penstock.pipelines.spark.session import SUBMITTED, active_session

    job = ready(spec)  # reports errors in the description before a JVM is started
    if start is None:
        check_checkpoint_store(spec, settings or {})
    folder = CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options)
    check_writable(folder)
    # Before a JVM is started, which takes seconds.
    refuse_second_driver(folder)
    found = session or (None if start is None else _awaited(start, spec, master)) or active_session()
    # The program of spark-submit has to create its session, or else it has failed.
    running: JobRun | IdleRun | None = idle_run(job, folder) if found is None and SUBMITTED not in os.environ else None
    opened: SparkSession | None = None
    if running is None:
        from penstock.pipelines.job.job_run import JobRun

        with output() as stderr:
            opened = found or _started(spec, master, settings, stderr)
        running = JobRun(job, opened)

    def stop(number: int, frame: FrameType | None) -> None:
        running.stop()

    # Only the main thread may set signal handlers.
    asked = (signal.SIGTERM, signal.SIGINT) if current_thread() is main_thread() else ()
    # A notebook keeps its handlers after the run.
    before = [(number, signal.signal(number, stop)) for number in asked]
    try:
        with watched(spec, running) as watch:
            running.run()
        parking = job.parking()
        done = summary(watch) | {"parked": sorted(parking.tables)}
        log.info("event=ended pipeline=%s batch=%s records=%d", job.name, done["batch"], watch.facts.get("rows", 0))
        if found is None and opened is not None:
            _offer_faster_start()
        on_summary(done)
        if parking.tables:
            raise parking.error()
        if job.trigger.until_caught_up and not running.has_caught_up:
            raise StoppedEarly(
                "the run was stopped before it had caught up with the source",
                checkpoint=job.checkpoint,
                hint="run it again: it continues after its last batch",
            )
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        if found is None and opened is not None:
            _end(opened)
    return done


def _end(session: SparkSession) -> None:
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):  # the JVM may have ended already
        session.stop()


def _started(
    spec: PipelineSpec, master: str | None, settings: Mapping[str, str] | None, stderr: int | None
) -> SparkSession:
    """Start Spark and log it: it takes seconds in which nothing else is shown."""
    from penstock.pipelines.spark.session import open_session

    log.info("event=starting_spark pipeline=%s master=%s", spec.pipeline.name, master or "local")
    before = time.monotonic()
    opened = open_session(
        spec.pipeline.name, master=master, cores=spec.pipeline.parallelism, settings=settings, stderr=stderr
    )
    log.info("event=spark_started seconds=%.1f", time.monotonic() - before)
    return opened


def _awaited(start: SessionStart, spec: PipelineSpec, master: str | None) -> SparkSession:
    log.info("event=starting_spark pipeline=%s master=%s", spec.pipeline.name, master or "local")
    before = time.monotonic()
    opened = start.session()
    log.info("event=spark_started seconds=%.1f", time.monotonic() - before)
    return opened


def _offer_faster_start() -> None:
    """Log what makes the next start faster, where it was not done yet."""
    from penstock.pipelines.spark.java import use_flags

    if "JAVA_HOME" in os.environ and not use_flags():
        log.info("event=start_can_be_faster hint=penstock warm  makes Spark start in half the time on this machine")


def check_writable(folder: CheckpointFolder) -> None:
    """Raise ConfigError when the checkpoint cannot be written to; Spark would report it as a Java exception."""
    try:
        folder.probe()
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}:
            raise
        raise ConfigError(
            "the checkpoint folder is not writable",
            checkpoint=folder.location,
            reason=error.strerror,
            hint="grant this user write access to the folder, or choose another one with --checkpoint",
        ) from error


def summary(watch: RunMonitor) -> dict[str, object]:
    """Return what a run did. `records` are counted as they came, before changes of one key were merged.

    `rows` is the older name of `records`.
    """
    facts = watch.facts
    records = {table: one["rows"] for table, one in facts["tables"].items()}
    done = {"pipeline": watch.name, "batch": facts.get("batch"), "records": records, "rows": records}
    return done | {"bad": facts.get("bad", 0)}


@contextmanager
def watched(spec: PipelineSpec, running: JobRun | IdleRun) -> Iterator[RunMonitor]:
    """Publish status and metrics of a run and obey its signals.

    Required packages and the port are claimed before the first batch.
    """
    from penstock.ingest.connectors import connector_of
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
    from penstock.pipelines.monitor.observers import observed
    from penstock.pipelines.monitor.run_monitor import RunMonitor

    job, connector = running.job, connector_of(spec.source)
    watch = RunMonitor(
        name=job.name,
        folder=CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options),
        warehouse=job.warehouse,
        running=running,
        source=job.source,
        trigger_seconds=job.trigger.seconds,
        letters=job.errors.on_bad.table,
        lag_unit=connector.capabilities.lag_unit,
        look_seconds=connector.look_seconds(spec.source),
        initial=job.source.initial_offsets,
    )
    running.on_batch = watch.on_batch
    with observed(spec, watch), watch:
        yield watch


def check_checkpoint_store(spec: PipelineSpec, settings: Mapping[str, str]) -> None:
    """Raise ConfigError that names the missing jar when Spark lacks the client for the checkpoint's store."""
    from penstock.pipelines.spark.hadoop import checkpoint_needs, checkpoint_url
    from penstock.pipelines.spark.session import SUBMITTED

    if SUBMITTED in os.environ:  # jars of spark-submit are not visible here
        return
    packages = settings.get("spark.jars.packages", "") + settings.get("spark.jars", "")
    needed = checkpoint_needs(checkpoint_url(spec.checkpoint), packages)
    if needed is not None:
        raise ConfigError(
            "Spark has no client for the checkpoint's file system",
            checkpoint=spec.checkpoint,
            needs=needed.package,
            hint=needed.fix,
        )
