"""The metadata of a data file in a manifest.

Its creation time is the writer's local wall clock without a zone, as Java stores it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

# A BinaryRow without columns: four bytes of arity and eight bytes of header, all zero.
EMPTY_ROW = bytes(12)


class FileSource(IntEnum):
    """The kind of write that created a data file, as the number in manifests."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Minima and maxima as BinaryRows with arity prefix, and null counts, each of which may be unknown (None)."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] = ()


EMPTY_STATS = ColumnStats()


@dataclass(frozen=True, slots=True)
class DataFile:
    """The metadata of a data file, as a manifest entry contains it."""

    name: str
    size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: ColumnStats
    value_stats: ColumnStats
    min_sequence: int
    max_sequence: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_millis: int | None = None  # the writer's local wall clock, interpreted as UTC
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None  # None: all columns of the file's schema
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    @property
    def format(self) -> str:
        # The last extension is the only part of a name that has a meaning. The codec may precede it, as in
        # .zstd.parquet.
        return self.name.rpartition(".")[2]
