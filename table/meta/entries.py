"""The entries of manifests, manifest lists and index manifests, and the commit messages of writers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias

from penstock.table.meta.data_file import ColumnStats, DataFile

Bucket: TypeAlias = tuple[bytes, int]  # (partition as BinaryRow with arity prefix, bucket number)


class FileKind(IntEnum):
    """The kind of a manifest entry, as the number in manifests."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """An entry of a manifest: a data file that was added to or deleted from a bucket."""

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile

    def deleted(self) -> ManifestEntry:
        """Return the entry that deletes this file."""
        return replace(self, kind=FileKind.DELETE)

    @property
    def identity(self) -> tuple[object, ...]:
        """Return the key that identifies the file. It contains the level, so that an upgrade is a delete and an add."""
        # As in Java, two entries that differ in any of these members are about different files.
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """An entry of a manifest list."""

    name: str
    size: int
    added_files: int
    deleted_files: int
    partition_stats: ColumnStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None


@dataclass(frozen=True, slots=True)
class VectorRange:
    """The position of one data file's deletion vector within an index file."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


HASH_INDEX = "HASH"
DELETION_VECTORS = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An entry of an index manifest. In files `kind` is always ADD; DELETE occurs only in commit messages."""

    kind: FileKind
    partition: bytes
    bucket: int
    index_type: str
    name: str
    size: int
    row_count: int
    vector_ranges: tuple[VectorRange, ...] | None = None
    external_path: str | None = None
    unknown: dict[str, object] = field(default_factory=dict, compare=False)  # fields of later releases, kept on rewrite

    def deleted(self) -> IndexEntry:
        """Return the change that deletes this file. It names no deletion vectors, since it marks no rows."""
        place = self.partition, self.bucket, self.index_type
        return IndexEntry(FileKind.DELETE, *place, self.name, self.size, self.row_count)


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """The changes of one bucket by one writer in one batch.

    It contains metadata only, small enough to be sent to the driver.

    `base_snapshot` is the snapshot from which the writer read the bucket's state (0: none), and `base_mark` its mark,
    if it is known: after a rollback another snapshot may have the id. `first_sequence` is the sequence number of the
    writer's first row, even if that row is in no file because a later row replaced it. The committer uses these to
    detect rows of a concurrent job. `vectors_read` are the index files with the deletion vectors that a compaction
    applied. The first three lists are committed as APPEND, the others as COMPACT.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFile, ...] = ()
    deleted_files: tuple[DataFile, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    compact_changelog: tuple[DataFile, ...] = ()
    index_changes: tuple[IndexEntry, ...] = ()  # of the APPEND commit: hash indexes
    compact_index_changes: tuple[IndexEntry, ...] = ()  # of the COMPACT commit: deletion vectors
    base_snapshot: int = 0
    base_mark: int = 0
    first_sequence: int | None = None
    vectors_read: tuple[str, ...] = ()

    @property
    def has_compaction(self) -> bool:
        return bool(self.compact_before or self.compact_after)

    @property
    def written_files(self) -> tuple[DataFile, ...]:
        """Return the data files that the writer of this message wrote.

        An upgraded file is in `compact_before` and `compact_after`, on different levels. It existed before the message,
        unless it is one of its new files.
        """
        existed = {file.name for file in self.compact_before} - {file.name for file in self.new_files}
        made = (*self.new_files, *self.changelog_files, *self.compact_after, *self.compact_changelog)
        return tuple(file for file in made if file.name not in existed)
