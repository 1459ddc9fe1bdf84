"""The first step of a command that runs a pipeline: does it need Spark?

A run that finds little at its source runs in this process. Imports little, since a run that needs Spark waits for the
answer.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from penstock.errors import PenstockError
from penstock.ingest.patience import patience
from penstock.ingest.source import NO_LIMIT, TIMES_SMALL, Limit, Offsets, SmallBatchSource
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job.source_request import source_for_a_question
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.driver_process import refuse_second_driver
from penstock.pipelines.spark.session_settings import is_local


def may_run_here(spec: PipelineSpec, master: str | None, settings: Mapping[str, str]) -> bool:
    """Return whether small batches may run in this process: with a master elsewhere, its executors do the work."""
    return spec.pipeline.spark == "when-needed" and is_local(master or settings.get("spark.master", "local"))


def seems_to_need_spark(spec: PipelineSpec, *, runs_here: bool) -> bool:
    """Return whether a run of the pipeline would probably start Spark. Only a prepared run knows it for certain."""
    pipeline = spec.pipeline
    if pipeline.resnapshot or pipeline.reset or not (runs_here or pipeline.until == "caught-up"):
        return True
    folder = CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options)
    try:
        # The run beside another driver is refused; the question would only load the server.
        refuse_second_driver(folder)
        batch = folder.batches.next_batch()
        if batch is None or folder.has_requests or folder.parked():
            return True
        if batch.start is None:
            return not runs_here  # the source may need to be prepared before it is asked
        return _needs_spark(spec, batch.start, batch.end, runs_here=runs_here)
    except (PenstockError, OSError):
        return True  # the run meets the same error when it is prepared, and reports it


def _needs_spark(spec: PipelineSpec, start: Offsets, planned: Offsets | None, *, runs_here: bool) -> bool:
    pipeline = spec.pipeline
    limit = Limit(pipeline.max_batch.rows, pipeline.max_batch.bytes)
    with (
        # A table that the source noted now would not be new to the run any more.
        tempfile.TemporaryDirectory(prefix="penstock-") as aside,
        closing(source_for_a_question(spec, aside)) as source,
        patience(0.0),
        _unlogged("penstock.ingest"),
    ):
        until = source.available() if pipeline.until == "caught-up" else None
        end = planned or source.latest_offsets(start, limit, until)
        if end == start or not runs_here:
            return end != start
        small = source.small_weight() if isinstance(source, SmallBatchSource) else 0
        left = 0 if limit == NO_LIMIT else sum(source.lag(end).values())
        return left + sum(range_.weight for range_ in source.plan(start, end, 1)) > TIMES_SMALL * small


@contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Log errors only: the run plans the same batch again, and logs its findings then."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
