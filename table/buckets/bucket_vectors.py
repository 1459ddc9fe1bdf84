"""The deletion vectors of one bucket in the table's index files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from penstock.table.buckets.bucket_files import BucketFiles
from penstock.table.buckets.bucket_state import BucketState
from penstock.table.files.deletion_vectors import decode_vectors, encode_vectors
from penstock.table.meta.entries import DELETION_VECTORS, FileKind, IndexEntry
from penstock.table.options.changelogs import DELETION_VECTORS_BITMAP64

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
