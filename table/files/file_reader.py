"""Data files, written with any schema of the table, as rows of its current schema."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import cramjam
import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError, StoreError, TableCorrupt
from penstock.storage.base import Storage, store_error
from penstock.table.errors import FormatUnknown
from penstock.table.files.avro import reader as avro
from penstock.table.files.column_plan import ColumnPlan, column_plan, conditions_in_file
from penstock.table.files.columns import SEQUENCE_NUMBER, VALUE_KIND
from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.orc import reader as orc
from penstock.table.files.parquet import reader as parquet
from penstock.table.files.relayout import is_split_timestamp
from penstock.table.files.row_tracking import TRACKED
from penstock.table.meta.data_file import DataFile
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.buffers import text_array
from penstock.table.values.casts import cast_array
from penstock.table.values.texts import split_timestamp_text
from penstock.table.values.types import AtomicType, Field

BATCH_ROWS = 16_384
POSITION = "_POSITION"


class _Read(Protocol):
    def __call__(
        self, source: Any, fields: Sequence[Field], *, batch_rows: int, conditions: Sequence[ColumnCondition]
    ) -> Iterator[tuple[int, pa.RecordBatch]]: ...


# Errors that damaged bytes may raise in Arrow, liborc, fastavro and Penstock's own decoders.
_UNREADABLE = (
    *(pa.ArrowException, OSError, ArithmeticError, EOFError, LookupError, RecursionError, TypeError, ValueError),
    *(cramjam.DecompressionError, struct.error, zlib.error),
)
_READERS: Mapping[str, _Read] = {"parquet": parquet.read, "orc": orc.read, "avro": avro.read}
_BY_ROW = frozenset({"avro"})
# The readers that can return texts of few values as dictionary arrays, because files of the format store them so.
_DICTIONARY_READERS: Mapping[str, _Read] = {"parquet": partial(parquet.read, keep_dictionaries=True)}


def reads_columns_apart(files: Iterable[DataFile]) -> bool:
    """Return whether reading a few columns of the files, and the others later, costs about as much as all at once.

    In a format of rows, the whole file is read for each column.
    """
    of_rows = of_columns = 0
    for file in files:
        if file.format in _BY_ROW:
            of_rows += file.size
        else:
            of_columns += file.size
    return of_columns >= of_rows


@dataclass(frozen=True)
class FileReader:
    """A reader of data files of a table (or of one bucket) as rows of `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then `wanted`.

    The two leading columns are read only if `with_sequence` and `with_kind` ask for them. With `with_row_ids` the
    columns TRACKED are first, null in files without them. With `keep_dictionaries`, texts of few values may be
    dictionary arrays, which cost less to fetch rows from; `values.buffers.read_out` returns the texts. `facts`
    (table=, snapshot=) are added to errors. Keeps no file open between reads; one reader may serve many files, one
    after the other or concurrently.
    """

    storage: Storage
    path_of: Callable[[DataFile], str]
    schema_of: Callable[[int], TableSchema]
    wanted: tuple[Field, ...]
    with_sequence: bool = False
    with_kind: bool = False
    with_row_ids: bool = False
    keep_dictionaries: bool = False
    facts: Mapping[str, object] = field(default_factory=dict)
    _plans: dict[int, ColumnPlan] = field(default_factory=dict, repr=False)

    @property
    def system(self) -> tuple[Field, ...]:
        """Return the leading system columns that this reader adds."""
        if self.with_row_ids:
            return TRACKED
        return (SEQUENCE_NUMBER,) * self.with_sequence + (VALUE_KIND,) * self.with_kind

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of every batch, without `_POSITION`."""
        return arrow_schema((*self.system, *self.wanted))

    def read(
        self,
        file: DataFile,
        *,
        conditions: Sequence[ColumnCondition] = (),
        vector: np.ndarray[Any, Any] | None = None,
        positions: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the file's rows in the file's order, in batches of at most `batch_rows`.

        `conditions` name wanted columns and only save work: rows that fail them may still be returned. `vector`
        contains the sorted numbers of the deleted rows. `positions` adds `_POSITION`, the number of each row in the
        file. TableCorrupt when the file is missing, truncated or not a data file of its schema; StoreError when the
        store fails. Holds one batch in memory.
        """
        path = self.path_of(file)
        try:
            yield from self._read(file, path, conditions, vector, positions, batch_rows)
        # Before the others: it is an OSError too, but its cause is expiry or a loss, not a failing store.
        except FileNotFoundError as reason:
            hint = "if the snapshot expired while it was read, plan the scan again; otherwise the table has lost data"
            raise self._corrupt("a data file is missing", file, path, hint) from reason
        except PenstockError as error:
            error.facts = {**self.facts, **error.facts, "file": path}
            raise
        except _UNREADABLE as reason:
            if isinstance(reason, OSError | pa.ArrowException) and _is_of_the_store(reason):
                raise self._store_error(reason, path) from reason
            raise self._corrupt(f"a data file cannot be read: {reason}", file, path) from reason

    def _read(
        self,
        file: DataFile,
        path: str,
        conditions: Sequence[ColumnCondition],
        vector: np.ndarray[Any, Any] | None,
        positions: bool,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        readers = {**_READERS, **_DICTIONARY_READERS} if self.keep_dictionaries else _READERS
        read = readers.get(file.format)
        if read is None:
            raise FormatUnknown(
                f"Penstock cannot read files of format {file.format!r}", hint=f"choices are {', '.join(_READERS)}"
            )
        plan = self._plan(file.schema_id)
        schema = self.schema
        pushed = tuple(conditions_in_file(plan, conditions, self.wanted))
        with closing(self._opened(path)) as source:
            # An Avro file that was truncated between two blocks would be read as a shorter one.
            if file.size != source.size():
                raise TableCorrupt(f"a data file has {source.size()} bytes, its manifest says {file.size}")
            for first_row, batch in read(source, plan.stored, batch_rows=batch_rows, conditions=pushed):
                rows = self._rows(batch, plan, schema)
                if positions:
                    # Positions count deleted rows, so they are added before those are removed.
                    rows = rows.append_column(POSITION, pa.array(np.arange(first_row, first_row + len(rows))))
                kept = rows if vector is None else _without(rows, first_row, vector)
                if kept.num_rows:
                    yield kept

    def _opened(self, path: str) -> Any:
        try:
            return self.storage.open_input(path)
        except FileNotFoundError:
            raise
        except OSError as reason:
            raise self._store_error(reason, path) from reason

    def _store_error(self, reason: Exception, path: str) -> OSError:
        failure = reason if isinstance(reason, OSError) else OSError(str(reason).partition("\n")[0])
        error = store_error(failure, "the store failed while a data file was read", file=path)
        if isinstance(error, StoreError):
            error.facts = {**self.facts, **error.facts}
        return error

    def _plan(self, schema_id: int) -> ColumnPlan:
        if schema_id not in self._plans:
            self._plans[schema_id] = column_plan(self.schema_of(schema_id), self.wanted, self.system)
        return self._plans[schema_id]

    def _rows(self, batch: pa.RecordBatch, plan: ColumnPlan, schema: pa.Schema) -> pa.RecordBatch:
        lead = len(self.system)
        columns = batch.columns[:lead]
        # The readers return null for columns that a file does not have.
        if not self.with_row_ids and any(column.null_count for column in columns):
            raise TableCorrupt(
                "a data file has no sequence numbers or row kinds, so it does not belong to a table with a primary key"
            )
        for place, source in enumerate(plan.sources):
            if source is None:
                columns.append(pa.nulls(batch.num_rows, schema.field(lead + place).type))
                continue
            column = batch.column(lead + source.place)
            if isinstance(source.cast_from, AtomicType) and is_split_timestamp(column.type):
                column = split_timestamp_text(column, source.cast_from.precision)
            elif source.cast_from is not None:
                column = cast_array(text_array(column), source.cast_from, self.wanted[place].type)
            if pa.types.is_dictionary(column.type):
                schema = schema.set(lead + place, schema.field(lead + place).with_type(column.type))
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch

    def _corrupt(self, message: str, file: DataFile, path: str, hint: str | None = None) -> TableCorrupt:
        return TableCorrupt(message, hint=hint, **{**self.facts, "file": path, "schema": file.schema_id})


def _is_of_the_store(reason: Exception) -> bool:
    """Return whether an error was raised by the store rather than by damaged bytes.

    Arrow's OSErrors about the content of a file have neither a subclass nor an errno. Errors of Python files under the
    ORC reader reappear as the text of another error.
    """
    if isinstance(reason, OSError) and (type(reason) is not OSError or reason.errno is not None):
        return True
    return "Detail: Python exception:" in str(reason)


def _without(rows: pa.RecordBatch, first_row: int, vector: np.ndarray[Any, Any]) -> pa.RecordBatch:
    # The vector is sorted, so its numbers within this batch are one slice.
    start, end = np.searchsorted(vector, (first_row, first_row + rows.num_rows))
    if start == end:
        return rows
    kept = np.ones(rows.num_rows, dtype=bool)
    kept[vector[start:end].astype(np.int64) - first_row] = False
    return rows.filter(pa.array(kept))
