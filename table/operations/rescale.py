"""Rescaling: rewriting partitions with another number of buckets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.errors import CommitConflict, ConfigError
from penstock.table.buckets.bucket_files import discard
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.commit.commit_checks import Contents, Covers, contents
from penstock.table.commit.committer import Committer
from penstock.table.commit.completion import Completion, compacted_buckets, only_compaction
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.compact import compact_table
from penstock.table.operations.executor import Executor, OwnProcess
from penstock.table.operations.overwrite import OverwriteWriter
from penstock.table.operations.partition_specs import PartitionSpecs
from penstock.table.operations.row_copies import RowCopies, copied, units_by_residue, unless_expired
from penstock.table.options.buckets import LARGEST_BUCKET_COUNT
from penstock.table.options.compaction import WRITE_ONLY
from penstock.table.read.plan import hidden_file, plan_state
from penstock.table.read.scan import Scan
from penstock.table.read.time_travel import Travel
from penstock.table.values.arguments import whole_number

log = logging.getLogger(__name__)


def rescale(
    store: TableStore,
    buckets: int | None = None,
    partition: Mapping[str, object] | None = None,
    user: str | None = None,
    executor: Executor | None = None,
) -> list[Snapshot]:
    """Rewrite the rows of a partition, or of the table, into `buckets` buckets (default: the table's option).

    One OVERWRITE; CommitConflict, and nothing changed, when another job wrote there in the meantime. The option itself
    is not altered: writers are refused until it has the same number. After a crash call it again. Until then a table
    with deletion vectors or first-row may lack the rows, if the crash was between the OVERWRITE and its compaction.

    `executor` runs a unit per partition and common divisor of both numbers of buckets: from 4 to 8 buckets these are 4.
    """
    layout = Layout.of(store.schema())
    if layout.mode not in {BucketMode.FIXED, BucketMode.POSTPONE}:
        raise ConfigError(
            f"bucket mode {layout.mode} has no fixed number of buckets",
            table=store.name,
            hint="only tables with bucket = n or -2 can be rescaled",
        )
    wanted = layout.bucket_count if buckets is None else whole_number(buckets, "buckets")
    if not 1 <= wanted <= LARGEST_BUCKET_COUNT:
        raise ConfigError(f"{wanted} is not a number of buckets", table=store.name, hint="use a number from 1 upwards")
    user = user or store.new_commit_user()
    spec = PartitionSpecs.of(layout, [partition or {}])
    base = _with_rows_shown(store, layout, spec, user)
    if base is None:
        return []
    # Files of the snapshot that is read below: the commit is refused if the partition has others by then.
    opened = partial(OverwriteWriter.open_on, store, partition or {}, user, {"bucket": str(wanted)})
    with unless_expired(store, base):
        seen = contents(store, base, spec.covers)
        # Under the current schema: columns may have been altered since the snapshot.
        scan = replace(Scan.of(store, falls_back=False), travel=Travel(), between=None, snapshot=base)
        splits = [split for split in plan_state(store, layout, base).splits if spec.covers(split.partition)]
        if not splits:
            return []
        units = units_by_residue(store, base, splits, wanted)
        messages = copied(RowCopies(scan, opened), units, executor or OwnProcess(), store)
    return _committed(store, messages, spec.covers, seen, opened, user)


def _committed(
    store: TableStore,
    messages: Sequence[CommitMessage],
    covers: Covers,
    seen: Contents,
    opened: Callable[[], OverwriteWriter],
    user: str,
) -> list[Snapshot]:
    committer = Committer(store, user)
    try:
        done = committer.overwrite(messages, covers, seen=seen)
    except CommitConflict:
        discard(store, messages)
        raise
    if done.lost_compaction is None or done.last is None:
        return list(done.snapshots)
    log.warning("event=compaction_lost table=%s reason=%s", store.name, done.lost_compaction.message)
    discard(store, [only_compaction(message) for message in messages])
    with opened() as writer:
        completion = Completion(committer, writer.layout, writer.open_bucket)
        return [*done.snapshots, *completion.compact(compacted_buckets(messages), done.last).snapshots]


def _with_rows_shown(store: TableStore, layout: Layout, spec: PartitionSpecs, user: str) -> Snapshot | None:
    """Return the newest snapshot.

    Rows that scans do not show yet are compacted first, such as those a crashed rescale left behind. Rows of a
    write-only table must wait for its compaction job: ConfigError.
    """
    latest = store.snapshots.latest()
    if latest is None or hidden_file(store, layout, latest, spec.covers) is None:
        return latest
    if not layout.schema.typed[WRITE_ONLY] and layout.mode is BucketMode.FIXED:
        compact_table(store, full=False, user=user)
        latest = store.snapshots.latest()
    hidden = None if latest is None else hidden_file(store, layout, latest, spec.covers)
    if hidden is not None:
        raise ConfigError(
            "some rows are readable only after a compaction",
            table=store.name,
            file=hidden,
            hint="compact the table first, then rescale it",
        )
    return latest
