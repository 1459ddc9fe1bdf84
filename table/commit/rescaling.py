"""Rewriting partitions with another number of buckets (table-format 6)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.errors import CommitConflict, ConfigError
from penstock.table.commit.committer import Committer, contents
from penstock.table.commit.completion import Completion
from penstock.table.commit.overwriting import OverwriteWriter, PartitionSpec
from penstock.table.commit.prepared_files import compacted_buckets, discard, only_compaction
from penstock.table.layout import BucketMode, Layout
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.read.plan import invisible_level_0, plan_state
from penstock.table.read.rows import SplitReader

log = logging.getLogger(__name__)


def rescale(
    store: TableStore,
    buckets: int | None = None,
    partition: Mapping[str, object] | None = None,
    user: str | None = None,
) -> list[Snapshot]:
    """Write the rows of a partition, or of the table, anew into `buckets` buckets (the table's option).

    One OVERWRITE; CommitConflict, and nothing changed, when another job wrote there meanwhile. The option itself is not
    altered: writers are refused until it says the same number. Dies half way: the files made so far are orphans.
    """
    layout = Layout.of(store.schema())
    if layout.mode not in {BucketMode.FIXED, BucketMode.POSTPONE}:
        raise ConfigError(f"bucket mode {layout.mode} has no number of buckets to change", table=store.name)
    wanted = layout.bucket_count if buckets is None else buckets
    if wanted < 1:
        raise ConfigError(f"{wanted} is no number of buckets", table=store.name, hint="--bucket-num 4")
    base = store.snapshots.latest()
    if base is None:
        return []
    user = user or store.new_commit_user()
    spec = PartitionSpec.of(layout, partition or {})
    _check_visible(store, layout, base, spec)
    seen = contents(store, base, spec.covers)
    with OverwriteWriter.open_on(store, partition or {}, user, {"bucket": str(wanted)}) as writer:
        # As the table is now: columns may have been altered since the snapshot.
        reader = SplitReader(store, layout, layout.schema.fields)
        for split in plan_state(store, layout, base).splits:
            if spec.covers(split.partition):
                for batch in reader.read(split):
                    writer.write(batch)
        messages = writer.prepare()
        writer.forget()
        committer = Committer(store, user)
        try:
            done = committer.overwrite(messages, spec.covers, seen=seen)
        except CommitConflict:
            discard(store, layout, messages)
            raise
        if done.lost_compaction is None or done.last is None:
            return list(done.snapshots)
        log.warning("compaction lost table=%s reason=%s", store.name, done.lost_compaction.message)
        discard(store, layout, [only_compaction(message) for message in messages])
        completion = Completion(committer, writer.layout, writer.open_bucket)
        return [*done.snapshots, *completion.compact(compacted_buckets(messages), done.last).snapshots]


def _check_visible(store: TableStore, layout: Layout, base: Snapshot, spec: PartitionSpec) -> None:
    """Rows that no scan shows yet would be lost."""
    hidden = invisible_level_0(layout)
    for entry in live_entries(store, base):
        if spec.covers(entry.partition) and (entry.bucket < 0 or (hidden and entry.file.level == 0)):
            raise ConfigError(
                "some rows wait for a compaction before they can be read",
                table=store.name,
                file=entry.file.name,
                hint="compact the table first, then rescale it",
            )
