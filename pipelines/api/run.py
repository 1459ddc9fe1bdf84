"""Runs a pipeline in this process: session, job, signals."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING

from penstock.pipelines.api.checkpoint_access import check_checkpoint_writable
from penstock.pipelines.api.early_stop import Asked, asked_to_stop, never_asked, stopped_early
from penstock.pipelines.api.run_session import RunSession, offer_faster_start
from penstock.pipelines.spark import first_jvm
from penstock.pipelines.spark.session_start import SessionStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.config.model import PipelineSpec
    from penstock.pipelines.job.job import Job
    from penstock.pipelines.job.run_control import Run
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
    mark: StartMark | None,
    asked: Asked = never_asked,
) -> int:
    """Run a pipeline in a process that does nothing else: the log goes to stderr, the summary to stdout.

    It first looks how much there is to read. If it is much, Spark starts at once; otherwise a JVM that was started
    ahead is ended. `mark` records whether Spark was needed. `asked` returns whether SIGTERM came before the run.
    """
    from penstock.pipelines.monitor.logs import log_lines_of, log_to_stderr, stray_output_logged

    log_to_stderr(spec.observe.log.level, spec.observe.log.format)
    if _seems_to_need_spark(spec, master, settings or {}):
        first_jvm.start(master, settings or {})
        if mark is not None:
            mark.note(needed=True)  # not at the end, so that a start after a kill begins with the JVM
    else:
        first_jvm.end()
    first = first_jvm.take()
    name, cores = spec.pipeline.name, spec.pipeline.parallelism
    start = None if first is None else SessionStart.ahead(first, name, master, cores, settings)

    def on_summary(done: dict[str, object]) -> None:
        if start is not None:
            offer_faster_start()
        if mark is not None:
            mark.note(needed=bool(done["spark"]))
        if as_json:
            print(json.dumps(done))

    if first is not None:
        log_lines_of(first.output)
    with asked_to_stop(asked, spec):
        run_here(
            spec,
            start=start,
            master=master,
            settings=settings,
            on_summary=on_summary,
            output=stray_output_logged,
            asked=asked,
        )
    # Otherwise the JVM ends by itself after this process, which does not wait: its standard input is a pipe from here.
    if start is not None and settings and start.is_open:  # such as an event log, which must be closed
        start.session().stop()
    return 0


def _seems_to_need_spark(spec: PipelineSpec, master: str | None, settings: Mapping[str, str]) -> bool:
    from penstock.ingest.source_waits import WaitEnded, waiting_for_source
    from penstock.pipelines.api.start_order import may_run_here, seems_to_need_spark

    try:
        with waiting_for_source():
            return seems_to_need_spark(spec, runs_here=may_run_here(spec, master, settings))
    except WaitEnded:
        return False  # a stop may end the question anywhere, also where its errors are not caught; the run obeys it


def run_here(
    spec: PipelineSpec,
    *,
    session: SparkSession | None = None,
    start: SessionStart | None = None,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    on_summary: Callable[[dict[str, object]], None] = lambda done: None,
    output: Callable[[], AbstractContextManager[int | None]] = nullcontext,
    asked: Asked = never_asked,
) -> dict[str, object]:
    """Run until caught up, asked to stop (SIGTERM, SIGINT or a signal: ends after the batch), or failed (raises).

    If it should end by itself but was asked to stop before it had caught up, it raises StoppedEarly: its tables lack
    rows. `on_summary` receives the summary, also if tables are parked, which raises.

    A bounded run whose batches are small enough for this process needs no session. A session that is created here ends
    with the run, and its stderr is the file that `output` returns. Other sessions stay open: `session`, the active one,
    and the one that `start` opens.
    """
    from penstock.pipelines.spark.versions import check_version

    check_version()
    from penstock.ingest.source_waits import waiting_for_source
    from penstock.pipelines.job.build import ready
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
    from penstock.pipelines.monitor.driver_process import refuse_second_driver
    from penstock.pipelines.monitor.failed_start import failed_starts_noted
    from penstock.pipelines.spark.session import active_session

    with failed_starts_noted(spec, asked), waiting_for_source():
        job = ready(spec)  # reports errors in the description before a JVM is started
    folder = CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options)
    check_checkpoint_writable(folder)
    # Before a JVM is started, which takes seconds.
    refuse_second_driver(folder)
    stops: list[int] = []
    spark = RunSession(spec, master, settings, output, session, lambda: bool(stops) or asked())
    if session is None and start is not None:
        spark.wait_for(start)
    spark.given = spark.given or active_session()
    running = _run_of(job, folder, spark)
    try:
        with _stopped_by_signals(running, stops):
            if asked():
                running.stop()
            with watched(spec, job, running) as watch:
                running.run()
            return _ended(job, running, watch, spark, on_summary)
    finally:
        spark.end()


def _ended(
    job: Job, running: Run, watch: RunMonitor, spark: RunSession, on_summary: Callable[[dict[str, object]], None]
) -> dict[str, object]:
    """Return the summary of a run that has ended, after reporting it. Raise an error if the tables lack rows."""
    parking = job.parking()
    done = summary(watch) | {"parked": sorted(parking.tables), "spark": spark.is_used}
    batch = "none" if done["batch"] is None else done["batch"]
    log.info("event=ended pipeline=%s batch=%s records=%d", job.name, batch, watch.facts.get("rows", 0))
    spark.offer_faster_start()
    on_summary(done)
    if parking.tables:
        raise parking.error()
    if job.trigger.until_caught_up and not running.has_caught_up:
        raise stopped_early(job.checkpoint)
    return done


@contextmanager
def _stopped_by_signals(running: Run, stops: list[int]) -> Iterator[None]:
    """Let SIGTERM and SIGINT stop a run after its batch. Their numbers are added to `stops`."""

    from penstock.ingest.source_waits import RepeatedSignals

    repeated = RepeatedSignals()

    def stop(number: int, frame: FrameType | None) -> None:
        stops.append(number)
        running.stop()
        repeated.came(number, frame)

    # Only the main thread may set signal handlers.
    numbers = (signal.SIGTERM, signal.SIGINT) if current_thread() is main_thread() else ()
    # A notebook keeps its handlers after the run.
    before = [(number, signal.signal(number, stop)) for number in numbers]
    try:
        yield
    finally:
        repeated.end()
        for number, handler in before:
            signal.signal(number, handler)


def _run_of(job: Job, folder: CheckpointFolder, spark: RunSession) -> Run:
    """Return the run of a job: in this process as long as it needs no Spark, or by a session that exists."""
    from penstock.pipelines.api.start_order import may_run_here
    from penstock.pipelines.job.local_run import LocalRun
    from penstock.pipelines.spark.session import SUBMITTED

    def with_spark(job: Job) -> Run:
        from penstock.pipelines.job.job_run import JobRun

        return JobRun(job, spark.session())

    # The program of spark-submit has to create its session, or else it has failed.
    takes_batches = may_run_here(spark.spec, spark.master, spark.settings or {})
    may_be_idle = takes_batches or job.trigger.until_caught_up
    if spark.given is not None or SUBMITTED in os.environ or not may_be_idle:
        return with_spark(job)
    return LocalRun(job, folder, with_spark, takes_batches)


def summary(watch: RunMonitor) -> dict[str, object]:
    """Return the result of a run. `records` and the older name `rows` count changes before they are merged."""
    facts = watch.facts
    records = {table: counts["rows"] for table, counts in facts["tables"].items()}
    done = {"pipeline": watch.name, "batch": facts.get("batch"), "records": records, "rows": records}
    return done | {"bad": facts.get("bad", 0)}


@contextmanager
def watched(spec: PipelineSpec, job: Job, running: Run) -> Iterator[RunMonitor]:
    """Publish status and metrics of a run and obey its signals.

    Required packages and the port are claimed before the first batch.
    """
    from penstock.ingest.connectors import connector_of
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
    from penstock.pipelines.monitor.left_out import LeftOut
    from penstock.pipelines.monitor.observers import observed
    from penstock.pipelines.monitor.run_monitor import RunMonitor

    connector = connector_of(spec.source)
    watch = RunMonitor(
        name=job.name,
        folder=CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options),
        warehouse=job.warehouse,
        running=running,
        source=job.source,
        trigger_seconds=job.trigger.seconds,
        left_out=LeftOut.of(spec, job.tables.left_out),
        letters=job.errors.on_bad.table,
        lag_unit=connector.capabilities.lag_unit,
        look_seconds=connector.look_seconds(spec.source),
        initial=job.source.initial_offsets,
    )
    running.on_batch = watch.on_batch
    with observed(spec, watch), watch:
        yield watch
