"""Metadata columns: where a row comes from, as columns of its target table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.table.schema.type_text import read_type
from penstock.table.values.types import DataType, with_nullability

Values = Callable[[ChangeBatch, FetchedMessages | None], pa.Array]

OFFSET = "offset"
DATABASE_NAME, SCHEMA_NAME = "database_name", "schema_name"
_OF_DATABASES = frozenset({DATABASE_NAME, SCHEMA_NAME, "table_name", "op_ts"})
# By the number of the row kind: the old and the new row of an update are both UPDATE.
_KINDS = ("INSERT", "UPDATE", "UPDATE", "DELETE")
# By the numbers of Kafka's clients, with the names that Kafka's Java client prints.
_TIME_KINDS = ("NoTimestampType", "CreateTime", "LogAppendTime")


@dataclass(frozen=True, slots=True)
class Metadata:
    type: str
    values: Values


def _same(text: str | None, change: ChangeBatch) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), len(change))


def _places(change: ChangeBatch, fetched: FetchedMessages) -> npt.NDArray[np.int64]:
    """Return, for each row, the index of its message among the fetched messages."""
    # Offsets of fetched messages rise, and the position of a row is the offset of its message.
    return np.searchsorted(fetched.messages.offsets, change.positions)


def _of_messages(
    change: ChangeBatch, fetched: FetchedMessages | None, values: Sequence[object] | None, type_: pa.DataType
) -> pa.Array:
    if fetched is None or values is None:
        return pa.nulls(len(change), type_)
    return pa.array([values[place] for place in _places(change, fetched).tolist()], type_)


def _topic(change: ChangeBatch, fetched: FetchedMessages | None) -> pa.Array:
    return _same(fetched.topic if fetched else None, change)


def _partition(change: ChangeBatch, fetched: FetchedMessages | None) -> pa.Array:
    return pa.repeat(pa.scalar(fetched.partition if fetched else None, pa.int32()), len(change))


def _offset(change: ChangeBatch, fetched: FetchedMessages | None) -> pa.Array:
    # A dead letter is replayed through the same columns, from any source.
    if fetched is not None and fetched.ids is not None:
        return pa.nulls(len(change), pa.int64())
    return pa.array(change.positions)


def _timestamp(change: ChangeBatch, fetched: FetchedMessages | None) -> pa.Array:
    type_ = pa.timestamp("ms", "UTC")
    if fetched is None or fetched.messages.timestamps is None:
        return pa.nulls(len(change), type_)
    return pa.array(fetched.messages.timestamps[_places(change, fetched)]).cast(type_)


def _timestamp_type(change: ChangeBatch, fetched: FetchedMessages | None) -> pa.Array:
    kinds = None if fetched is None or fetched.timestamp_types is None else fetched.timestamp_types
    return _of_messages(change, fetched, None if kinds is None else [_TIME_KINDS[kind] for kind in kinds], pa.string())


def _key(change: ChangeBatch, fetched: FetchedMessages | None) -> pa.Array:
    keys = None if fetched is None or fetched.messages.keys is None else fetched.messages.keys
    texts = None if keys is None else [None if key is None else key.decode("utf-8", "replace") for key in keys]
    return _of_messages(change, fetched, texts, pa.string())


def _headers(change: ChangeBatch, fetched: FetchedMessages | None) -> pa.Array:
    def texts(headers: Sequence[tuple[str, bytes | None]] | None) -> list[tuple[str, str | None]] | None:
        # A map has each key once, so of several headers with one name the last is kept.
        pairs = headers or ()
        return [
            (name, None if value is None else value.decode("utf-8", "replace")) for name, value in dict(pairs).items()
        ]

    headers = None if fetched is None or fetched.headers is None else [texts(header) for header in fetched.headers]
    return _of_messages(change, fetched, headers, pa.map_(pa.string(), pa.string()))


def _op_ts(change: ChangeBatch, fetched: FetchedMessages | None) -> pa.Array:
    # Not null, because the column may be NOT NULL.
    times = np.maximum(change.event_times, 0)  # the epoch if the message has no time
    return pa.array(times, pa.int64()).cast(pa.timestamp("ms", "UTC"))


def _op_type(change: ChangeBatch, fetched: FetchedMessages | None) -> pa.Array:
    return pa.array(_KINDS).take(pa.array(change.kinds))


COLUMNS = {
    "topic": Metadata("STRING", _topic),
    "partition": Metadata("INT", _partition),
    OFFSET: Metadata("BIGINT", _offset),
    "timestamp": Metadata("TIMESTAMP(3) WITH LOCAL TIME ZONE", _timestamp),
    "timestamp_type": Metadata("STRING", _timestamp_type),
    DATABASE_NAME: Metadata("STRING", lambda change, _: _same(change.schema.database, change)),
    # Only of sources whose databases have schemas: their tables are named by schema and table.
    SCHEMA_NAME: Metadata("STRING", lambda change, _: _same(change.schema.database, change)),
    "table_name": Metadata("STRING", lambda change, _: _same(change.schema.table, change)),
    "op_ts": Metadata("TIMESTAMP(3) WITH LOCAL TIME ZONE", _op_ts),
    "op_type": Metadata("STRING", _op_type),
    "headers": Metadata("MAP<STRING, STRING>", _headers),
    "key": Metadata("STRING", _key),
}


def check_names(names: Sequence[str], *, numbered: bool = True, has_schemas: bool = False) -> None:
    """Raise ConfigError for a metadata column that is unknown, or that the source does not have.

    `numbered`: messages of the source have numbers. `has_schemas`: its databases have schemas.
    """
    absent = {} if numbered else {OFFSET: "its messages have no numbers"}
    absent |= {} if has_schemas else {SCHEMA_NAME: "its databases have no schemas"}
    known = ", ".join(column for column in COLUMNS if column not in absent)
    for name in names:
        if name in absent:
            raise ConfigError(f"the source has no metadata column {name!r}: {absent[name]}", hint=f"there are {known}")
        if name not in COLUMNS:
            raise ConfigError(f"there is no metadata column {name!r}", hint=f"there are {known}")


def values_of(name: str, database: str | None) -> Values:
    """Return how a metadata column is computed. `database` is set for a source whose databases have schemas."""
    if name == DATABASE_NAME and database is not None:
        return lambda change, _: _same(database, change)
    return COLUMNS[name].values


def type_of(name: str, *, named: bool = False) -> DataType:
    """Return the type of a metadata column.

    With `named`, the source reports this value for every row, so it is NOT NULL.
    """
    type_ = read_type(COLUMNS[name].type)
    return with_nullability(type_, nullable=False) if named and name in _OF_DATABASES else type_
