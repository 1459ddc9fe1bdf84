"""Assigning postponed rows (bucket -2) to real buckets: the compaction of a table that postpones bucketing.

Rows are read in the order of their commits, routed as in a table with a fixed number of buckets, then merged and
compacted there. One COMPACT snapshot deletes the postponed files and adds the new ones; until then the rows are not
visible.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.errors import ManifestMissing
from penstock.table.files.columns import VALUE_KIND
from penstock.table.files.file_reader import FileReader
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import CommitMessage, ManifestEntry
from penstock.table.meta.live import delta_entries, live_entries
from penstock.table.meta.paths import POSTPONE_BUCKET
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.write import TableWriter
from penstock.table.options.buckets import POSTPONE_DEFAULT_BUCKET_NUM
from penstock.table.read.plan import grouped
from penstock.table.values.arrow_types import arrow_schema

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PostponedPartition:
    """The postponed files of a partition, and the number of buckets its rows are distributed to."""

    partition: bytes
    files: tuple[DataFile, ...]
    buckets: int


def bucket_totals(layout: Layout, live: Sequence[ManifestEntry]) -> dict[bytes, int]:
    """Return the number of buckets per partition.

    It is the current number, or `postpone.default-bucket-num` for a partition that has only postponed rows.
    """
    default = layout.schema.typed[POSTPONE_DEFAULT_BUCKET_NUM]
    totals = dict.fromkeys((entry.partition for entry in live), default)
    return totals | {entry.partition: entry.total_buckets for entry in live if entry.bucket >= 0}


def postponed(
    store: TableStore, layout: Layout, live: Sequence[ManifestEntry], snapshot: Snapshot
) -> list[PostponedPartition]:
    """Return the postponed files of each partition that has some, in the order of their commits."""
    totals = bucket_totals(layout, live)
    waiting = grouped([entry for entry in live if entry.bucket == POSTPONE_BUCKET])
    return [
        PostponedPartition(
            partition, tuple(entry.file for entry in _in_order(store, entries, snapshot)), totals[partition]
        )
        for (partition, _), entries in waiting.items()
    ]


def _in_order(store: TableStore, waiting: Sequence[ManifestEntry], snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the files of a partition in the order of their commits.

    Manifests list them in this order, unless a merge of manifests in Java has put rewritten ones behind newer ones. A
    file that is older than the one before it is a sign of that (or of two hosts whose clocks differ). Then the order is
    taken from the snapshots. Files older than all snapshots are sorted by time, as Java sorts all of them.
    """
    if all(_millis(before) <= _millis(after) for before, after in pairwise(waiting)):
        return list(waiting)
    added = _adding_snapshots(store, {entry.identity for entry in waiting}, snapshot)
    return sorted(waiting, key=lambda entry: (added[entry.identity], 0 if added[entry.identity] else _millis(entry)))


def _adding_snapshots(
    store: TableStore, files: Set[tuple[object, ...]], snapshot: Snapshot
) -> dict[tuple[object, ...], int]:
    """Return the id of the snapshot that added each file, or 0 if that snapshot has expired."""
    added = dict.fromkeys(files, 0)
    left, made = set(files), snapshot
    while left:
        try:
            found = left & {entry.identity for entry in delta_entries(store, made)}
        except ManifestMissing:
            if store.snapshots.exists(made.id):
                raise
            break  # it has expired while it was read
        added |= dict.fromkeys(found, made.id)
        left -= found
        before = store.snapshots.find(made.id - 1)
        if before is None:
            break
        made = before
    return added


def _millis(entry: ManifestEntry) -> int:
    return entry.file.creation_millis or 0


def warn_of_postponed_rows(store: TableStore, verb: str) -> None:
    """Log a warning if rows wait for their bucket: a statement that changes rows does not see them."""
    latest = store.snapshots.latest()
    if latest is None or Layout.of(store.schema()).mode is not BucketMode.POSTPONE:
        return
    waiting = sum(entry.file.row_count for entry in live_entries(store, latest) if entry.bucket == POSTPONE_BUCKET)
    if waiting:
        log.warning(
            "event=postponed_rows_not_seen table=%s rows=%d: %s does not see rows that wait for their bucket; "
            "compact the table first",
            store.name,
            waiting,
            verb,
        )


def distribute(
    store: TableStore, layout: Layout, parts: Sequence[PostponedPartition], user: str, base: int
) -> Iterator[CommitMessage]:
    """Yield the messages of one compaction on snapshot `base`.

    The real buckets are compacted too if their options ask for it. After a crash half way, the files written so far are
    orphans. Uses `write-buffer-size` of memory.
    """
    # A writer routes rows by one number of buckets, so each number needs a writer.
    for buckets in sorted({part.buckets for part in parts}):
        # The rows are compacted here even if the writers of the table do not compact.
        options = {**layout.schema.options, "bucket": str(buckets), "write-only": "false"}
        with TableWriter.open(store, user, options) as writer:
            chosen = [part for part in parts if part.buckets == buckets]
            for part in chosen:
                for batch, kinds in _rows(store, layout, part):
                    writer.write(batch, kinds)
            messages = writer.prepare()
            yield from (_as_compaction(store, layout, message) for message in messages)
            yield from (
                CommitMessage(
                    part.partition, POSTPONE_BUCKET, POSTPONE_BUCKET, compact_before=part.files, base_snapshot=base
                )
                for part in chosen
            )
            writer.forget()


def _rows(
    store: TableStore, layout: Layout, part: PostponedPartition
) -> Iterator[tuple[pa.RecordBatch, np.ndarray[tuple[int], np.dtype[np.int8]]]]:
    reader = FileReader(
        store.storage,
        layout.path_of(store.paths, part.partition, POSTPONE_BUCKET),
        store.schemas.get,
        layout.schema.fields,
        with_kind=True,
        facts={"table": store.name, "bucket": POSTPONE_BUCKET},
    )
    columns = arrow_schema(layout.schema.fields)
    for file in part.files:
        for batch in reader.read(file):
            kinds = batch.column(VALUE_KIND.name).to_numpy(zero_copy_only=False).astype(np.int8)
            yield batch.select(columns.names), kinds


def _as_compaction(store: TableStore, layout: Layout, message: CommitMessage) -> CommitMessage:
    """Return a message of rows that were written and compacted together as a compaction only.

    Files that were both created and replaced within the message are deleted.
    """
    made = {file.name: file for file in message.new_files}
    gone = {file.name for file in message.compact_before}
    risen = {file.name for file in message.compact_after}
    files = BucketFiles(store, layout, message.partition, message.bucket)
    # An upgraded file is removed and added under the same name, and stays.
    for name in gone & made.keys() - risen:
        store.storage.delete(files.path(made[name]))
    return replace(
        message,
        new_files=(),
        changelog_files=(),
        index_changes=(),
        compact_before=tuple(file for file in message.compact_before if file.name not in made),
        compact_after=(*(file for name, file in made.items() if name not in gone), *message.compact_after),
        compact_changelog=(*message.changelog_files, *message.compact_changelog),
        compact_index_changes=(*message.index_changes, *message.compact_index_changes),
    )
