"""Least and greatest values and null counts of a file's columns, as manifests contain them.

Parquet's footer has most of them. Null counts, NaN, and the minima and maxima of columns that a footer does not cover
are computed while the rows are written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.files.columns import has_nanosecond_columns
from penstock.table.files.value_bounds import (
    FLOATS,
    bounds_of_rows,
    converter,
    greatest_prefix,
    has_bounds,
    is_timestamp,
)
from penstock.table.meta.data_file import EMPTY_STATS, ColumnStats
from penstock.table.options.changelogs import CHANGELOG_FILE_STATS_MODE
from penstock.table.options.files import (
    FIELD_STATS_MODE,
    METADATA_STATS_KEEP_FIRST_N_COLUMNS,
    METADATA_STATS_MODE,
    METADATA_STATS_MODE_PER_LEVEL,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.values.binary_row import encode_row
from penstock.table.values.types import AtomicType, DataType, Field


@dataclass(frozen=True, slots=True)
class StatsMode:
    """Which statistics a column gets. `length` truncates texts; None keeps them whole."""

    counts: bool
    bounds: bool
    length: int | None = None


NONE = StatsMode(counts=False, bounds=False)
COUNTS = StatsMode(counts=True, bounds=False)
FULL = StatsMode(counts=True, bounds=True)


def parse_mode(text: str, option: str) -> StatsMode:
    """Return the mode that an option's text names, or raise ConfigError."""
    name = text.strip().lower()
    simple = {"none": NONE, "counts": COUNTS, "full": FULL}
    if name in simple:
        return simple[name]
    match = re.fullmatch(r"truncate\(\s*([1-9]\d*)\s*\)", name)
    if match is None:
        hint = "choices are none, counts, full and truncate(16)"
        raise ConfigError(f"{text!r} is not a mode of statistics", option=option, hint=hint)
    return StatsMode(counts=True, bounds=True, length=int(match[1]))


def stats_modes(options: TableOptions, fields: Sequence[Field], level: int, *, changelog: bool) -> list[StatsMode]:
    """Return for each column which statistics a data file, or a changelog file, records."""
    general = _general_mode(options, level, changelog=changelog)
    first = options[METADATA_STATS_KEEP_FIRST_N_COLUMNS]
    own = {name: parse_mode(options[mode] or "", mode.key) for name, mode in options.matching(FIELD_STATS_MODE)}
    return [
        own.get(field.name) or (general if first < 0 or place < first else NONE) for place, field in enumerate(fields)
    ]


def _general_mode(options: TableOptions, level: int, *, changelog: bool) -> StatsMode:
    if changelog and (own := options[CHANGELOG_FILE_STATS_MODE]) is not None:
        return parse_mode(own, CHANGELOG_FILE_STATS_MODE.key)
    if (own := options[METADATA_STATS_MODE_PER_LEVEL].get(level)) is not None:
        return parse_mode(own, METADATA_STATS_MODE_PER_LEVEL.key)
    return parse_mode(options[METADATA_STATS_MODE], METADATA_STATS_MODE.key)


@dataclass(slots=True)
class Span:
    """The statistics of a column so far. `known` is false once some rows had values whose bounds are unknown."""

    low: Any = None
    high: Any = None
    nulls: int = 0
    known: bool = True

    def widen(self, low: Any, high: Any) -> None:
        """Extend the bounds; None adds nothing."""
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


class FileStatistics:
    """The statistics of one file, collected from its rows and its footer and returned in the form of a manifest."""

    def __init__(self, fields: Sequence[Field], file_format: str) -> None:
        self._fields = tuple(fields)
        self._format = file_format
        self._spans = {field.name: Span() for field in fields}
        int96 = has_nanosecond_columns(self._fields)
        # Only Parquet has bounds in a footer that is read here. They are missing for INT96, and one INT96 column makes
        # all timestamps of a file INT96.
        self._from_rows = {
            field.name for field in fields if file_format != "parquet" or (int96 and is_timestamp(field.type))
        }

    def pass_rows(self, rows: pa.Table) -> None:
        """Add the statistics of rows that were written."""
        for field in self._fields:
            column, span = rows.column(field.name), self._spans[field.name]
            span.nulls += column.null_count
            if isinstance(field.type, AtomicType) and field.type.root in FLOATS:
                # As in parquet-mr, a column with a NaN has no bounds.
                span.known = span.known and not pc.any(pc.is_nan(column)).as_py()
            if field.name in self._from_rows and has_bounds(field.type, self._format):
                span.widen(*bounds_of_rows(column, field.type))

    def pass_footer(self, metadata: Any) -> None:
        """Add the bounds in the footer of a Parquet file."""
        wanted = {
            f.name: f.type for f in self._fields if f.name not in self._from_rows and has_bounds(f.type, "parquet")
        }
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for place in range(group.num_columns):
                chunk = group.column(place)
                # Paths of nested columns have several steps and match no name.
                type_ = wanted.get(chunk.path_in_schema)
                if type_ is not None:
                    _widen_by_footer(self._spans[chunk.path_in_schema], chunk.statistics, group.num_rows, type_)

    def key_stats(self, keys: Sequence[Field]) -> ColumnStats:
        """Return the full statistics of the key columns."""
        return self._stats(keys, [FULL] * len(keys)) if keys else EMPTY_STATS

    def value_stats(self, modes: Sequence[StatsMode], *, dense: bool) -> tuple[ColumnStats, tuple[str, ...] | None]:
        """Return the statistics, and the names of their columns: None for all columns."""
        pairs = list(zip(self._fields, modes, strict=True))
        # A column without statistics is left out of the rows of bounds, and the names of the others are recorded.
        if dense:
            pairs = [(f, mode) for f, mode in pairs if mode.counts and not self._left_out(f.type)]
        stats = self._stats([field for field, _ in pairs], [mode for _, mode in pairs])
        names = tuple(field.name for field, _ in pairs)
        return stats, None if len(names) == len(self._fields) else names

    def _left_out(self, type_: DataType) -> bool:
        nested = not isinstance(type_, AtomicType) or type_.root == "VARIANT"
        return nested and self._format == "parquet"

    def _stats(self, fields: Sequence[Field], modes: Sequence[StatsMode]) -> ColumnStats:
        bounds = [self._bounds(field, mode) for field, mode in zip(fields, modes, strict=True)]
        types = [field.type for field in fields]
        nulls = [self._spans[field.name].nulls for field in fields]
        return ColumnStats(
            encode_row([low for low, _ in bounds], types),
            encode_row([high for _, high in bounds], types),
            tuple(count if mode.counts else None for count, mode in zip(nulls, modes, strict=True)),
        )

    def _bounds(self, field: Field, mode: StatsMode) -> tuple[object, object]:
        span = self._spans[field.name]
        if not mode.bounds or not span.known or span.low is None or not has_bounds(field.type, self._format):
            return None, None
        if mode.length is not None and isinstance(span.low, str):
            # A prefix of the minimum is not above it. A prefix of the maximum is below it and must be raised.
            high = greatest_prefix(span.high, mode.length)
            return (None, None) if high is None else (span.low[: mode.length], high)
        return span.low, span.high


def _widen_by_footer(span: Span, footer: Any, rows: int, type_: DataType) -> None:
    if footer is not None and footer.has_min_max:
        convert = converter(cast(AtomicType, type_))
        span.widen(convert(footer.min_raw), convert(footer.max_raw))
    elif footer is None or footer.null_count != rows:
        span.known = False  # a value was too long for the footer
