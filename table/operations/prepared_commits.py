"""Commits of prepared messages that can be repeated after the store failed, when nobody knows what took effect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import CommitConflict, ConfigError
from penstock.table.buckets.bucket_files import discard
from penstock.table.buckets.bucket_state import BucketState
from penstock.table.buckets.layout import Layout
from penstock.table.commit.committer import CommittedSnapshots, Committer
from penstock.table.commit.completion import (
    Completion,
    CompletionResult,
    compacted_buckets,
    find_committed,
    only_compaction,
)
from penstock.table.meta.entries import Bucket, CommitMessage
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.schema.table_schema import TableSchema
from penstock.table.write.bucket_writer import BucketWriter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedCommits:
    """The commits of one writer.

    `open_bucket` returns a writer for a bucket in the given state. `abort` deletes the files that the writer has not
    prepared. `uncertain`: a commit failed that may have taken effect.
    """

    store: TableStore
    user: str
    layout: Layout
    open_bucket: Callable[[Bucket, BucketState], BucketWriter]
    abort: Callable[[], None]
    uncertain: bool

    def run(
        self,
        messages: Sequence[CommitMessage],
        number: int,
        newest: Snapshot | None,
        commit: Callable[[Committer, Snapshot | None], CommittedSnapshots],
    ) -> CompletionResult:
        """Commit the messages by `commit`, unless they are committed already, and complete what is missing.

        `newest` is the newest snapshot, which the caller has just read. `commit` receives it if it still is just read.
        """
        committer = Committer(self.store, self.user)
        completion = Completion(committer, self.layout, self.open_bucket)
        # All commits without an identifier share one number; they are recognised by the names of their files
        # instead.
        already = committer.committed(number, newest) or self._committed_before(messages)
        if already is not None:
            self._warn_of_older(messages, number, already)
            return completion.finish(messages, already)
        try:
            # The search for an uncertain commit reads the files of all later snapshots.
            done = commit(committer, None if self.uncertain else newest)
        except (CommitConflict, ConfigError):
            # This commit was refused and has committed nothing, but an earlier attempt of it may still have taken
            # effect.
            if not self.uncertain:
                self._discard(messages)
            raise
        if done.already is not None:
            return completion.finish(messages, done.already)
        rest = CompletionResult()
        if done.lost_compaction is not None:
            log.warning("event=compaction_lost table=%s reason=%s", self.store.name, done.lost_compaction.message)
            self._discard([only_compaction(message) for message in messages])
            if done.last is not None:
                rest = completion.compact(compacted_buckets(messages), done.last)
        return CompletionResult((*done.snapshots, *rest.snapshots), rest.owed)

    def _warn_of_older(self, messages: Sequence[CommitMessage], number: int, newest: Snapshot) -> None:
        """Warn of dropped rows that may differ from the rows of the earlier commit.

        A job that repeats a commit repeats its last one. One that numbers its commits from the start again, or two jobs
        with one user, lose their rows.
        """
        rows = sum(file.row_count for message in messages for file in message.new_files)
        if rows and newest.commit_identifier > number and number != BATCH_IDENTIFIER:
            log.warning(
                "event=rows_of_older_commit_dropped table=%s user=%s identifier=%d newest=%d rows=%d",
                *(self.store.name, self.user, number, newest.commit_identifier, rows),
            )

    def _committed_before(self, messages: Sequence[CommitMessage]) -> Snapshot | None:
        """Return the snapshot that contains these messages, if a commit that failed took effect after all."""
        if not self.uncertain:
            return None
        committed = find_committed(self.store, self.user, messages)
        if not committed.is_known:
            raise CommitConflict(
                "the store failed during a commit, and the snapshots that show whether it took effect have expired",
                table=self.store.name,
                hint="check the rows of the table before you write them again",
            )
        return committed.newest

    def _discard(self, messages: Sequence[CommitMessage]) -> None:
        """Delete the files of messages that were not committed."""
        discard(self.store, messages, self.layout)
        self.abort()


def newest_of_same_table(store: TableStore, schema: TableSchema, base: Snapshot | None) -> Snapshot | None:
    """Return the newest snapshot, for all steps of a commit.

    Raise ConfigError when the schema or snapshot that a writer read has been replaced under the same id: readers would
    read its files by the wrong columns, and its rows were routed by buckets that no longer exist.
    """
    is_same_schema = store.schemas.is_current(schema)
    # Last, because the commit builds on it: nothing that another process does before this is missed.
    newest = store.snapshots.latest()
    found = None if base is None else newest if newest and newest.id == base.id else store.snapshots.find(base.id)
    if not is_same_schema:
        replaced = f"schema {schema.id}"
    elif base is not None and found is not None and found != base:
        replaced = f"snapshot {base.id}"
    else:
        return newest
    raise ConfigError(
        f"{replaced} was replaced after the writer had read it",
        table=store.name,
        hint="the table was rolled back, fast-forwarded, or dropped and created again: open the table again",
    )
