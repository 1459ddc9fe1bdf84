"""The structure of a bucket: its levels, its sorted runs, and the sections that are merged independently."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.table.meta.data_file import DataFile
from penstock.table.values.binary_row import decode_row
from penstock.table.values.buffers import Ints
from penstock.table.values.internal import OrderValue, internal_values, order_values
from penstock.table.values.types import DataType

KeyValue: TypeAlias = tuple[OrderValue, ...]


def key_value(row: bytes, types: Sequence[DataType]) -> KeyValue:
    """Return a key that is stored in a manifest."""
    return order_values(decode_row(row, types), types)


class KeyRows(Sequence[KeyValue]):
    """The keys of many rows, decoded only where a search reads them."""

    def __init__(self, columns: Sequence[pa.Array], types: Sequence[DataType]) -> None:
        self._columns, self._types = columns, types

    def __len__(self) -> int:
        return len(self._columns[0])

    def __getitem__(self, row: Any) -> Any:
        row = row if row >= 0 else row + len(self)
        cells = zip(self._columns, self._types, strict=True)
        return order_values([internal_values(column.slice(row, 1), type_)[0] for column, type_ in cells], self._types)


@dataclass(frozen=True, slots=True)
class KeyedFile:
    """A file and its key range, decoded so that Python compares it in the table's order. Both ends are inclusive."""

    file: DataFile
    low: KeyValue
    high: KeyValue

    @classmethod
    def of(cls, file: DataFile, key_types: Sequence[DataType]) -> KeyedFile:
        """Return the file with its decoded key range."""
        return cls(file, key_value(file.min_key, key_types), key_value(file.max_key, key_types))


@dataclass(frozen=True, slots=True)
class FileRun:
    """Files of one level with disjoint key ranges, in key order: reading one after the other returns sorted rows."""

    level: int
    files: tuple[KeyedFile, ...]

    @property
    def size(self) -> int:
        return sum(keyed.file.size for keyed in self.files)

    @property
    def row_count(self) -> int:
        return sum(keyed.file.row_count for keyed in self.files)

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        return tuple(keyed.file for keyed in self.files)


@dataclass(frozen=True, slots=True)
class Section:
    """Runs, older first, whose keys overlap with no other section.

    `in_order`: of two rows of a key, the row in the later run is the newer one, so sequence numbers need not be read.
    """

    runs: tuple[FileRun, ...]
    in_order: bool

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        return tuple(file for run in self.runs for file in run.data_files)

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(run.level for run in self.runs)


@dataclass(frozen=True, slots=True)
class Levels:
    """The live files of a bucket: level 0 newest first, each file a run, and one run per level above."""

    level0: tuple[DataFile, ...]
    upper: tuple[tuple[DataFile, ...], ...]  # upper[i] is level i + 1

    @classmethod
    def of(cls, files: Iterable[DataFile], num_levels: int) -> Levels:
        """Return the levels of these files.

        There are `num_levels` levels, or more if the option was lowered while files are on higher levels.
        """
        files = list(files)
        height = max([num_levels, *(file.level + 1 for file in files)])
        upper = tuple(tuple(file for file in files if file.level == level) for level in range(1, height))
        return cls(tuple(newest_first(file for file in files if file.level == 0)), upper)

    def below_highest(self) -> Levels:
        """Return the levels below the highest one with files; level 0 alone if all files are there."""
        return replace(self, upper=self.upper[: max(self.highest_occupied - 1, 0)])

    @property
    def max_level(self) -> int:
        """Return the number of the top level."""
        return len(self.upper)

    @property
    def highest_occupied(self) -> int:
        """Return the greatest level that contains a file, -1 if the bucket is empty."""
        occupied = [level for level, files in enumerate(self.upper, 1) if files]
        return max(occupied, default=0 if self.level0 else -1)

    @property
    def shown_level(self) -> int:
        """Return the level whose rows the changelog of full compactions has shown.

        This is the highest level with files: only compactions of all files write to the top level, and others write
        below the highest level with files. That level is below the top level if the number of levels was raised since.
        """
        return self.highest_occupied if self.highest_occupied > 0 else self.max_level

    @property
    def run_count(self) -> int:
        """Return the number of sorted runs."""
        return len(self.level0) + sum(1 for files in self.upper if files)

    @property
    def all_files(self) -> tuple[DataFile, ...]:
        """Return the files of all levels."""
        return (*self.level0, *(file for files in self.upper for file in files))


