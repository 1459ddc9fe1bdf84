"""The rows of a table without keys with their places: a number of their file, and their position in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.buckets.layout import Layout
from penstock.table.files.row_tracking import ROW_ID, is_tracked
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import Bucket
from penstock.table.operations.changed_files import ChangedFiles
from penstock.table.operations.deleted_rows import FilesUnit, Positions, RowRemoval
from penstock.table.read.filter import RowFilter
from penstock.table.read.plan import plan_state
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from penstock.table.values.arrow_types import arrow_schema

FILE, ROW = "_penstock_file", "_penstock_row"


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A data file that was read, with its partition and bucket."""

    bucket: Bucket
    file: DataFile


@dataclass(slots=True)
class LocatedRows:
    """The rows of one snapshot of a table without keys, with the columns FILE and ROW behind those of the table.

    A file gets its number when it is first read, so files that a filter excludes are never mentioned.
    """

    changed: ChangedFiles
    files: list[PlacedFile] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _all: dict[str, PlacedFile] | None = None

    @property
    def layout(self) -> Layout:
        return self.changed.layout

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table, then `_ROW_ID` if the rows have ids, FILE and ROW."""
        fields = self.layout.schema.fields
        schema = arrow_schema((*fields, ROW_ID) if is_tracked(self.layout.schema) else fields)
        return schema.append(pa.field(FILE, pa.int64())).append(pa.field(ROW, pa.int64()))

    def read(self, columns: Sequence[str] | None, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """Yield the columns of the rows that match; ConfigError at once if the filter cannot be evaluated."""
        store, fields = self.changed.store, self.layout.schema.fields
        condition = None if where is None else RowFilter.of(where, arrow_schema(fields), store.name)
        names = self.schema.names if columns is None else list(columns)
        wanted = tuple(field for field in fields if field.name in names)
        pruning = None if condition is None else condition.expression
        splits = plan_state(store, self.layout, self.changed.base, pruning).splits
        # A batch without columns would have no rows, whose positions are asked for.
        reader = SplitReader(store, self.layout, wanted or fields[:1], condition)
        return self._batches(reader, splits, names)

    def _batches(self, reader: SplitReader, splits: Iterable[Split], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for split in splits:
            for file, batch in reader.read_positions(split):
                number = self._number(PlacedFile((split.partition, split.bucket), file))
                positions = batch.column(batch.num_columns - 1).cast(pa.int64())
                places = {FILE: pa.array(np.full(batch.num_rows, number, np.int64)), ROW: positions}
                yield pa.RecordBatch.from_arrays(
                    [places[name] if name in places else batch.column(name) for name in names], names=list(names)
                )

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of files of the snapshot that were read in other processes."""
        if self._all is None:
            splits = plan_state(self.changed.store, self.layout, self.changed.base).splits
            self._all = {
                file.name: PlacedFile((split.partition, split.bucket), file) for split in splits for file in split.files
            }
        return [self._number(self._all[name]) for name in names]

    def _number(self, placed: PlacedFile) -> int:
        number = self._numbers.setdefault(placed.file.name, len(self.files))
        if number == len(self.files):
            self.files.append(placed)
        return number

    def units(self) -> pa.Table:
        """Return the columns FILE and `unit`: files of one unit must be changed together.

        These are the files of a bucket if rows are marked in deletion vectors, because one index file has them all.
        """
        numbers: dict[Bucket, int] = {}
        marks = RowRemoval.of(self.changed.store, self.layout.schema).marks
        units = [
            numbers.setdefault(placed.bucket, len(numbers)) if marks else number
            for number, placed in enumerate(self.files)
        ]
        return pa.table({FILE: pa.array(range(len(units)), pa.int64()), "unit": pa.array(units, pa.int64())})

    def remove(self, places: Iterable[pa.RecordBatch]) -> None:
        """Remove rows from the files, given columns `unit`, FILE and ROW that are sorted by all three.

        The positions of one unit are in memory at a time.
        """
        removal = RowRemoval.of(self.changed.store, self.layout.schema)
        for _, group in groupby(_positions(places), lambda part: part[0]):
            positions = {self.files[number].file.name: rows for _, number, rows in _joined(group)}
            files = [self.files[self._numbers[name]] for name in positions]
            [bucket] = {placed.bucket for placed in files}
            [state] = self.changed.states([bucket])
            unit = FilesUnit(*bucket, tuple(placed.file for placed in files), state)
            self.changed.add(removal.remove(unit, removal.bucket(unit), partial(_of_file, positions)))


def _of_file(positions: Mapping[str, Positions], file: DataFile, _: Positions | None) -> Positions:
    return positions[file.name]


_Part = tuple[int, int, Positions]


def _positions(places: Iterable[pa.RecordBatch]) -> Iterator[_Part]:
    """Yield the unit, the number of the file and the positions of each run of rows of one file in a batch."""
    for batch in places:
        units, files, rows = (batch.column(at).to_numpy(zero_copy_only=False) for at in range(3))
        ends = [*(np.flatnonzero(np.diff(files)) + 1), len(files)]
        for begin, end in zip([0, *ends], ends, strict=False):
            if end > begin:
                yield int(units[begin]), int(files[begin]), rows[begin:end]


def _joined(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Join the positions of each file, and drop those that occur twice."""
    for (unit, number), group in groupby(parts, lambda part: part[:2]):
        yield unit, number, np.unique(np.concatenate([rows for _, _, rows in group]))
