"""Completion of a commit that ended half way: by a crash between its snapshots, a lost reply, or a lost compaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.table.buckets.bucket_state import BucketState, TableState
from penstock.table.buckets.layout import Layout
from penstock.table.commit.committer import Committer
from penstock.table.commit.prepared_files import compacted_buckets, discard, fate_of, only_compaction
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.meta.entries import Bucket, CommitMessage
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.write.bucket_writer import BucketWriter

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
        fate = fate_of(store, self.committer.user, messages)
        if fate.compaction is not None:
            return CompletionResult()
        if fate.rows is not None:
            done = self.committer.compact(messages, already)
            if done.lost_compaction is None:
                return CompletionResult(done.snapshots)
            # The conflict may be with this very commit: a put that had timed out may have taken effect just now.
            if fate_of(store, self.committer.user, messages).compaction is None:
                discard(store, self.layout, [only_compaction(message) for message in messages])
        elif fate.is_uncommitted:
            discard(store, self.layout, messages)
        else:
            log.warning("files left for the removal of orphan files table=%s: snapshots have expired", store.name)
        if already.commit_kind is CommitKind.COMPACT:  # what is left in level 0 was written by other jobs
            return CompletionResult()
        shown = self._is_shown_by_compaction
        places = {(message.partition, message.bucket) for message in messages} if shown else compacted_buckets(messages)
        return self.compact(places, already)

    def compact(self, places: set[Bucket], after: Snapshot) -> CompletionResult:
        """Compact these buckets as the second half of the commit `after`, if rows are visible only above level 0.

        Otherwise, and after losing three times to other jobs, the compaction is owed by the next commit.
        """
        store = self.committer.store
        if not self._is_shown_by_compaction:
            return CompletionResult(owed=frozenset(places))
        for _ in range(_TRIES):
            state = TableState(store, store.snapshots.latest())
            hidden = [place for place in sorted(places) if _has_level_0(state.bucket(*place))]
            messages = [self.open_bucket(place, state.bucket(*place)).prepare() for place in hidden]
            done = self.committer.compact(messages, after)
            if done.lost_compaction is None:
                return CompletionResult(done.snapshots)
            discard(store, self.layout, messages)
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
