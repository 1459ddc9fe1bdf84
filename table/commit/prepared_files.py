"""The files that writers prepared for a commit: which of them are in snapshots, and their deletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.layout import Layout
from penstock.table.meta.entries import Bucket, CommitMessage
from penstock.table.meta.live import delta_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore


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


def fate_of(store: TableStore, user: str, messages: Sequence[CommitMessage]) -> CommittedFiles:
    """Search the user's snapshots since the messages were begun for their files."""
    begun = min((message.base_snapshot for message in messages), default=0)
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
    return CommittedFiles(rows, compaction, is_known=reached <= begun or rows is not None)


def only_compaction(message: CommitMessage) -> CommitMessage:
    """Return the message without its new rows: the half of a commit that may be lost."""
    return replace(message, new_files=(), deleted_files=(), changelog_files=(), index_changes=())


def compacted_buckets(messages: Sequence[CommitMessage]) -> set[Bucket]:
    """Return the buckets in which the messages compact something."""
    return {(message.partition, message.bucket) for message in messages if message.has_compaction}


def discard(store: TableStore, layout: Layout, messages: Sequence[CommitMessage]) -> None:
    """Delete the files of messages that were not committed and never will be."""
    for message in messages:
        BucketFiles(store, layout, message.partition, message.bucket).delete(message)
