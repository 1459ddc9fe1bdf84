"""The process from which Spark forks Python workers, with all imports done once and shared by all workers.

Without it every worker spends a second of CPU on this package. No task needs pandas, which Arrow would import at its
first `pa.array` of a list; code that imports pandas still gets it. The module must be importable where the executors
run, so it is the default only for local masters.
"""

from __future__ import annotations

import gc

import confluent_kafka
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq
import pyspark.worker
from pyspark.daemon import manager

from penstock import late_pandas
from penstock.ingest.preloaded import BUILT_IN_FORMATS, SOURCES
from penstock.pipelines.mapping import pipeline_mapping
from penstock.pipelines.tasks import read as reading
from penstock.pipelines.tasks import write as writing
from penstock.pipelines.tasks.garbage_collection import collect_seldom

SHARED = (confluent_kafka, msgspec, np, pc, pyarrow.json, pq, pyspark.worker)
OURS = (*SOURCES, *BUILT_IN_FORMATS, reading, pipeline_mapping, writing)

if __name__ == "__main__":
    # One task uses one core, since Spark already runs as many tasks as there are cores. A thread pool would not survive
    # the fork anyway, so none is started here.
    pa.set_cpu_count(1)
    late_pandas.defer()
    gc.collect()
    # Objects that are not searched also stay shared between the workers.
    collect_seldom()
    manager()
