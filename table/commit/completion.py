"""Completion of a commit that ended half way: by a crash between its snapshots, a lost reply, or a lost compaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock.table.buckets.bucket_files import discard
from penstock.table.buckets.bucket_state import BucketState, TableState
from penstock.table.buckets.layout import Layout
from penstock.table.commit.committer import Committer
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.meta.entries import Bucket, CommitMessage
from penstock.table.meta.live import delta_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.write.bucket_writer import BucketWriter


@dataclass(frozen=True, slots=True)
class CommittedFiles:
    """The snapshots that contain the files of some messages: `rows` the new files, `compaction` the compacted ones.

    `is_known` is False when expired snapshots may have contained them.
    """

    rows: Snapshot | None
    compaction: Snapshot | None
    is_known: bool

    @property
    def is_uncommitted(self) -> bool:
        return self.is_known and self.rows is None and self.compaction is None

    @property
    def newest(self) -> Snapshot | None:
        return self.compaction or self.rows


def find_committed(store: TableStore, user: str, messages: Sequence[CommitMessage]) -> CommittedFiles:
    """Search the user's snapshots since the messages were begun for their files."""
    begun = min((message.base_snapshot for message in messages), default=0)
    # File names contain a UUID of their writer: one common name identifies the commit.
    written = {file.name for message in messages for file in (*message.new_files, *message.deleted_files)}
    compacted = {file.name for message in messages for file in (*message.compact_before, *message.compact_after)}
    rows = compaction = None
    snapshot = store.snapshots.latest() if messages else None
    reached = snapshot.id if snapshot is not None else begun
    while snapshot is not None and snapshot.id > begun:
        if snapshot.commit_user == user:
            names = {entry.file.name for entry in delta_entries(store, snapshot)}
            if snapshot.commit_kind is CommitKind.COMPACT:
                compaction = compaction or (snapshot if names & compacted else None)
            else:
                rows = rows or (snapshot if names & written else None)
        reached = snapshot.id - 1
        snapshot = store.snapshots.find(reached)
    # A walk that ends at an expired snapshot cannot exclude that this one had the files.
    return CommittedFiles(rows, compaction, is_known=reached <= begun or rows is not None)


def only_compaction(message: CommitMessage) -> CommitMessage:
    """Return the message without its new rows: the half of a commit that may be lost."""
    return replace(message, new_files=(), deleted_files=(), changelog_files=(), index_changes=())


def compacted_buckets(messages: Sequence[CommitMessage]) -> set[Bucket]:
    """Return the buckets in which the messages compact something."""
    return {(message.partition, message.bucket) for message in messages if message.has_compaction}


log = logging.getLogger(__name__)

_TRIES = 3


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """The snapshots that were committed, and the buckets whose compaction is left to the next commit."""

    snapshots: tuple[Snapshot, ...] = ()
    owed: frozenset[Bucket] = frozenset()


@dataclass(frozen=True, slots=True)
class Completion:
    """The completion of half-made commits of `committer`.

    `open_bucket` returns a writer for a bucket in the given state.
    """

    committer: Committer
    layout: Layout
    open_bucket: Callable[[Bucket, BucketState], BucketWriter]

    def finish(self, messages: Sequence[CommitMessage], already: Snapshot) -> CompletionResult:
        """Complete a commit whose identifier has been committed before; `already` is its user's newest snapshot.

        Either a process that died committed it, and the files of `messages` are a second copy and are deleted; or this
        commit did without getting the reply, and its files stay. In both cases missing compactions are repeated where
        rows are visible only after compaction.
        """
        store = self.committer.store
        committed = find_committed(store, self.committer.user, messages)
        if committed.compaction is not None:
            return CompletionResult()
        if committed.rows is not None:
            # The rows are in the table, committed by these very messages. Their files stay, and only the compaction
            # is added.
            done = self.committer.compact(messages, already)
            if done.lost_compaction is None:
                return CompletionResult(done.snapshots)
            # The conflict may be with this very commit: a put that had timed out may have taken effect just now.
            if find_committed(store, self.committer.user, messages).compaction is None:
                discard(store, [only_compaction(message) for message in messages], self.layout)
        elif committed.is_uncommitted:
            discard(store, messages, self.layout)
        else:
            reason = "snapshots have expired, so it is not known whether one has them"
            log.warning("event=files_left_as_orphans table=%s reason=%s", store.name, reason)
        if already.commit_kind is CommitKind.COMPACT:  # the files that are left in level 0 were written by other jobs
            return CompletionResult()
        if not self._is_shown_by_compaction:
            return self.compact(compacted_buckets(messages), already)
        # A key that moved is in its new partition when the rows come again: `messages` do not delete it a second time
        # in the partition that it left, whose bucket was in the first copy only.
        places = {(entry.partition, entry.bucket) for entry in delta_entries(store, already)}
        return self.compact({*places, *((message.partition, message.bucket) for message in messages)}, already)

    def compact(self, places: set[Bucket], after: Snapshot) -> CompletionResult:
        """Compact these buckets as the second half of the commit `after`, if rows are visible only above level 0.

        Otherwise, and after losing three times to other jobs, the compaction is owed by the next commit.
        """
        store = self.committer.store
        if not self._is_shown_by_compaction:
            return CompletionResult(owed=frozenset(places))
        for _ in range(_TRIES):
            # Each try begins with the newest state: files that the last one compacted may be gone.
            state = TableState(store, store.snapshots.latest())
            hidden = [place for place in sorted(places) if _has_level_0(state.bucket(*place))]
            messages = [self.open_bucket(place, state.bucket(*place)).prepare() for place in hidden]
            done = self.committer.compact(messages, after)
            if done.lost_compaction is None:
                return CompletionResult(done.snapshots)
            discard(store, messages, self.layout)
        log.warning("event=compaction_lost table=%s tries=%d", store.name, _TRIES)
        return CompletionResult(owed=frozenset(places))

    @property
    def _is_shown_by_compaction(self) -> bool:
        if not self.layout.has_keys:
            return False
        spec = CompactionSpec.of(self.layout.schema)
        return spec.shows_by_compaction and not spec.lags


def _has_level_0(bucket: BucketState) -> bool:
    return any(file.level == 0 for file in bucket.files)
