"""Rows of some data files, sorted by the columns of a lookup and kept in one local file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.buckets.layout import Layout
from penstock.table.compaction.lookup_file import CHUNK_ROWS, StoredFile
from penstock.table.compaction.lookup_store import LookupStore
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from penstock.table.values.buffers import Ints, fixed_values, rows_at
from penstock.table.values.sort_keys import sort_keys

_REST = "_REST"  # the number of rows with the key of this row, from this row on


@dataclass(frozen=True, slots=True)
class SortedPart:
    """The rows of a split in the order of the columns `by`. They are sorted again if the local file was evicted."""

    name: str
    split: Split
    reader: SplitReader
    by: tuple[str, ...]
    local: LookupStore

    def find(self, probes: Sequence[pa.Array]) -> tuple[Ints, pa.Table] | None:
        stored = self.local.get(self.name) or self._sorted()
        if stored is None:
            return None
        which, first = stored.find(probes)
        if len(which) == 0:
            return None
        counts = _rest_at(stored, first)
        if (counts == 1).all():
            return which, stored.rows(first)
        numbers = np.repeat(which, counts)
        starts = np.cumsum(counts) - counts
        places = np.repeat(first - starts, counts) + np.arange(len(numbers))
        return numbers, stored.rows(places)

    def _sorted(self) -> StoredFile | None:
        """Return the sorted rows as a local file, or None if the split has no row with a key."""
        rows = pa.Table.from_batches(self.reader.read(self.split), self.reader.schema)
        for name in self.by:
            rows = rows.filter(pc.is_valid(rows.column(name)))
        if rows.num_rows == 0:
            return None
        types = [field.type for name in self.by for field in self.reader.wanted if field.name == name]
        rows = rows.combine_chunks()
        keys = sort_keys([rows.column(name).combine_chunks() for name in self.by], types)
        order = np.argsort(keys, kind="stable")
        ordered = rows_at(rows, order).append_column(_REST, pa.array(_rest(keys[order])))
        batches = ordered.combine_chunks().to_batches(max_chunksize=CHUNK_ROWS)
        return self.local.put(self.name, batches, self.by, types)


def _rest(keys: np.ndarray[tuple[int], np.dtype[np.generic]]) -> Ints:
    """Return, for each of these sorted keys, the number of equal keys from its place on."""
    ends = np.append(np.flatnonzero(keys[1:] != keys[:-1]) + 1, len(keys))
    starts = np.append(0, ends[:-1])
    return np.asarray(np.repeat(ends, ends - starts) - np.arange(len(keys)), np.int64)


def _rest_at(stored: StoredFile, places: Ints) -> Ints:
    only = replace(stored, batches=tuple(batch.select([_REST]) for batch in stored.batches))
    return np.asarray(fixed_values(only.rows(places).column(_REST).combine_chunks(), np.int64), np.int64)


def content_mark(layout: Layout, split: Split) -> str:
    """Return a name for the rows of a split. They depend on its files, their deletions and the merge options."""
    files = [(file.name, file.level, repr(split.vectors.get(file.name))) for file in split.files]
    content = repr((files, sorted(layout.schema.options.items())))
    return hashlib.blake2s(content.encode(), digest_size=16).hexdigest()
