"""A data file that is being written, in one of the formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import is_retract
from penstock.table.files.avro.reader import AvroWriter
from penstock.table.files.columns import SEQUENCE_NUMBER, VALUE_KIND, file_fields
from penstock.table.files.encoding import Encoding
from penstock.table.files.null_free import declared_fields
from penstock.table.files.orc.reader import OrcWriter
from penstock.table.files.parquet.writer import ParquetWriter
from penstock.table.files.statistics import FileStatistics, StatsMode
from penstock.table.meta.data_file import EMPTY_ROW, DataFile, FileSource
from penstock.table.options.files import METADATA_STATS_DENSE_STORE
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.binary_row import encode_row
from penstock.table.values.buffers import fixed_values
from penstock.table.values.internal import internal_values
from penstock.table.values.types import Field


class FormatWriter(Protocol):
    """The writer of one file of one format.

    `close` ends the file, leaves the stream open, and returns the footer if the format has one.
    """

    def write(self, rows: pa.Table) -> None: ...

    def close(self) -> Any: ...


_WRITERS: dict[str, Callable[[Any, Sequence[Field], Encoding, pa.Table], FormatWriter]] = {
    "parquet": ParquetWriter,
    "orc": OrcWriter,
    "avro": AvroWriter,
}


class OpenFile:
    """A file that is being written, with the statistics that its manifest entry will contain."""

    def __init__(
        self,
        stream: Any,
        name: str,
        schema: TableSchema,
        encoding: Encoding,
        sample: pa.Table,
        modes: Sequence[StatsMode],
        without_nulls: frozenset[str],
    ) -> None:
        self.stream = stream
        self._modes = modes
        self._name, self._schema = name, schema
        # Other formats gain nothing by it.
        fields = declared_fields(schema, without_nulls) if encoding.format == "parquet" else file_fields(schema)
        self._writer = _WRITERS[encoding.format](stream, fields, encoding, sample)
        self._statistics = FileStatistics(schema.fields, encoding.format)
        self._keys = schema.select(schema.trimmed_primary_keys)
        self._rows = self._deletes = 0
        self._sequences: tuple[int, int] | None = None
        self._first = self._last = EMPTY_ROW

    def suits(self, rows: pa.Table) -> bool:
        """Return whether the file, as its first rows decided, is a good one for these rows."""
        return not isinstance(self._writer, ParquetWriter) or self._writer.suits(rows)

    def write(self, rows: pa.Table) -> None:
        """Append sorted rows, and include them in the statistics."""
        self._writer.write(rows)
        self._statistics.pass_rows(rows)
        if self._keys:
            self._pass_keyed(rows)
        self._rows += len(rows)

    def _pass_keyed(self, rows: pa.Table) -> None:
        # The rows are sorted, so the first and the last key of the file are its minimum and maximum.
        if self._rows == 0:
            self._first = self._key_of(rows.slice(0, 1))
        self._last = self._key_of(rows.slice(len(rows) - 1))
        ends = pc.min_max(rows.column(SEQUENCE_NUMBER.name))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        before = self._sequences
        self._sequences = (low, high) if before is None else (min(low, before[0]), max(high, before[1]))
        for chunk in rows.column(VALUE_KIND.name).chunks:
            # -U and -D have odd numbers
            self._deletes += int(np.count_nonzero(is_retract(np.asarray(fixed_values(chunk, np.int8), np.int8))))

    def _key_of(self, row: pa.Table) -> bytes:
        values = [internal_values(row.column(key.name), key.type)[0] for key in self._keys]
        return encode_row(values, [key.type for key in self._keys])

    def abandon(self) -> None:
        """Close the stream of a file that will be deleted."""
        # Arrow's writers close themselves when they are collected: on a closed stream that prints a traceback.
        # After it has refused rows, the writer of Parquet files raises RuntimeError.
        with suppress(OSError, ValueError, RuntimeError, pa.ArrowException):
            self._writer.close()
        with suppress(OSError):
            self.stream.close()

    def close(self, level: int, source: FileSource, first_sequence: int, creation_millis: int) -> DataFile:
        """End the file and return its entry for a manifest."""
        # The format's footer is written first, and the size is read before the stream is closed. It goes into the
        # manifest, where readers expect the exact size.
        footer = self._writer.close()
        size = self.stream.tell()
        self.stream.close()
        if footer is not None:
            self._statistics.pass_footer(footer)
        dense = self._schema.typed[METADATA_STATS_DENSE_STORE]
        stats, columns = self._statistics.value_stats(self._modes, dense=dense)
        # Append tables have no column of sequence numbers: their rows are numbered in order.
        low, high = self._sequences or (first_sequence, first_sequence + self._rows - 1)
        return DataFile(
            name=self._name,
            size=size,
            row_count=self._rows,
            min_key=self._first,
            max_key=self._last,
            key_stats=self._statistics.key_stats(self._keys),
            value_stats=stats,
            min_sequence=low,
            max_sequence=high,
            schema_id=self._schema.id,
            level=level,
            creation_millis=creation_millis,
            delete_row_count=self._deletes,
            source=int(source),
            value_stats_cols=columns,
        )
