"""What a manifest knows of a data file (table-format 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

EMPTY_ROW = bytes(12)


class FileSource(IntEnum):
    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Least and greatest values as BinaryRows with their arity prefix; null counts may be unknown one by one."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] = ()


EMPTY_STATS = ColumnStats()


@dataclass(frozen=True, slots=True)
class DataFile:
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
    creation_millis: int | None = None  # the writer's wall clock, as if it were UTC
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None  # None: all columns of the file's schema
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    @property
    def format(self) -> str:
        return self.name.rpartition(".")[2]
