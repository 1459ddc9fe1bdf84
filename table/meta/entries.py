"""The lines of manifests, manifest lists and index manifests, and what a writer hands to a committer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from penstock.table.meta.data_file import ColumnStats, DataFile

Bucket: TypeAlias = tuple[bytes, int]  # (partition as BinaryRow with arity prefix, bucket number)


class FileKind(IntEnum):
    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes a file the same file: its level belongs to it, so that an upgrade is a delete and an add."""
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
    """A line of a manifest list."""

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
    """Where the deletion vector of one data file lies inside an index file."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


HASH_INDEX = "HASH"
DELETION_VECTORS = "DELETION_VECTORS"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A line of an index manifest. `kind` is ADD in files; DELETE only inside a commit message."""

    kind: FileKind
    partition: bytes
    bucket: int
    index_type: str
    name: str
    size: int
    row_count: int
    vector_ranges: tuple[VectorRange, ...] | None = None
    external_path: str | None = None
    unknown: dict[str, object] = field(default_factory=dict, compare=False)  # fields of later versions, kept on rewrite


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """What one bucket's writer made in one batch: metadata only, small enough to travel to the driver.

    `base_snapshot` is the snapshot the writer read the bucket's state from (0: none). `first_sequence` is the number
    that the writer gave to its first row, also when that row is in none of its files because a later one replaced it.
    By both the committer finds rows of another job. `vectors_read` are the index files with the deletion vectors that
    a compaction applied. The first three lists commit as APPEND, the rest as COMPACT.
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
    index_changes: tuple[IndexEntry, ...] = ()  # of the APPEND half: hash index
    compact_index_changes: tuple[IndexEntry, ...] = ()  # of the COMPACT half: deletion vectors
    base_snapshot: int = 0
    first_sequence: int | None = None
    vectors_read: tuple[str, ...] = ()
