"""Rows deleted from the files of append tables: marked in deletion vectors, or left out of rewritten files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from penstock.table.buckets.bucket_files import BucketFiles, read_vectors, write_vectors
from penstock.table.buckets.bucket_state import BucketState
from penstock.table.buckets.layout import Layout
from penstock.table.files.file_reader import POSITION, FileReader
from penstock.table.files.row_tracking import is_tracked, with_ids, with_row_ids
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import FileKind, IndexEntry, ManifestEntry
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import DELETION_VECTORS_ENABLED
from penstock.table.read.filter import RowFilter
from penstock.table.schema.table_schema import TableSchema

Positions = npt.NDArray[np.int64]
# Returns the sorted positions of the rows to remove from a file, given its deletion vector.
FilePositions = Callable[[DataFile, Positions | None], Positions]


@dataclass(frozen=True, slots=True)
class FilesUnit:
    """Files of one append bucket to delete rows from, with the state of the bucket."""

    partition: bytes
    bucket: int
    files: tuple[DataFile, ...]
    state: BucketState

    @property
    def size(self) -> int:
        """Return the number of bytes of the files."""
        return sum(file.size for file in self.files)


@dataclass(slots=True)
class DeletedRows:
    """Changed files and index files of a unit, and the paths of the files that were written for them."""

    entries: list[ManifestEntry] = field(default_factory=list)
    index: list[IndexEntry] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    rows: int = 0


@dataclass(frozen=True, slots=True)
class RowRemoval:
    """Removes rows of files: `marks` them in deletion vectors, or rewrites the files without them."""

    store: TableStore
    schema: TableSchema
    marks: bool

    @classmethod
    def of(cls, store: TableStore, schema: TableSchema) -> RowRemoval:
        """Build for a table: rows are marked if it has deletion vectors."""
        return cls(store, schema, schema.typed[DELETION_VECTORS_ENABLED])

    def bucket(self, unit: FilesUnit) -> BucketFiles:
        """Return the bucket of a unit, to which its new files belong."""
        return BucketFiles(self.store, Layout.of(self.schema), unit.partition, unit.bucket)

    def remove(self, unit: FilesUnit, bucket: BucketFiles, positions: FilePositions) -> DeletedRows:
        """Remove the rows at the positions of each file, and return the changed files."""
        vectors = read_vectors(bucket, unit.state) if self.marks else {}
        # One index file contains the vectors of the whole bucket, so the vectors of unchanged files are written again
        # too.
        marked, deleted = dict(vectors), DeletedRows()
        for file in unit.files:
            hits = positions(file, vectors.get(file.name))
            if not len(hits):
                continue
            deleted.rows += len(hits)
            if self.marks:
                marked[file.name] = np.union1d(vectors.get(file.name, hits), hits)
            else:
                self._rewrite(bucket, unit.state, file, hits, deleted)
        if any(marked[name] is not vectors.get(name) for name in marked):
            entry = write_vectors(bucket, marked)
            deleted.made.append(bucket.index_path(entry))
            deleted.index.append(entry)
        return deleted

    def reader(self, bucket: BucketFiles) -> FileReader:
        """Return a reader of all columns of the bucket's files."""
        fields = self.schema.fields
        return FileReader(
            self.store.storage, bucket.path, self.store.schemas.get, fields, facts={"table": self.store.name}
        )

    def _rewrite(
        self, bucket: BucketFiles, state: BucketState, file: DataFile, gone: Positions, into: DeletedRows
    ) -> None:
        """Rewrite the file without the deleted rows; the remaining rows keep their order among all files."""
        writer = bucket.open(first_sequence=file.min_sequence)
        tracked = is_tracked(self.schema)
        if tracked:
            layout = Layout.of(with_row_ids(self.schema))
            writer = replace(bucket, layout=layout).open(first_sequence=file.min_sequence)
        done = False
        try:
            # The rows to delete are passed as a deletion vector, which the reader leaves out.
            reader = replace(self.reader(bucket), with_row_ids=tracked)
            for batch in reader.read(file, vector=gone, positions=tracked):
                writer.write(with_ids(batch, file, batch.column(POSITION)) if tracked else batch)
            new = writer.finish()
            done = True
        finally:
            if not done:
                writer.abort()
        into.made += [bucket.path(file) for file in new]
        place = bucket.partition, bucket.bucket, state.total_buckets or bucket.layout.bucket_count
        into.entries.append(ManifestEntry(FileKind.ADD, *place, file).deleted())
        into.entries += [ManifestEntry(FileKind.ADD, *place, made) for made in new]


@dataclass(frozen=True, slots=True)
class FilesDelete:
    """Deletes the rows of files that match a condition."""

    removal: RowRemoval
    condition: RowFilter

    def __call__(self, unit: FilesUnit) -> DeletedRows:
        """Return the changed files. A process that dies half way leaves orphan files."""
        bucket = self.removal.bucket(unit)
        return self.removal.remove(unit, bucket, partial(self._hits, bucket))

    def _hits(self, bucket: BucketFiles, file: DataFile, vector: Positions | None) -> Positions:
        """Return the positions of the rows to delete."""
        parts = [
            batch.column(POSITION).filter(self.condition.mask(batch.drop_columns([POSITION]))).to_numpy()
            for batch in self.removal.reader(bucket).read(file, vector=vector, positions=True)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)
