"""The files of a bucket, as its writer creates and deletes them: data files, and index files with deletion vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.table.buckets.bucket_state import BucketState
from penstock.table.buckets.layout import Layout
from penstock.table.files.deletion_vectors import decode_vectors, encode_vectors
from penstock.table.files.file_writer import FileFolder, FileNames, RollingWriter
from penstock.table.meta.data_file import DataFile, FileSource
from penstock.table.meta.entries import DELETION_VECTORS, CommitMessage, FileKind, IndexEntry
from penstock.table.meta.paths import external
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import DELETION_VECTORS_BITMAP64


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """The paths and new files of one bucket.

    File names come from one uuid per writer of a bucket, so a task that runs again never collides with its earlier
    files.
    """

    store: TableStore
    layout: Layout
    partition: bytes
    bucket: int
    names: FileNames = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", FileNames(self.store.ambient.new_uuid()))

    @property
    def folder(self) -> str:
        """Return the folder of the bucket's data files."""
        return self.store.paths.bucket_dir(self.layout.partition_dir(self.partition), self.bucket)

    def path(self, file: DataFile) -> str:
        """Return the path of a data file."""
        return self.layout.path_of(self.store.paths, self.partition, self.bucket)(file)

    def index_path(self, entry: IndexEntry) -> str:
        """Return the path of an index file."""
        folder = self.layout.partition_dir(self.partition)
        return external(entry.external_path) or self.store.paths.index_file(entry.name, folder, self.bucket)

    def open(
        self,
        *,
        changelog: bool = False,
        level: int = 0,
        source: FileSource = FileSource.APPEND,
        first_sequence: int = 0,
        without_nulls: frozenset[str] = frozenset(),
    ) -> RollingWriter:
        """Return a writer of new files of this bucket. `without_nulls` are columns that have no null in its rows."""
        return RollingWriter(
            FileFolder(self.store.storage, self.folder, self.names, self.store.ambient.local_millis),
            self.layout.schema,
            level=level,
            source=source,
            changelog=changelog,
            first_sequence=first_sequence,
            without_nulls=without_nulls,
        )

    def delete(self, message: CommitMessage) -> None:
        """Delete the files that were written for an uncommitted message."""
        for file in message.written_files:
            self.store.storage.delete(self.path(file))
        for entry in (*message.index_changes, *message.compact_index_changes):
            if entry.kind is FileKind.ADD:
                self.store.storage.delete(self.index_path(entry))


Vectors = Mapping[str, npt.NDArray[np.int64]]  # by name of data file: the positions of its deleted rows


def read_vectors(bucket: BucketFiles, state: BucketState) -> dict[str, npt.NDArray[np.int64]]:
    """Return the deletion vectors of the bucket's live files.

    A full compaction of Java Paimon that rewrites one file leaves that file's vector in the index. Written again, it
    would get the commit refused as one that marks rows of a missing file, and so would every later compaction.
    """
    found: dict[str, npt.NDArray[np.int64]] = {}
    for entry in _vector_entries(state.index):
        path = bucket.index_path(entry)
        data = bucket.store.storage.read(path)
        found.update(decode_vectors(data, entry.vector_ranges or (), path))
    live = {file.name for file in state.files}
    return {name: vector for name, vector in found.items() if name in live}


def write_vectors(bucket: BucketFiles, vectors: Vectors) -> IndexEntry:
    """Write all vectors of the bucket into one index file, which replaces the previous one, and return its entry."""
    bitmap64 = bucket.layout.schema.typed[DELETION_VECTORS_BITMAP64]
    data, ranges = encode_vectors(vectors, bitmap64=bitmap64)
    name = f"index-{bucket.store.ambient.new_uuid()}-0"
    place = bucket.partition, bucket.bucket
    entry = IndexEntry(FileKind.ADD, *place, DELETION_VECTORS, name, len(data), len(ranges), ranges)
    bucket.store.storage.write(bucket.index_path(entry), data)
    return entry


def dropped_vectors(state: BucketState) -> list[IndexEntry]:
    """Return the changes that leave the bucket without deletion vectors."""
    return [entry.deleted() for entry in _vector_entries(state.index)]


def _vector_entries(index: Iterable[IndexEntry]) -> list[IndexEntry]:
    return [entry for entry in index if entry.index_type == DELETION_VECTORS]


def discard(store: TableStore, messages: Iterable[CommitMessage], layout: Layout | None = None) -> None:
    """Delete the files of messages that were not committed and never will be. `layout` is by default the newest."""
    layout = layout or Layout.of(store.schema())
    for message in messages:
        BucketFiles(store, layout, message.partition, message.bucket).delete(message)
