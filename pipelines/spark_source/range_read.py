"""A batch read of a stream's rows between two of its offsets, for queries that run on one range after another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from penstock.pipelines.spark_source.change_numbers import CHANGE, numbered
from penstock.pipelines.spark_source.plain_errors import plain_errors
from penstock.pipelines.spark_source.spark_api import arrow_target
from penstock.pipelines.spark_source.spark_options import STREAM_RANGE
from penstock.pipelines.spark_source.stream_read import TableStreamReader
from penstock.pipelines.spark_source.table_read import Piece, PieceRead, shaped
from penstock.row_kinds import INSERT, KIND_TEXTS, ROWKIND
from penstock.table.read.update_pairs import packed_updates, whole_updates
from penstock.table.sql.streams.changelog_kinds import kind_numbers


class SnapshotRangeReader(DataSourceReader):
    """Reads a range. The first column is the number of each change, the others are columns of the stream."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.begin, self.end = json.loads(options[STREAM_RANGE.key])
        names = schema.names[1:]
        # The kinds of the changes themselves; those of `t$audit_log` are a column like others.
        self.shows_kinds = names[:1] == [ROWKIND]
        fields = schema.fields[2:] if self.shows_kinds else schema.fields[1:]
        given = {key: text for key, text in options.items() if key.lower() != STREAM_RANGE.key}
        kinds = StructField(ROWKIND, StringType())
        self.stream = TableStreamReader(given, StructType([kinds, *fields]))
        self.target = arrow_target(schema)

    def partitions(self) -> list[InputPartition]:
        return self.stream.partitions(self.begin, self.end)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        piece = None if partition is None else partition.value
        if isinstance(piece, Piece):
            with plain_errors():
                yield from self._numbered(piece)

    def _numbered(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        count, keys = 0, self.stream.store.schema().primary_keys
        new = self.shows_kinds or not keys
        given = self.stream.table.batches(piece)
        # Rows of the table with which a stream begins are new, whatever their kind in the files.
        batches = map(_as_new, given) if piece.way is PieceRead.STATE else given
        for changes in whole_updates(batches):
            batch = packed_updates(changes) if self.stream.packs_updates else changes
            kinds = np.full(batch.num_rows, INSERT, np.int8) if new else kind_numbers(batch.column(0))
            numbers = numbered(kinds, batch, () if new else keys, count)
            count += batch.num_rows
            columns = [pa.array(numbers), *batch.columns]
            whole = pa.RecordBatch.from_arrays(columns, names=[CHANGE, *batch.schema.names])
            yield shaped(whole, self.target)


def _as_new(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = pa.array([KIND_TEXTS[INSERT]]).take(pa.array([0] * batch.num_rows, pa.int32()))
    return batch.set_column(0, ROWKIND, kinds)
