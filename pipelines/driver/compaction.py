"""Compaction beside the batches: which buckets are due, how a task compacts one, how the result is committed.

It commits as a separate user, after the batches. Its result is dropped if another writer was faster.
"""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.ingest.carried_errors import ErrorMark
from penstock.pipelines.mapping.target_tables import TargetVersion, state_at
from penstock.pipelines.tasks.batch_result import SCHEMA
from penstock.table.buckets.bucket_files import BucketFiles, discard
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.commit.committer import Committer
from penstock.table.compaction.bucket_compactor import BucketCompactor
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.compaction import WRITE_ONLY

log = logging.getLogger(__name__)

TASK_SECONDS = 10.0  # Spark does not preempt tasks: compactions not started by then are left for the next round
# Another user than that of the batches. The newest identifier of a user decides whether a batch is committed, so
# compactions must not be numbered among the batches.
SUFFIX = "-compact"  # of the commit user's name


@dataclass(frozen=True, slots=True)
class DueBucket:
    """A bucket to compact, as it was at one snapshot. `full`: compact all of it into one sorted run.

    `at_once`: a commit waits for this bucket, so its compaction is not left for the next round.
    """

    table: str
    version: TargetVersion
    partition: bytes
    bucket: int
    full: bool = False
    at_once: bool = False


Compact = Callable[[Sequence[DueBucket]], Mapping[str, list[CommitMessage]]]


def due_buckets(warehouse: CatalogSettings, table: str) -> list[DueBucket]:
    """Return the buckets of the table whose compaction is due now. Reads manifests, no data."""
    store = warehouse.store(table)
    schema, snapshot = store.schema(), store.snapshots.latest()
    if snapshot is None or schema.typed[WRITE_ONLY]:
        return []
    found = all_buckets(store, table, snapshot, schema.id)
    return [bucket for bucket in found if _compactor(warehouse, bucket).is_due()]


def all_buckets(
    store: TableStore, table: str, snapshot: Snapshot, schema: int, *, full: bool = False
) -> list[DueBucket]:
    """Return the buckets that have files in the snapshot."""
    # The bucket of postponed rows is negative. They are not in sorted runs that could be merged.
    places = {(entry.partition, entry.bucket) for entry in live_entries(store, snapshot) if entry.bucket >= 0}
    version = TargetVersion(schema, snapshot.id)
    return [DueBucket(table, version, *place, full) for place in sorted(places)]


def _compactor(warehouse: CatalogSettings, due: DueBucket) -> BucketCompactor:
    store = warehouse.store(due.table)
    layout = warehouse.layout(due.table, due.version.schema)
    # At the snapshot at which the bucket was found to be due. The commit drops the result if its inputs are gone by
    # then.
    state = state_at(store, due.version).bucket(due.partition, due.bucket)
    return BucketCompactor(BucketFiles(store, layout, due.partition, due.bucket), state)


def compacted(warehouse: CatalogSettings, due: DueBucket) -> CommitMessage | None:
    """Return the commit message of the compacted bucket. A task that dies half way leaves orphan files."""
    compactor = _compactor(warehouse, due)
    result = compactor.compact(full=True) if due.full else compactor.compact_due()
    return None if result.is_empty else compactor.message(result)


def bucket_groups(dues: Sequence[DueBucket], slots: int, most: int | None = None) -> list[Sequence[DueBucket]]:
    """Return the buckets of each of `most` tasks. By default they use one of four slots, the batches the others."""
    tasks = most or max(1, slots // 4)
    return [dues[number::tasks] for number in range(min(tasks, len(dues)))]


def compact_task(
    warehouse: CatalogSettings, groups: Sequence[Sequence[DueBucket]], mark: ErrorMark
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` over group numbers."""

    def compact(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        # Buckets that are not begun in time are still due, so the next round finds them. A compaction that has
        # begun is finished.
        until = time.monotonic() + TASK_SECONDS
        with mark.carrying():
            for batch in batches:
                for due in (due for number in batch.column(0).to_pylist() for due in groups[number]):
                    message = compacted(warehouse, due) if due.at_once or time.monotonic() < until else None
                    if message is not None:
                        body = pa.array([pickle.dumps(message)], pa.binary())
                        yield pa.RecordBatch.from_arrays([pa.array([due.table], pa.string()), body], schema=SCHEMA)

    return compact


def compacted_here(warehouse: CatalogSettings) -> Compact:
    """Return a function that compacts in this process."""

    def compact(dues: Sequence[DueBucket]) -> Mapping[str, list[CommitMessage]]:
        found: dict[str, list[CommitMessage]] = {}
        for due in dues:
            message = compacted(warehouse, due)
            if message is not None:
                found.setdefault(due.table, []).append(message)
        return found

    return compact


def commit_compactions(warehouse: CatalogSettings, user: str, made: Mapping[str, Sequence[CommitMessage]]) -> set[str]:
    """Commit compactions. Return the tables where a compaction lost a commit conflict and was dropped."""
    lost = set()
    for table, messages in made.items():
        store = warehouse.store(table)
        committer = Committer(store, user + SUFFIX)
        done = committer.commit(messages, _next(store, committer.user))
        if done.lost_compaction is not None:
            log.warning("event=compaction_lost table=%s reason=%s", table, done.lost_compaction.message)
            # Only the result is dropped: all rows are still in the files that it would have replaced.
            discard(store, messages)
            lost.add(table)
        else:
            log.info("event=compacted table=%s buckets=%d", table, len(messages))
    return lost


def _next(store: TableStore, user: str) -> int:
    """Return the next number for a compaction.

    Compactions have their own numbering, continued from the table's snapshots.
    """
    last = next(
        (
            snapshot.commit_identifier
            for snapshot in store.snapshots.newest_first()
            if snapshot.commit_user == user and snapshot.commit_identifier != BATCH_IDENTIFIER
        ),
        -1,
    )
    return last + 1
