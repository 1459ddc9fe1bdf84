"""The files of a bucket, as its writer creates and deletes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.table.buckets.layout import Layout
from penstock.table.files.file_writer import FileNames, RollingWriter
from penstock.table.meta.data_file import DataFile, FileSource
from penstock.table.meta.entries import CommitMessage, FileKind, IndexEntry
from penstock.table.meta.paths import external
from penstock.table.meta.store import TableStore


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
    ) -> RollingWriter:
        """Return a writer of new files of this bucket."""
        return RollingWriter(
            self.store.storage,
            self.folder,
            self.layout.schema,
            self.names,
            clock=self.store.ambient.now_millis,
            level=level,
            source=source,
            changelog=changelog,
            first_sequence=first_sequence,
        )

    def delete(self, message: CommitMessage) -> None:
        """Delete the files that were written for an uncommitted message."""
        for file in message.written_files:
            self.store.storage.delete(self.path(file))
        for entry in (*message.index_changes, *message.compact_index_changes):
            if entry.kind is FileKind.ADD:
                self.store.storage.delete(self.index_path(entry))
