"""The first step of a command that runs a pipeline: to start Spark, or to check whether there is anything to do.

Imports little, since a run that finds something waits for the answer.
"""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.ingest.source import Limit
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job.caught_up import has_caught_up
from penstock.pipelines.job.source_request import open_source
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.driver_process import refuse_second_driver


def seems_caught_up(spec: PipelineSpec) -> bool:
    """Return whether a run of the pipeline would probably find nothing. Only a run that was prepared knows it."""
    pipeline = spec.pipeline
    if pipeline.until != "caught-up" or pipeline.resnapshot or pipeline.reset:
        return False
    folder = CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options)
    limit = Limit(pipeline.max_batch.rows, pipeline.max_batch.bytes)
    try:
        # Sources may keep files in the checkpoint when they are asked, which only one process may do.
        refuse_second_driver(folder)
        return not folder.parked() and has_caught_up(open_source(spec), folder, limit)
    except (PenstockError, OSError):
        return False  # the run meets the same error when it is prepared, and reports it
