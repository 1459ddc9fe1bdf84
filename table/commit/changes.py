"""The changes of one snapshot, derived from the commit messages of the writers, and the row ids of its new files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.table.meta.data_file import DataFile, FileSource
from penstock.table.meta.entries import CommitMessage, FileKind, IndexEntry, ManifestEntry
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.options.table_options import TableOptions
from penstock.table.options.writers import ROW_TRACKING_ENABLED


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """The changes of one snapshot: manifest entries, changelog entries, index changes.

    `base` replaces all entries that were in the table before: the previous snapshot's manifests are not read then.
    `statistics` is the name of a new statistics file.
    """

    kind: CommitKind
    entries: list[ManifestEntry] = field(default_factory=list)
    changelog: list[ManifestEntry] = field(default_factory=list)
    index: list[IndexEntry] = field(default_factory=list)
    base: list[ManifestEntry] | None = None
    options: Mapping[str, str] = field(default_factory=dict)  # applied when the manifests of `base` are written
    statistics: str | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.entries or self.changelog or self.index)

    @property
    def has_deletes(self) -> bool:
        return any(entry.kind is FileKind.DELETE for entry in self.entries)

    @property
    def removed(self) -> list[ManifestEntry]:
        """Return the entries of files that leave the table: an upgraded file is deleted and added."""
        # By name and not by identity: the level is part of the identity, and an upgrade changes it.
        added = {entry.file.name for entry in self.entries if entry.kind is FileKind.ADD}
        return [entry for entry in self.entries if entry.kind is FileKind.DELETE and entry.file.name not in added]

    @property
    def partitions(self) -> set[bytes]:
        return {entry.partition for entry in self.entries} | {entry.partition for entry in self.index}


def append_half(messages: Sequence[CommitMessage]) -> CommitChanges:
    """Return the APPEND half of a commit: new rows, their changelog, and index changes."""
    changes = CommitChanges(CommitKind.APPEND)
    for message in messages:
        changes.entries.extend(_entries(message, FileKind.DELETE, message.deleted_files))
        changes.entries.extend(_entries(message, FileKind.ADD, message.new_files))
        changes.changelog.extend(_entries(message, FileKind.ADD, message.changelog_files))
        changes.index.extend(message.index_changes)
    return changes


def compact_half(messages: Sequence[CommitMessage]) -> CommitChanges:
    """Return the COMPACT half of a commit: replaced files, their changelog, and index changes."""
    changes = CommitChanges(CommitKind.COMPACT)
    # Deletes precede adds, because an upgrade to another level has the same file in both.
    for message in messages:
        changes.entries.extend(_entries(message, FileKind.DELETE, message.compact_before))
    for message in messages:
        changes.entries.extend(_entries(message, FileKind.ADD, message.compact_after))
        changes.changelog.extend(_entries(message, FileKind.ADD, message.compact_changelog))
        changes.index.extend(message.compact_index_changes)
    return changes


def _entries(message: CommitMessage, kind: FileKind, files: Iterable[DataFile]) -> list[ManifestEntry]:
    return [ManifestEntry(kind, message.partition, message.bucket, message.total_buckets, file) for file in files]


def record_delta(entries: Iterable[ManifestEntry]) -> int:
    """Return how many rows the entries add to the table, without deduplication by key."""
    return sum(entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count for entry in entries)


def with_row_ids(
    changes: CommitChanges, latest: Snapshot | None, options: Mapping[str, str]
) -> tuple[CommitChanges, int]:
    """Return the changes with row ids and sequence numbers, and the first row id of the next commit.

    The sequence number of a row is the id of the snapshot that wrote it, so both depend on the snapshot this commit
    follows.
    """
    next_id = latest.next_row_id if latest else 0
    if not TableOptions(options)[ROW_TRACKING_ENABLED]:
        return changes, next_id
    snapshot_id = latest.id + 1 if latest else 1
    entries: list[ManifestEntry] = []
    for entry in changes.entries:
        file = replace(entry.file, min_sequence=snapshot_id, max_sequence=snapshot_id)
        new = entry.kind is FileKind.ADD and file.source == FileSource.APPEND and file.first_row_id is None
        if new:
            file = replace(file, first_row_id=next_id)
            next_id += file.row_count
        entries.append(replace(entry, file=file))
    return replace(changes, entries=entries), next_id
