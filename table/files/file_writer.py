"""Writing of a bucket's sorted rows into data files, with a new file whenever the target size is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from penstock.storage.base import Storage
from penstock.table.files.columns import row_fields
from penstock.table.files.encoding import Encoding, encoding_of
from penstock.table.files.null_free import null_free
from penstock.table.files.open_file import OpenFile
from penstock.table.files.relayout import relayout, trim_chars
from penstock.table.files.statistics import StatsMode, stats_modes
from penstock.table.meta.data_file import DataFile, FileSource
from penstock.table.options.changelogs import CHANGELOG_FILE_PREFIX
from penstock.table.options.checks import check_writable
from penstock.table.options.files import DATA_FILE_PREFIX, TARGET_FILE_SIZE
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import to_arrow

# A query for a key decodes the key of a whole row group. Groups of 32,768 rows cost a writer a tenth more than those of
# 131,072, so only compacted files have them: they are sorted, and read more often than they are written.
GROUP_ROWS, COMPACTED_GROUP_ROWS = 131_072, 32_768
_GROUP_BYTES = 32 << 20
_LEAST_GROUP_ROWS = 1_024
_TARGET_KEYED, _TARGET_APPEND = 128 << 20, 256 << 20


@dataclass(frozen=True, slots=True)
class _Form:
    """The common part of the files of a schema version, by level and kind: small files cost little more than this."""

    encoding: Encoding
    prefix: str
    target: int
    rows: pa.Schema
    modes: tuple[StatsMode, ...]


@lru_cache(maxsize=1024)
def _form_of(schema: TableSchema, level: int, *, changelog: bool) -> _Form:
    """Return the form of the files. ConfigError if rows of the table would be written incorrectly."""
    check_writable(schema.options)
    options = schema.typed
    return _Form(
        encoding_of(options, level, changelog=changelog),
        options[CHANGELOG_FILE_PREFIX if changelog else DATA_FILE_PREFIX],
        options.get(TARGET_FILE_SIZE, _TARGET_KEYED if schema.primary_keys else _TARGET_APPEND),
        _rows_of(schema),
        tuple(stats_modes(options, schema.fields, level, changelog=changelog)),
    )


# Levels share it: it is the largest part of a form.
@lru_cache(maxsize=512)
def _rows_of(schema: TableSchema) -> pa.Schema:
    return pa.schema([pa.field(field.name, to_arrow(field.type)) for field in row_fields(schema)])


class FileNames:
    """The names of the files of one writer of one bucket; data and changelog files share a counter."""

    def __init__(self, writer: str) -> None:
        """Start counting. `writer` is a uuid, new for each attempt of each task."""
        self._writer = writer
        self._count = 0

    def next(self, prefix: str, extension: str) -> str:
        """Return the next unused name."""
        name = f"{prefix}{self._writer}-{self._count}{extension}"
        self._count += 1
        return name


@dataclass(frozen=True, slots=True)
class FileFolder:
    """The folder of a bucket's new files, with the names and the local wall clock time that the files get."""

    storage: Storage
    path: str
    names: FileNames
    clock: Callable[[], int]


