"""The encoding of each column of a Parquet file (dictionary, deltas or plain), and whether compression pays.

A sample of the rows decides; that of floats, which may repeat over long distances, is larger. Texts are
always compressed with the table's codec, columns of a few hundred bytes never, and deltas only in larger files.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.table.files.columns import has_nanoseconds, source_of
from penstock.table.files.encoding import Encoding
from penstock.table.files.parquet.random_floats import RandomFloats
from penstock.table.values.types import AtomicType, DataType, Field

# With fewer rows a dictionary costs more than it saves; measured at 100 to 10,000 rows of 15 columns.
SAMPLE_ROWS = 5_000
_COUNTED_ROWS = 4_096
_FEW_VALUES = _COUNTED_ROWS // 8
# Texts and floats have no deltas. With 5,000 values in a row group, the dictionary costs as much as compressing the
# values; with fewer it needs three quarters of the time, and less than two thirds of the bytes.
_MOST_VALUES = _COUNTED_ROWS // 2
# In this many rows, a column with few distinct values has at least an eighth of repetitions. Checking them first needs
# a sixth of the time of checking all counted rows.
_FIRST_ROWS = 1_024
# When the codec saves less than a tenth of the deltas, it costs more time than the bytes are worth.
_WORTH_COMPRESSING = 0.9
# zstd needs some 20 us to set up for each column that is written, and as much for each that is read. Up to this size it
# saves about 150 bytes of a column, and of the deltas of a small file as little.
_SMALL_BYTES = 256
_SET_UP = ("zstd", "gzip", "brotli")  # snappy and lz4 need no set-up
# A row group with fewer rows is the only one of its file, or the last one.
_SMALL_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class Codings:
    """Column encodings as arguments of pyarrow's ParquetWriter."""

    dictionary: bool | list[str]
    encodings: Mapping[str, str] | None
    codecs: str | dict[str, str]
    levels: int | dict[str, int] | None
    random: RandomFloats


def codings_of(sample: pa.Table, fields: Sequence[Field], encoding: Encoding, group: pa.Table) -> Codings:
    """Return the codings of a file of `fields` that begins with the rows of `sample`, which are in their stored form.

    `sample` has SAMPLE_ROWS rows, or all rows if there are fewer. `group` are the rows of the first row group.
    """
    level = encoding.zstd_level if encoding.codec == "zstd" else None
    dictionary = _dictionary_columns(sample, fields, encoding, group)
    # pyarrow accepts no other encoding for a column that has a dictionary.
    deltas = [] if dictionary is True else _delta_columns(fields, dictionary or [])
    encodings = dict.fromkeys(deltas, "DELTA_BINARY_PACKED") or None
    plain = _barely_compressed(sample.select(deltas), encoding.codec, level)
    random = RandomFloats.among(_without_dictionary(fields, dictionary, sample), encoding, group)
    plain |= {field.name for field in random.fields}
    plain = plain or _small_columns(sample, encoding.codec, deltas)
    if not plain:
        return Codings(dictionary, encodings, encoding.codec, level, random)
    packed = [path for field in sample.schema for path in _leaves(field.name, field.type) if path not in plain]
    if not packed:
        return Codings(dictionary, encodings, "none", None, random)
    levels = None if level is None else dict.fromkeys(packed, level)
    codecs = dict.fromkeys(packed, encoding.codec) | dict.fromkeys(plain, "none")
    return Codings(dictionary, encodings, codecs, levels, random)


def _without_dictionary(fields: Sequence[Field], dictionary: bool | list[str], sample: pa.Table) -> list[Field]:
    """Return the columns that get no dictionary; none of them if the sample is too small to judge its values."""
    if dictionary is True or len(sample) < SAMPLE_ROWS:
        return []
    return [field for field in fields if field.name not in (dictionary or [])]


def _delta_columns(fields: Sequence[Field], coded: Sequence[str]) -> list[str]:
    """Return the columns to write as deltas: integers, since deltas leave fewer bytes to compress.

    Measured: sorted integers need a quarter of the time, others half.
    """
    roots = {"INT", "BIGINT", "DATE", "DECIMAL"}
    if not any(has_nanoseconds(field.type) for field in fields):
        roots |= {"TIMESTAMP", "TIMESTAMP_LTZ"}  # otherwise all timestamps of the file are INT96
    return [field.name for field in fields if field.name not in coded and _is_stored_as_integer(field.type, roots)]


