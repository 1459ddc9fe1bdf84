"""Compaction as a separate job: the buckets of a table, or of some partitions, committed as one COMPACT snapshot.

The buckets are units of work that an executor may run in other processes; this process plans them and commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from penstock.errors import ConfigError, PenstockError, TableCorrupt
from penstock.table.buckets.bucket_files import discard
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.commit.committer import Committer
from penstock.table.commit.seen_files import check_seen
from penstock.table.compaction.row_order import RowOrder
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.assign_postponed import distribute, postponed
from penstock.table.operations.bucket_compaction import BucketCompaction
from penstock.table.operations.executor import Executor, OwnProcess
from penstock.table.operations.selection import Selection

_TRIES = 3


def compact_table(
    store: TableStore,
    *,
    full: bool = True,
    partitions: Sequence[Mapping[str, object]] | None = None,
    user: str | None = None,
    only: Selection | None = None,
    options: Mapping[str, str] | None = None,
    executor: Executor | None = None,
) -> list[Snapshot]:
    """Compact the buckets that need it, or with `full` all of them.

    This also works for tables whose writers do not compact (write-only). Postponed rows are assigned to buckets first,
    in a separate snapshot. `options` override the table's. A compaction that conflicts with another one is repeated on
    the new state; after three attempts CommitConflict is raised. After a crash half way, the files written so far are
    orphans. `executor` decides where buckets are compacted (default: one after the other in this process); memory holds
    the runs of as many buckets as it compacts at a time.
    """
    if only is not None and partitions is not None:
        raise ConfigError(
            "the partitions to compact are given twice",
            table=store.name,
            hint="name the partitions in the selection only",
        )
    chosen = only or Selection(partitions)
    return _committed(store, lambda: BucketCompaction.of(store, options, full=full), chosen, user, executor)


def sort_table(
    store: TableStore,
    strategy: str,
    columns: Sequence[str],
    *,
    only: Selection | None = None,
    options: Mapping[str, str] | None = None,
    executor: Executor | None = None,
) -> list[Snapshot]:
    """Rewrite the rows of partitions in sorted order.

    They are sorted by the columns one after the other (`order`), or by all of them along a space-filling curve
    (`zorder`, `hilbert`). Each file covers a range of the order, so scans can skip most files.

    Only for append tables without buckets. Commits one COMPACT snapshot: rows committed in the meantime are kept beside
    the sorted ones. A concurrent rewrite or delete wins over this one, which is then repeated, at most three times in
    all. Each partition is sorted by one process, with `write-buffer-size` of memory and the rest on local disk.
    `executor` decides how many partitions are sorted at a time, and where.
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
    chosen = only or Selection()
    return _committed(store, lambda: BucketCompaction.of(store, options, order=order), chosen, None, executor)


def _committed(
    store: TableStore,
    planned: Callable[[], BucketCompaction],
    only: Selection,
    user: str | None,
    executor: Executor | None,
) -> list[Snapshot]:
    committer, runs = Committer(store, user or store.new_commit_user()), executor or OwnProcess()
    made = assign_rows(committer, planned, only)
    return made + _committed_in_rounds(committer, lambda: _messages(planned(), only, runs))


def assign_rows(committer: Committer, planned: Callable[[], BucketCompaction], only: Selection) -> list[Snapshot]:
    """Assign postponed rows to buckets, in a commit; do nothing for tables without postponed buckets."""
    if Layout.of(committer.store.schema()).mode is not BucketMode.POSTPONE:
        return []
    return _committed_in_rounds(committer, lambda: _distributed(planned(), only, committer.user))


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
        except PenstockError:
            discard(store, messages)
            raise
        else:
            if not messages:
                return []
            done = committer.commit(messages, BATCH_IDENTIFIER)
            lost = done.lost_compaction
            if lost is None:
                return list(done.snapshots)
        discard(store, messages)
    assert lost is not None
    raise lost


def _distributed(compaction: BucketCompaction, only: Selection, user: str) -> Iterable[CommitMessage]:
    store = compaction.store
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return ()
    layout = compaction.layout
    entries = live_entries(store, snapshot)
    chosen = only.partitions_of(store, entries)
    parts = [part for part in postponed(store, layout, entries, snapshot) if part.partition in chosen]
    return distribute(store, layout, parts, user, snapshot.id)


def _messages(compaction: BucketCompaction, only: Selection, executor: Executor) -> Iterator[CommitMessage]:
    snapshot = compaction.store.snapshots.latest()
    if snapshot is None:
        return
    units = compaction.units(snapshot, only)
    for message in executor.run(compaction, units):
        if message is not None:
            check_seen(compaction.store, [message])
            yield message
