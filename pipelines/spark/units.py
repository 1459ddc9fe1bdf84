"""The executor of actions whose units run in the tasks of a Spark job."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.spark.errors import tasks_lost
from penstock.table.operations.executor import OfUnit, Result, Work, dealt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMN = "result binary"
_SCHEMA = pa.schema([("result", pa.binary())])
# More tasks than slots, so that slots that end early take over the rest.
_TASKS_PER_SLOT = 4


@dataclass(frozen=True, slots=True)
class SparkUnits:
    """Runs units in a Spark job: at most `parallelism` at a time, without a number as many as the session has slots.

    Only the results of units, such as metadata of files, return to the driver. If a task fails or its executor is lost,
    all its units run again, and the files of the first attempt are orphans.
    """

    session: SparkSession
    parallelism: int | None = None

    def run(self, work: Work[OfUnit, Result], units: Sequence[OfUnit]) -> Iterator[Result]:
        """Yield the results when the job has ended. When it fails there are none: files of other units are orphans."""
        if not units:
            return
        slots = self.session.sparkContext.defaultParallelism
        groups = dealt(units, self.parallelism or slots * _TASKS_PER_SLOT)
        mark = ErrorMark()

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            pa.set_cpu_count(1)
            with mark.carrying():
                for batch in batches:
                    for unit in (unit for number in batch.column(0).to_pylist() for unit in groups[number]):
                        body = pa.array([pickle.dumps(work(unit))], pa.binary())
                        yield pa.RecordBatch.from_arrays([body], schema=_SCHEMA)

        # One row per task: its number is the place of its units in the closure.
        frame = self.session.range(0, len(groups), 1, len(groups))
        try:
            results = frame.mapInArrow(task, _COLUMN).toArrow()
        except (PySparkException, Py4JError) as error:
            raise mark.recovered(error) or tasks_lost(error) or error from error
        for body in results.column(0).to_pylist():
            yield pickle.loads(body)  # noqa: S301 -- pickled by the task above
