"""Compaction as a job of its own: a table's buckets, or those of some partitions, committed as one COMPACT snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.errors import CommitConflict
from penstock.table.commit.committer import Committer
from penstock.table.commit.overwriting import PartitionSpec
from penstock.table.layout import BucketMode, Layout
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.write.compacting import BucketCompactor
from penstock.table.write.opening import BucketFiles
from penstock.table.write.state import TableState

_TRIES = 3


def compact_table(
    store: TableStore,
    *,
    full: bool = True,
    partitions: Sequence[Mapping[str, object]] | None = None,
    user: str | None = None,
) -> list[Snapshot]:
    """Compact what is due, or with `full` everything, also in tables whose writers leave it to others (write-only).

    A compaction that met another is done again on the new state; after three times CommitConflict says so. Dies
    half way: the files made so far are orphans. Memory holds one bucket's runs at a time.
    """
    committer = Committer(store, user or store.ambient.new_uuid())
    lost: CommitConflict | None = None
    for _ in range(_TRIES):
        messages = list(_messages(store, full, partitions))
        if not messages:
            return []
        done = committer.commit(messages, BATCH_IDENTIFIER)
        lost = done.lost_compaction
        if lost is None:
            return list(done.snapshots)
        layout = Layout.of(store.schema())
        for message in messages:
            BucketFiles(store, layout, message.partition, message.bucket).delete(message)
    assert lost is not None
    raise lost


def _messages(
    store: TableStore, full: bool, partitions: Sequence[Mapping[str, object]] | None
) -> Iterator[CommitMessage]:
    layout = Layout.of(store.schema())
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return
    specs = None if partitions is None else [PartitionSpec.of(layout, one) for one in partitions]
    state = TableState(store, snapshot)
    entries = live_entries(store, snapshot)
    places = {(entry.partition, entry.bucket) for entry in entries if entry.bucket >= 0}
    totals = {entry.partition: entry.total_buckets for entry in entries}
    for partition, bucket in sorted(places):
        if specs is not None and not any(spec.covers(partition) for spec in specs):
            continue
        files = BucketFiles(store, layout, partition, bucket)
        whole = full or layout.mode is BucketMode.UNAWARE
        rewritten = BucketCompactor(files, state.bucket(partition, bucket)).due((), full=whole)
        if rewritten.before or rewritten.after:
            yield CommitMessage(
                partition,
                bucket,
                totals[partition],
                compact_before=rewritten.before,
                compact_after=rewritten.after,
                compact_changelog=rewritten.changelog,
                compact_index_changes=rewritten.index,
                base_snapshot=snapshot.id,
            )
