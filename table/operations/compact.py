"""Compaction as a separate job: the buckets of a table, or of some partitions, committed as one COMPACT snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.errors import ConfigError, PenstockError, TableCorrupt
from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.commit.committer import Committer
from penstock.table.compaction.bucket_compactor import BucketCompactor
from penstock.table.compaction.compaction_result import CompactionResult
from penstock.table.compaction.row_order import RowOrder
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.assign_postponed import distribute, postponed
from penstock.table.operations.selection import Selection

_TRIES = 3

Compaction = Callable[[BucketCompactor], CompactionResult]


def compact_table(
    store: TableStore,
    *,
    full: bool = True,
    partitions: Sequence[Mapping[str, object]] | None = None,
    user: str | None = None,
    only: Selection | None = None,
    options: Mapping[str, str] | None = None,
) -> list[Snapshot]:
    """Compact the buckets that need it, or with `full` all of them.

    This also works for tables whose writers do not compact (write-only). Postponed rows are assigned to buckets first,
    in a separate snapshot. `options` override the table's. A compaction that conflicts with another one is repeated on
    the new state; after three attempts CommitConflict is raised. After a crash half way, the files written so far are
    orphans. Keeps the runs of one bucket at a time in memory.
    """
    chosen = only or Selection(partitions)
    return _committed(store, chosen, options or {}, user, lambda bucket: bucket.compact(full=full))


def sort_table(
    store: TableStore,
    strategy: str,
    columns: Sequence[str],
    *,
    user: str | None = None,
    only: Selection | None = None,
    options: Mapping[str, str] | None = None,
) -> list[Snapshot]:
    """Rewrite the rows of partitions in sorted order.

    They are sorted by the columns one after the other (`order`), or by all of them along a space-filling curve
    (`zorder`, `hilbert`). Each file covers a range of the order, so scans can skip most files.

    Only for append tables without buckets. Commits one COMPACT snapshot: rows committed in the meantime are kept beside
    the sorted ones. A concurrent rewrite or delete wins over this one, which is then repeated, at most three times in
    all. Memory is bounded by `write-buffer-size`, the rest is sorted on local disk.
    """
    layout = Layout.of(store.schema())
    if layout.mode is not BucketMode.UNAWARE:
        raise ConfigError(
            "only append tables with bucket = -1 can be sorted by a compaction",
            table=store.name,
            bucket_mode=str(layout.mode),
            paimon_message="Sort Compact only supports bucket=-1 yet.",
            hint="tables with a primary key are sorted by it, and tables with buckets keep the order of arrival",
        )
    order = RowOrder.of(layout.schema, strategy, columns)
    return _committed(store, only or Selection(), options or {}, user, lambda bucket: bucket.ordered(order))


def _committed(
    store: TableStore, only: Selection, options: Mapping[str, str], user: str | None, compaction: Compaction
) -> list[Snapshot]:
    committer = Committer(store, user or store.new_commit_user())
    made = []
    if Layout.of(store.schema()).mode is BucketMode.POSTPONE:
        made += _committed_in_rounds(committer, lambda: _distributed(store, only, options, committer.user))
    return made + _committed_in_rounds(committer, lambda: _messages(store, only, options, compaction))


def _committed_in_rounds(committer: Committer, work: Callable[[], Iterable[CommitMessage]]) -> list[Snapshot]:
    store = committer.store
    lost: PenstockError | None = None
    for _ in range(_TRIES):
        # Every round plans again: the files that the last one chose may be gone.
        base, messages = store.snapshots.latest(), []
        try:
            for message in work():
                messages.append(message)  # noqa: PERF402 -- those made before an error must be discarded
        except TableCorrupt as reason:
            if base is None or store.snapshots.exists(base.id):
                raise
            lost = reason  # the snapshot expired, and its files were deleted, while they were read
        else:
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


def _distributed(store: TableStore, only: Selection, options: Mapping[str, str], user: str) -> Iterable[CommitMessage]:
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return ()
    schema = store.schema()
    layout = Layout.of(replace(schema, options={**schema.options, **options}))
    entries = live_entries(store, snapshot)
    chosen = only.partitions_of(store, entries)
    parts = [part for part in postponed(layout, entries) if part.partition in chosen]
    return distribute(store, layout, parts, user, snapshot.id)


def _messages(
    store: TableStore, only: Selection, options: Mapping[str, str], compaction: Compaction
) -> Iterator[CommitMessage]:
    schema = store.schema()
    layout = Layout.of(replace(schema, options={**schema.options, **options}))
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return
    state = TableState(store, snapshot)
    entries = [entry for entry in live_entries(store, snapshot) if entry.bucket >= 0]
    for partition, bucket in only.buckets_of(store, entries):
        files = BucketFiles(store, layout, partition, bucket)
        compactor = BucketCompactor(files, state.bucket(partition, bucket))
        result = compaction(compactor)
        if not result.is_empty:
            yield compactor.message(result)
