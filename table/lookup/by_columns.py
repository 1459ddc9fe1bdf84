"""The lookup by any columns: the rows of the table sorted by these columns, in local files.

A local file has the rows of one bucket, or of some files of a table without keys, and belongs to exactly these data
files. For a new snapshot, only the changed files are sorted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.table.buckets.layout import Layout
from penstock.table.compaction.lookup_store import LookupStore, bucket_mark, columns_mark
from penstock.table.lookup.partitions import LookupPartitions
from penstock.table.lookup.sorted_part import SortedPart, content_mark
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import Bucket
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.read.plan import plan_state
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split, VectorPlace
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.buffers import Ints

# The files of an append table that are sorted together. Fewer would make each lookup ask more local files, and more
# would sort more rows again after each commit.
MOST_FILES, MOST_BYTES = 64, 256 << 20


class ColumnIndex:
    """A `DimensionIndex` by any columns; a key may have several rows."""

    def __init__(
        self,
        store: TableStore,
        columns: tuple[str, ...],
        by: tuple[str, ...],
        local: LookupStore,
        partitions: LookupPartitions | None,
    ) -> None:
        """Look up the rows of these partitions; None: of all."""
        self._store, self._columns, self._local, self._partitions = store, columns, local, partitions
        self.key_columns = by
        self._parts: list[SortedPart] = []

    def load(self, schema: TableSchema, snapshot: Snapshot | None) -> None:
        layout = Layout.of(schema)
        wanted = {*self.key_columns, *self._columns}
        fields = tuple(field for field in schema.fields if field.name in wanted)
        self._schema = arrow_schema(schema.select(self._columns))
        reader = SplitReader(self._store, layout, fields)
        mark = columns_mark(replace(schema, fields=fields))
        self._parts = []
        splits: Sequence[Split] = plan_state(self._store, layout, snapshot).splits
        if self._partitions is not None:
            splits = self._partitions.of(layout, splits)
        for split in _parts(layout, splits):
            place = bucket_mark(self._store, (split.partition, split.bucket))
            name = f"{content_mark(layout, split)}-{place}.{mark}-by-{_columns(self.key_columns)}"
            self._parts.append(SortedPart(name, split, reader, self.key_columns, self._local))

    def find(self, probes: Sequence[pa.Array]) -> tuple[Ints, pa.Table]:
        found = [matches for part in self._parts if (matches := part.find(probes)) is not None]
        if not found:
            return np.zeros(0, np.int64), self._schema.empty_table()
        rows = pa.concat_tables([rows.select(list(self._columns)).cast(self._schema) for _, rows in found])
        return np.concatenate([numbers for numbers, _ in found]), rows


def _columns(names: tuple[str, ...]) -> str:
    return hashlib.blake2s(repr(names).encode(), digest_size=4).hexdigest()


def _parts(layout: Layout, splits: Sequence[Split]) -> Iterator[Split]:
    """Yield the splits; each becomes one local file."""
    buckets: dict[Bucket, list[Split]] = {}
    for split in splits:
        buckets.setdefault((split.partition, split.bucket), []).append(split)
    for place, members in buckets.items():
        files = [file for split in members for file in split.files]
        vectors = {name: vector for split in members for name, vector in split.vectors.items()}
        raw = all(split.raw for split in members)
        for group in [files] if layout.has_keys else _groups(files):
            yield Split(*place, tuple(group), raw, _of(group, vectors))


def _of(files: Sequence[DataFile], vectors: Mapping[str, VectorPlace]) -> dict[str, VectorPlace]:
    return {file.name: vectors[file.name] for file in files if file.name in vectors}


def _groups(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Yield the files of an append table in groups. New files come last, so they change only the last group."""
    group: list[DataFile] = []
    for file in files:
        if group and (len(group) == MOST_FILES or sum(member.size for member in group) + file.size > MOST_BYTES):
            yield group
            group = []
        group.append(file)
    if group:
        yield group
