"""Lookup of old rows by key in the levels that a compaction does not rewrite, starting with the smallest level."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.table.compaction.lookup_file import StoredFile
from penstock.table.compaction.lookup_store import LookupStore
from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.file_reader import POSITION
from penstock.table.merge.sorted_runs import KeyedFile, KeyRows, KeyValue, Levels
from penstock.table.merge.spec import MergeSpec
from penstock.table.meta.data_file import DataFile
from penstock.table.values.buffers import Ints, fixed_values, rows_at
from penstock.table.values.sort_keys import comparable_keys

# Up to this many keys do not justify a lookup file of the whole data file at the first lookup; at the second they do.
FEW_KEYS = 1_024
Vectors = Mapping[str, np.ndarray[Any, Any]]


class RowReader(Protocol):
    """A reader of data files as rows of _SEQUENCE_NUMBER, _VALUE_KIND and columns of the table, such as FileReader."""

    def read(
        self,
        file: DataFile,
        *,
        conditions: Sequence[ColumnCondition] = ...,
        vector: np.ndarray[Any, Any] | None = ...,
        positions: bool = ...,
        batch_rows: int = ...,
    ) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class Hits:
    """The probes that were found, by number, each in row `positions[i]` of `files[file_of[i]]`."""

    probes: Ints
    files: tuple[str, ...]
    file_of: Ints
    positions: Ints
    rows: pa.Table | None  # parallel to `probes`; None if only positions were requested


@dataclass
class Lookup:
    """A lookup of keys in data files.

    `variant` distinguishes what `reader` returns for the same file (schema, columns).

    Without a store, every lookup decodes the files that it touches.
    """

    spec: MergeSpec
    reader: RowReader
    store: LookupStore | None = None
    variant: str = "0"

    def find(
        self, levels: Levels, above: int, probes: Sequence[pa.Array], *, vectors: Vectors, with_rows: bool
    ) -> Hits:
        """Return the visible row of each probe in the levels above `above`.

        Probes are distinct key columns in key order.

        Rows that `vectors` delete are not found; a -D row is found like any other. Hits are in the order of the probes.
        """
        left = np.arange(len(probes[0]))
        is_left = np.ones(len(left), np.bool_)
        found: list[Hits] = []
        for files in filter(None, levels.upper[above:]):
            # A smaller level has the newer row of a key, so that a key is not searched beyond its first hit.
            left = left[is_left[left]]
            if len(left) == 0:
                break
            keyed = sorted((KeyedFile.of(file, self.spec.key_types()) for file in files), key=lambda k: k.low)
            hits = [hit for file in keyed for hit in self._in_range(file, left, probes, vectors, with_rows=with_rows)]
            for hit in hits:
                is_left[hit.probes] = False
            found += hits
        return _joined(found, with_rows=with_rows)

    def _in_range(
        self, keyed: KeyedFile, left: Ints, probes: Sequence[pa.Array], vectors: Vectors, *, with_rows: bool
    ) -> Iterator[Hits]:
        """Yield the remaining probes that are in this file."""
        wanted = _KeySubset(KeyRows(probes, self.spec.key_types()), left).within(keyed.low, keyed.high)
        if len(wanted) == 0:
            return
        name = keyed.file.name
        for which, positions, rows in self._in_file(keyed.file, _selected(probes, wanted), with_rows=with_rows):
            # A marked row was replaced earlier. Its key stays in the search, because a higher level may have a row
            # that is not marked.
            kept = ~np.isin(positions, vectors[name]) if name in vectors else np.ones(len(positions), np.bool_)
            if kept.any():
                rows = rows.filter(pa.array(kept)) if rows is not None and not kept.all() else rows
                places = positions[kept]
                yield Hits(wanted[which[kept]], (name,), np.zeros(len(places), np.int64), places, rows)

    def _in_file(
        self, file: DataFile, probes: Sequence[pa.Array], *, with_rows: bool
    ) -> Iterator[tuple[Ints, Ints, pa.Table | None]]:
        stored = self._stored(file, few=len(probes[0]) <= FEW_KEYS)
        if stored is None:
            yield from self._read(file, probes, with_rows)
            return
        which, positions = stored.find(probes)
        if len(positions):
            yield which, positions, stored.rows(positions, _selected(probes, which)) if with_rows else None

    def _stored(self, file: DataFile, *, few: bool) -> StoredFile | None:
        if self.store is None:
            return None
        name = f"{file.name}-{self.variant}"
        stored = self.store.get(name)
        if stored is not None or (few and not self.store.was_requested(name)):
            return stored
        return self.store.put(name, self.reader.read(file), self.spec.keys, self.spec.key_types())

    def _read(
        self, file: DataFile, probes: Sequence[pa.Array], with_rows: bool
    ) -> Iterator[tuple[Ints, Ints, pa.Table | None]]:
        """Read from the data file itself: only row groups whose key range may contain a probe are decoded."""
        types = self.spec.key_types()
        ordered = KeyRows(probes, types)
        for batch in self.reader.read(file, conditions=self._conditions(probes[0]), positions=True):
            columns = [batch.column(name) for name in self.spec.keys]
            ends = KeyRows(columns, types)
            # Batches and probes are both in key order, so a batch is compared only with the probes in its range.
            begin, end = bisect_left(ordered, ends[0]), bisect_right(ordered, ends[-1])
            if begin == end:
                continue
            keys, wanted = comparable_keys([columns, [probe.slice(begin, end - begin) for probe in probes]], types)
            places = np.searchsorted(keys, wanted)
            hit = keys[places] == wanted  # within bounds: no probe here exceeds the last key of the batch
            if hit.any():
                positions = np.asarray(fixed_values(batch.column(POSITION), np.int64), np.int64)[places[hit]]
                rows = batch.drop_columns([POSITION]).take(pa.array(places[hit])) if with_rows else None
                found = None if rows is None else pa.Table.from_batches([rows])
                yield np.flatnonzero(hit) + begin, positions, found

    def _conditions(self, column: pa.Array) -> list[ColumnCondition]:
        name = self.spec.keys[0]
        if len(column) <= FEW_KEYS:
            return [ColumnCondition(name, "in", tuple(column.to_pylist()))]
        first, last = column[0].as_py(), column[len(column) - 1].as_py()
        return [ColumnCondition(name, ">=", (first,)), ColumnCondition(name, "<=", (last,))]


class _KeySubset(Sequence[KeyValue]):
    """A subset of keys, by number."""

    def __init__(self, keys: KeyRows, numbers: Ints) -> None:
        self._keys, self._numbers = keys, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        return self._keys[int(self._numbers[place])]

    def within(self, low: KeyValue, high: KeyValue) -> Ints:
        """Return the numbers of the keys from `low` to `high`; the keys ascend, and there is one at least."""
        # Both ends first: a search decodes a dozen keys, and most files have the whole range.
        begin = 0 if low <= self[0] else bisect_left(self, low)
        end = len(self) if self[len(self) - 1] <= high else bisect_right(self, high)
        return self._numbers[begin:end]


def _selected(probes: Sequence[pa.Array], wanted: Ints) -> list[pa.Array]:
    if len(wanted) and wanted[-1] - wanted[0] + 1 == len(wanted):
        return [column.slice(int(wanted[0]), len(wanted)) for column in probes]
    return [column.take(pa.array(wanted)) for column in probes]


def _joined(parts: Sequence[Hits], *, with_rows: bool) -> Hits:
    nothing = np.zeros(0, np.int64)
    if not parts:
        return Hits(nothing, (), nothing, nothing, None)
    if len(parts) == 1:
        return parts[0]
    probes = np.concatenate([hits.probes for hits in parts])
    files = tuple(dict.fromkeys(hits.files[0] for hits in parts))
    file_of = np.concatenate([np.full(len(hits.probes), files.index(hits.files[0])) for hits in parts])
    positions = np.concatenate([hits.positions for hits in parts])
    rows = pa.concat_tables([hits.rows for hits in parts]) if with_rows else None
    # Files of one level are searched in key order, but every level begins again with the smallest key.
    if not (probes[1:] < probes[:-1]).any():
        return Hits(probes, files, file_of, positions, rows)
    order = np.argsort(probes, kind="stable")
    return Hits(probes[order], files, file_of[order], positions[order], None if rows is None else rows_at(rows, order))
