"""The writer of Parquet data files. To readers the files look like those parquet-mr writes for Paimon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.table.files.columns import has_nanosecond_columns, stored_rows, stored_schema
from penstock.table.files.encoding import Encoding
from penstock.table.files.parquet.codings import SAMPLE_ROWS, codings_of
from penstock.table.files.parquet.required_members import without_hidden_nulls
from penstock.table.values.types import Field


class ParquetWriter:
    """The writer of one Parquet file. Every `write` is a row group."""

    def __init__(self, stream: Any, fields: Sequence[Field], encoding: Encoding, sample: pa.Table) -> None:
        self._fields, self._stored = tuple(fields), stored_schema(tuple(fields), "parquet")
        self._collected: list[Any] = []
        first = self._converted(sample.slice(0, SAMPLE_ROWS))
        codings = codings_of(first, fields, encoding, sample)
        self._random = codings.random
        # A small file has nothing but its sample, whose columns are not made again.
        self._sample = (sample, first) if len(sample) <= SAMPLE_ROWS else None
        self._writer = pq.ParquetWriter(
            stream,
            self._stored,
            version="2.6",
            compression=codings.codecs,
            compression_level=codings.levels,
            use_dictionary=codings.dictionary,
            data_page_size=encoding.page_bytes,
            dictionary_pagesize_limit=encoding.dictionary_bytes,
            column_encoding=codings.encodings,
            # One INT96 column makes all timestamps of the file INT96; Java reads them by the table's types.
            use_deprecated_int96_timestamps=has_nanosecond_columns(self._fields),
            store_decimal_as_integer=True,
            # parquet-mr stores no Arrow schema either, by which readers would restore other types.
            store_schema=False,
            metadata_collector=self._collected,
        )

    def suits(self, rows: pa.Table) -> bool:
        """Return whether the columns that are not compressed are random in these rows, too."""
        return self._random.are_random_in(rows)

    def write(self, rows: pa.Table) -> None:
        """Append rows as a row group."""
        stored = self._stored_rows(rows)
        self._writer.write_table(stored, row_group_size=max(len(stored), 1))

    def _stored_rows(self, rows: pa.Table) -> pa.Table:
        sample, self._sample = self._sample, None
        if sample is not None and sample[0] is rows:
            return sample[1]
        return self._converted(rows)

    def _converted(self, rows: pa.Table) -> pa.Table:
        return without_hidden_nulls(stored_rows(rows, self._fields, self._stored))

    def close(self) -> Any:
        """End the file without closing the stream, and return its footer."""
        self._writer.close()
        return self._collected[0]
