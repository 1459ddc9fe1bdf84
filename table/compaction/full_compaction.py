"""The schedule of full compactions, which are due every `full-compaction.delta-commits` commits.

The schedule is derived from the table's snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.meta.entries import Bucket, ManifestEntry
from penstock.table.meta.live import delta_entries, live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import CHANGELOG_PRODUCER, FULL_COMPACTION_DELTA_COMMITS
from penstock.table.options.compaction import WRITE_ONLY


@dataclass(frozen=True, slots=True)
class FullCompaction:
    """The schedule of a table.

    `every` is the number of commits between full compactions, None if only the policy decides.

    Commits are counted by their identifiers, so the count continues after a restart. For a commit without an identifier
    a full compaction is always due.
    """

    store: TableStore
    every: int | None
    keys_move: bool = False  # between partitions

    @classmethod
    def of(cls, store: TableStore, layout: Layout) -> FullCompaction:
        """Return the schedule that a table's options set."""
        options = layout.schema.typed
        if not layout.has_keys or options[WRITE_ONLY]:
            return cls(store, None)
        default = 1 if options[CHANGELOG_PRODUCER].by_full_compaction else None
        keys_move = options[CHANGELOG_PRODUCER].by_full_compaction and layout.mode is BucketMode.CROSS_PARTITION
        return cls(store, options.get(FULL_COMPACTION_DELTA_COMMITS, default), keys_move)

    def is_due(self, identifier: int | None) -> bool:
        """Return whether the commit with this identifier includes a full compaction."""
        return self.every is not None and (identifier is None or identifier % self.every == 0)

    @property
    def needs_all_buckets(self) -> bool:
        """Return whether buckets that a due commit did not write must be compacted in one snapshot with its own.

        With a full compaction of each commit, there are none that wait.
        """
        return self.keys_move and self.every != 1

    def buckets(self, state: TableState, identifier: int | None, written: set[Bucket]) -> set[Bucket]:
        """Return the buckets written now and since the last full compaction; empty if no full compaction is due.

        If snapshots since then have expired, or keys move, these are all buckets that wait for one.
        """
        if not self.is_due(identifier):
            return set()
        due = set(written)
        if self.keys_move:
            # The last full compaction may have been lost. The changelog would then show the new row of a key before the
            # delete in a bucket that waits for its next write.
            return due | self._not_compacted(state.snapshot)
        snapshot, left = state.snapshot, (self.every or 1) - 1
        while snapshot is not None and left > 0:
            # One write is an APPEND snapshot and perhaps a COMPACT one, so only the former are counted as commits.
            if snapshot.commit_kind is CommitKind.APPEND:
                entries = delta_entries(self.store, snapshot)
                # Postponed rows are in no bucket that could be compacted.
                due.update((entry.partition, entry.bucket) for entry in entries if entry.bucket >= 0)
                left -= 1
            before = self.store.snapshots.find(snapshot.id - 1)
            # The snapshots have expired, so it is unknown which buckets these commits wrote. One bucket too many only
            # costs time; a bucket that is left out would have no changelog until its next write.
            if before is None and snapshot.id > 1 and left > 0:
                return due | self._not_compacted(state.snapshot)
            snapshot = before
        return due

    def _not_compacted(self, snapshot: Snapshot | None) -> set[Bucket]:
        entries = live_entries(self.store, snapshot, to_commit=True) if snapshot is not None else []
        return not_fully_compacted(entries)


def not_fully_compacted(entries: Iterable[ManifestEntry]) -> set[Bucket]:
    """Return the buckets with rows that no full compaction has compacted since they were written.

    These rows are below the highest level of their bucket with files, or on level 0. Postponed rows are in no bucket,
    and wait for no compaction.
    """
    levels: dict[Bucket, set[int]] = {}
    for entry in entries:
        if entry.bucket >= 0:
            levels.setdefault((entry.partition, entry.bucket), set()).add(entry.file.level)
    return {place for place, found in levels.items() if len(found) > 1 or 0 in found}
