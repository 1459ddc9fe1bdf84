"""The checks of a commit against the newest snapshot, which are repeated with each attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import CommitConflict
from penstock.table.buckets.layout import Layout
from penstock.table.commit.attempt import Check
from penstock.table.commit.changes import CommitChanges
from penstock.table.commit.conflicts import (
    check_bucket_totals,
    check_deletes,
    check_levels,
    check_vectors,
    check_vectors_have_files,
)
from penstock.table.commit.foreign_writers import check_foreign_writers, check_kept_partitions, check_not_overwritten
from penstock.table.meta.entries import DELETION_VECTORS, CommitMessage
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.values.binary_row import decode_row
from penstock.table.values.internal import order_values

Covers = Callable[[bytes], bool]
Contents = frozenset[object]


@dataclass(frozen=True, slots=True)
class CommitChecks:
    """The checks of commits to one table.

    Each method returns a function from the newest snapshot to the changes to commit, which raises CommitConflict when
    another commit changed what these changes build on. An attempt reads the newest schema just before it calls it.
    """

    store: TableStore

    def append(self, changes: CommitChanges, messages: Sequence[CommitMessage]) -> Check:
        """Return the check of an APPEND half."""
        base = min((message.base_snapshot for message in messages), default=0)

        def check(latest: Snapshot | None, first: bool) -> CommitChanges:
            if latest is None:
                return changes
            if changes.has_deletes:
                return self._checked_rewrite(changes, latest)
            layout = Layout.of(self.store.schema_last_read())
            # On the snapshot that the writers read, their bucket numbers were checked already.
            if latest.id != base:
                live = live_entries(self.store, latest, partitions=changes.partitions, to_commit=True)
                check_bucket_totals(live, changes.entries, self.store.name)
            if layout.has_keys:
                check_foreign_writers(self.store, layout, messages, latest)
            return changes

        return check

    def rewrite(self, changes: CommitChanges) -> Check:
        """Return the check of changes that delete files."""

        def check(latest: Snapshot | None, first: bool) -> CommitChanges:
            return self._checked_rewrite(changes, latest)

        return check

    def compact(self, changes: CommitChanges, messages: Sequence[CommitMessage], own: Snapshot | None) -> Check:
        """Return the check of a COMPACT half; `own` is the first half of the same commit, if it has one."""

        def check(latest: Snapshot | None, first: bool) -> CommitChanges:
            if self.store.schema_last_read().primary_keys:
                check_not_overwritten(self.store, messages, latest, own)
            index = index_entries(self.store, latest, to_commit=True) if latest else []
            check_vectors(index, messages, self.store.name)
            return self._checked_rewrite(changes, latest)

        return check

    def _checked_rewrite(self, changes: CommitChanges, latest: Snapshot | None) -> CommitChanges:
        layout = Layout.of(self.store.schema_last_read())
        live = live_entries(self.store, latest, partitions=changes.partitions, to_commit=True) if latest else []
        check_deletes(live, changes.entries, self.store.name)
        check_vectors_have_files(live, changes.entries, changes.index, self.store.name)
        # Above level 0 key ranges must not overlap: a level is read as one sorted run.
        if layout.has_keys:
            types = layout.key_types

            def ordered_key(key: bytes) -> tuple[object, ...]:
                return order_values(decode_row(key, types), types)

            check_levels(live, changes.entries, ordered_key, self.store.name)
        return changes

    def overwrite(
        self, append: CommitChanges, messages: Sequence[CommitMessage], covers: Covers, seen: Contents | None
    ) -> Check:
        """Return the check of an overwrite of the partitions that `covers` selects."""

        def check(latest: Snapshot | None, first: bool) -> CommitChanges:
            # A rescale, or an expiry by update time, is based on rows that it read before. Rows that were committed
            # since would be lost with the files that it replaces.
            if seen is not None and contents(self.store, latest, covers) != seen:
                raise CommitConflict(
                    "another job changed a partition while it was being rewritten",
                    table=self.store.name,
                    snapshot=latest.id if latest else None,
                    hint="repeat it while no other job writes to the partition",
                )
            # Each attempt deletes the files that are live by then, so that files committed in the meantime are replaced
            # too.
            live = live_entries(self.store, latest, to_commit=True) if latest else []
            if latest is not None and any(not covers(entry.partition) for entry in live):
                layout = Layout.of(self.store.schema_last_read())
                check_kept_partitions(self.store, layout, messages, covers, latest)
            gone = [entry.deleted() for entry in live if covers(entry.partition)]
            old_index = index_entries(self.store, latest, to_commit=True) if latest else []
            dropped = [entry.deleted() for entry in old_index if covers(entry.partition)]
            return CommitChanges(CommitKind.OVERWRITE, gone + append.entries, [], dropped + append.index)

        return check


def contents(store: TableStore, snapshot: Snapshot | None, covers: Covers) -> Contents:
    """Return the identities of these partitions' files, to detect whether they change.

    These are the data files and the files of deletion vectors.
    """
    if snapshot is None:
        return frozenset()
    files = (entry.identity for entry in live_entries(store, snapshot) if covers(entry.partition))
    index = (entry for entry in index_entries(store, snapshot) if entry.index_type == DELETION_VECTORS)
    return frozenset((*files, *(entry.name for entry in index if covers(entry.partition))))
