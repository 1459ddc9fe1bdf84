"""Rows that other jobs wrote into a table to which a job begins to add its own."""

from __future__ import annotations

from itertools import islice

from penstock.table.merge.engines.registry import merge_spec
from penstock.table.meta.snapshot import PIPELINE
from penstock.table.meta.store import TableStore
from penstock.table.schema.table_schema import TableSchema

_LOOKED_AT = 100  # snapshots that are searched for the names of jobs
HINT = "if both read the same source, its rows are counted twice: choose another table, or empty this one before"


def rows_of_others(store: TableStore, job: str) -> str | None:
    """Return a sentence about the rows of a table that has none of this job, or None if it may add its own.

    Where keys replace older rows, the rows of two jobs are no problem. Without keys, and where values are aggregated,
    the rows of a second job that reads the same source are added to the rows of the first job.
    """
    newest = list(islice(store.snapshots.newest_first(), _LOOKED_AT)) if _adds_rows(store.schema()) else []
    if not newest or not newest[0].total_record_count:
        return None
    jobs = dict.fromkeys(str(snapshot.properties.get(PIPELINE, snapshot.commit_user)) for snapshot in newest)
    if job in jobs:
        return None
    return f"{store.name} has rows that other jobs wrote ({', '.join(list(jobs)[:3])}), and this job adds its own"


def _adds_rows(table: TableSchema) -> bool:
    if not table.primary_keys:
        return True
    spec = merge_spec(table)
    return spec.engine.needs_before_images or bool(spec.aggregates)
