"""Buckets whose compaction is missing although rows are visible only after it, in tables whose keys move."""

from __future__ import annotations

from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.meta.entries import Bucket
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.compaction import WRITE_ONLY


def left_waiting(store: TableStore, layout: Layout, snapshot: Snapshot | None) -> set[Bucket]:
    """Return the buckets with rows that wait, if keys move between partitions and compactions show rows.

    A job died before the compaction, or a rollback removed it. The new row of a key and its delete in another bucket
    must become visible at the same time, so the next commit compacts all of them.
    """
    options = layout.schema.typed
    if layout.mode is not BucketMode.CROSS_PARTITION or snapshot is None or options[WRITE_ONLY]:
        return set()
    # The last step of a complete commit is its compaction, so most commits need no list of all files.
    if not CompactionSpec.of(layout.schema).shows_by_compaction or _completes_an_append(store, snapshot):
        return set()
    entries = live_entries(store, snapshot, to_commit=True)
    return {(entry.partition, entry.bucket) for entry in entries if entry.file.level == 0}


def _completes_an_append(store: TableStore, snapshot: Snapshot) -> bool:
    """Return whether this is the compaction of the append just before it, after which no bucket waits.

    An overwrite and a compaction by another job leave other buckets as they are.
    """
    if snapshot.commit_kind is not CommitKind.COMPACT:
        return False
    before = store.snapshots.find(snapshot.id - 1)
    if before is None or before.commit_kind is not CommitKind.APPEND:
        return False
    made = (snapshot.commit_user, snapshot.commit_identifier)
    return made == (before.commit_user, before.commit_identifier)