def newest_first(files: Iterable[DataFile]) -> list[DataFile]:
    """Return level-0 files in Java's order."""
    return sorted(files, key=lambda file: (-file.max_sequence, file.min_sequence, file.creation_millis or 0, file.name))


def sections(files: Iterable[DataFile], key_types: Sequence[DataType]) -> list[Section]:
    """Return the files cut into sections at every key that no key range crosses, in key order."""
    keyed = sorted((KeyedFile.of(file, key_types) for file in files), key=lambda k: (k.low, k.high))
    result: list[Section] = []
    members: list[KeyedFile] = []
    bound: KeyValue = ()
    for file in keyed:
        # The greatest key of all files so far counts, because the previous file may end earlier than an older one.
        if members and file.low > bound:
            result.append(_section(members))
            members = []
        bound = max(bound, file.high) if members else file.high
        members.append(file)
    return [*result, _section(members)] if members else result


def _section(members: list[KeyedFile]) -> Section:
    by_level = {level: list(files) for level, files in groupby(sorted(members, key=_level), _level)}
    # Rows move up level by level, so that the highest level has the oldest rows. Level 0 is the newest and follows.
    runs = [FileRun(level, tuple(files)) for level, files in sorted(by_level.items(), reverse=True) if level > 0]
    runs += _level0_runs(by_level.get(0, []))
    return Section(tuple(runs), _in_order(runs))


def _level(keyed: KeyedFile) -> int:
    return keyed.file.level


def _level0_runs(files: list[KeyedFile]) -> list[FileRun]:
    """Return as few runs as possible in which every file follows the older files that it overlaps."""
    age = {file.name: place for place, file in enumerate(reversed(newest_first(keyed.file for keyed in files)))}
    files = sorted(files, key=lambda keyed: age[keyed.file.name])
    lows, highs = _ranges(files)
    # The run of a file is one more than that of any older file it overlaps. In an overlapping pair the older file
    # is therefore always in an earlier run.
    layer = np.zeros(len(files), np.int64)
    for i in range(1, len(files)):
        # Disjoint files share a layer, so that a merge opens fewer runs than there are files.
        older = (lows[:i] <= highs[i]) & (highs[:i] >= lows[i])
        layer[i] = 1 + layer[:i][older].max(initial=-1)
    layers = [[files[i] for i in np.flatnonzero(layer == number)] for number in range(int(layer.max(initial=-1)) + 1)]
    return [FileRun(0, tuple(sorted(members, key=lambda keyed: keyed.low))) for members in layers]


def _ranges(files: Sequence[KeyedFile]) -> tuple[Ints, Ints]:
    """Return the ends of the key ranges as ranks among all ends."""
    # Keys are tuples of values of any type. Their ranks are integers, which numpy compares for all files at once.
    ends = sorted({end for keyed in files for end in (keyed.low, keyed.high)})
    places = {end: place for place, end in enumerate(ends)}
    return np.array([places[k.low] for k in files], np.int64), np.array([places[k.high] for k in files], np.int64)


def _in_order(runs: Sequence[FileRun]) -> bool:
    # A newer run must begin above all sequence numbers of the older files that it overlaps. That is not so when two
    # writers numbered their rows independently; then only the numbers themselves order the rows.
    files = [keyed for run in runs for keyed in run.files]
    lows, highs = _ranges(files)
    number = np.repeat(np.arange(len(runs)), [len(run.files) for run in runs])
    greatest = np.array([keyed.file.max_sequence for keyed in files])
    for i, keyed in enumerate(files):
        older = (number < number[i]) & (lows <= highs[i]) & (highs >= lows[i])
        if (greatest[older] >= keyed.file.min_sequence).any():
            return False
    return True