class RollingWriter:
    """A writer of the files of one level of a bucket, or of its changelog files, one file after the other.

    `write` accepts the columns of `columns.row_fields(schema)` in any order, and rows in the order in which the file is
    to have them. A file is closed after the row group that reaches the target size; row groups are small compared with
    it. Holds the rows of one row group in memory. TableOptions come from `schema.options`.

    `finish` returns the files in order and may be called once. `abort` removes them all, and the caller must call it on
    any error; after a crash the files are orphans. `first_sequence` numbers the rows of append tables. `without_nulls`
    are columns that have no null in any of the rows; where that proves wrong, the writer begins another file.
    """

    def __init__(
        self,
        folder: FileFolder,
        schema: TableSchema,
        *,
        level: int = 0,
        source: FileSource = FileSource.APPEND,
        changelog: bool = False,
        first_sequence: int = 0,
        target_size: int | None = None,
        without_nulls: frozenset[str] = frozenset(),
    ) -> None:
        """Create the writer without opening a file."""
        self._form = form = _form_of(schema, level, changelog=changelog)
        self._folder, self._schema, self._level, self._source = folder, schema, level, source
        self._encoding = form.encoding
        self._changelog = changelog
        self._target = form.target if target_size is None else target_size
        self._sequence = first_sequence
        self._without_nulls = without_nulls
        self._rows = form.rows
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_rows = self._buffered_bytes = 0
        self._open: OpenFile | None = None
        self._made: list[str] = []
        self._files: list[DataFile] = []

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows, and write every row group that is full."""
        for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches():
            if batch.num_rows:
                public = self._public(batch)
                self._buffered.append(public)
                self._buffered_rows += public.num_rows
                self._buffered_bytes += public.nbytes
        # A remainder of less than a tenth of a row group is written with the group before it.
        while self._buffered_rows >= (size := self._group_rows()) + size // 10:
            self._write_group(size)

    def finish(self) -> list[DataFile]:
        """Write the remaining rows and return the files."""
        if self._buffered_rows:
            if self._open is None:
                # The last file has no other rows.
                self._without_nulls |= null_free(self._buffered)
            self._write_group(self._buffered_rows)
        self._close()
        return self._files

    def abort(self) -> None:
        """Remove every file this writer created. May be called twice, and after `finish`."""
        if self._open is not None:
            self._open.abandon()
            self._open = None
        for path in self._made:
            self._folder.storage.delete(path)
        self._made.clear()

    def _public(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [relayout(batch.column(field.name), field.type) for field in self._rows]
        if self._encoding.format == "orc":
            fields = row_fields(self._schema)
            # Trimmed to the precision that the file keeps, so that the statistics fit the values that a reader returns.
            columns = [trim_chars(column, field.type) for column, field in zip(columns, fields, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._rows)

    def _group_rows(self) -> int:
        """Return the number of rows of a row group: fewer when rows are long or the target size is small."""
        # A file ends only after a whole row group, so groups are small compared with the target size.
        room = min(_GROUP_BYTES, self._target // 4)
        by_bytes = self._buffered_rows * room // max(self._buffered_bytes, 1)
        # The rows of a group are in memory: a thousand rows of 50 MB must not be one.
        by_memory = self._buffered_rows * _GROUP_BYTES // max(self._buffered_bytes, 1)
        most = COMPACTED_GROUP_ROWS if self._level > 0 and not self._changelog else GROUP_ROWS
        return max(1, min(_LEAST_GROUP_ROWS, by_memory), min(most, by_bytes))

    def _write_group(self, size: int) -> None:
        table = pa.Table.from_batches(self._buffered)
        group, rest = table.slice(0, size), table.slice(size)
        self._buffered = rest.to_batches()
        self._buffered_rows, self._buffered_bytes = len(rest), rest.nbytes
        if any(group.column(name).null_count for name in self._without_nulls):
            # Those who promised it had wrong statistics. The open file cannot take nulls, the next one can.
            self._without_nulls = frozenset()
            self._close()
        if self._open is not None and not self._open.suits(group):
            # A file has one codec for each column. Only once, so that changing rows do not make many small files.
            self._encoding = replace(self._encoding, packs_floats=True)
            self._close()
        if self._open is None:
            self._open = self._start(group)
        self._open.write(group)
        # The size counts the bytes written so far, after compression.
        if self._open.stream.tell() >= self._target:
            self._close()

    def _start(self, sample: pa.Table) -> OpenFile:
        name = self._folder.names.next(self._form.prefix, self._encoding.extension)
        path = f"{self._folder.path}/{name}"
        # Recorded before the file is opened, because a failed open may have created it, and abort must delete it.
        self._made.append(path)
        stream = self._folder.storage.open_output(path)
        return OpenFile(stream, name, self._schema, self._encoding, sample, self._form.modes, self._without_nulls)

    def _close(self) -> None:
        if self._open is None:
            return
        file = self._open.close(self._level, self._source, self._sequence, self._folder.clock())
        self._open = None
        self._sequence += file.row_count
        self._files.append(file)
