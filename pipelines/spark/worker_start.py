"""The first Python workers of Spark, started while a query is prepared.

The process that Spark forks workers from imports all that tasks need, which takes a second or two. Spark starts it for
the first task that needs it, and by then nothing else is left to do: the first batch waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def start_workers(session: SparkSession) -> None:
    """Begin to start a worker by a task that does nothing. Without success the first batch starts it."""
    # A daemon: the process may end while Spark is busy with the task.
    threading.Thread(target=_start, args=(session,), name="penstock-workers", daemon=True).start()


def _start(session: SparkSession) -> None:
    try:
        # The kind of task, and with it the process of the workers, is the same as in batches.
        session.range(1, numPartitions=1).mapInArrow(_unchanged, "id long").collect()
    except (PySparkException, Py4JError, OSError) as error:
        log.info("event=workers_not_started_ahead reason=%s", str(error).partition("\n")[0])


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