def _is_stored_as_integer(type_: DataType, roots: Container[str]) -> bool:
    """Return whether Parquet stores the type as an integer. Decimals of more than 18 digits are stored as bytes."""
    return isinstance(type_, AtomicType) and type_.root in roots and (type_.root != "DECIMAL" or type_.precision <= 18)


def _dictionary_columns(
    sample: pa.Table, fields: Sequence[Field], encoding: Encoding, group: pa.Table
) -> bool | list[str]:
    if encoding.dictionary is not None:
        return encoding.dictionary
    if len(sample) < SAMPLE_ROWS:
        return False
    return [
        field.name
        for field, column in zip(fields, sample.columns, strict=True)
        if _has_few_values(column, group.column(source_of(field)))
    ]


def _has_few_values(column: pa.ChunkedArray, all_rows: pa.ChunkedArray) -> bool:
    if pa.types.is_nested(column.type):
        return False
    repeats_pay = _is_text_or_float(column.type)
    if _distinct(column.slice(0, _FIRST_ROWS)) > (_FIRST_ROWS * 7 // 8 if repeats_pay else _FEW_VALUES):
        return False
    found = _distinct(column.slice(0, _COUNTED_ROWS))
    if found <= _FEW_VALUES or found > _MOST_VALUES or not repeats_pay:
        return found <= _FEW_VALUES
    # Values may repeat only in rows near each other: lines of an order have its number. So rows far apart decide.
    apart = np.arange(_COUNTED_ROWS) * (len(all_rows) // _COUNTED_ROWS)
    return _distinct(all_rows.take(pa.array(apart))) <= _MOST_VALUES


def _distinct(column: pa.ChunkedArray) -> int:
    # `count_distinct` takes twice as long for texts and decimals.
    return len(pc.unique(column)) - int(column.null_count > 0)


def _is_text_or_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _barely_compressed(sample: pa.Table, codec: str, level: int | None) -> set[str]:
    """Return the delta columns that the codec hardly makes smaller; an empty set if the sample is too small."""
    if codec == "none" or len(sample) < SAMPLE_ROWS or not sample.num_columns:
        return set()
    collected: list[pq.FileMetaData] = []
    pq.write_table(
        sample,
        pa.BufferOutputStream(),
        compression=codec,
        compression_level=level,
        use_dictionary=False,
        column_encoding="DELTA_BINARY_PACKED",
        store_decimal_as_integer=True,
        write_statistics=False,
        metadata_collector=collected,
    )
    group = collected[0].row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    worth = _WORTH_COMPRESSING
    return {
        column.path_in_schema
        for column in columns
        if column.total_compressed_size > worth * column.total_uncompressed_size
    }


def _small_columns(rows: pa.Table, codec: str, deltas: Sequence[str]) -> set[str]:
    """Return the columns that are too small for a codec to pay, in a file that gets no other rows."""
    if codec not in _SET_UP or len(rows) >= _SMALL_ROWS:
        return set()
    small = (field for field, column in zip(rows.schema, rows.columns, strict=True) if column.nbytes <= _SMALL_BYTES)
    return {path for field in small for path in _leaves(field.name, field.type)}.union(deltas)


def _leaves(path: str, type_: pa.DataType) -> Iterator[str]:
    """Yield the paths of a column's leaf values, as Parquet names them."""
    if pa.types.is_struct(type_):
        for member in type_:
            yield from _leaves(f"{path}.{member.name}", member.type)
    elif pa.types.is_map(type_):
        yield from _leaves(f"{path}.key_value.{type_.key_field.name}", type_.key_type)
        yield from _leaves(f"{path}.key_value.{type_.item_field.name}", type_.item_type)
    elif pa.types.is_list(type_):
        yield from _leaves(f"{path}.list.{type_.value_field.name}", type_.value_type)
    else:
        yield path
