"""The dead-letter table: its columns, its name, and bad records as its rows.

Dead letters are rows, committed together with their batch, from which they can be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.formats.change import BadRecord
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema

DEFAULT_NAME = "__penstock_dead_letters"
_DATABASE = "penstock"  # if the sink has no single database
COLUMNS = (
    ("pipeline", "STRING"),
    ("source_position", "STRING"),  # place@offset: topic/partition, file, binlog
    ("topic", "STRING"),
    ("partition", "INT"),
    ("offset", "BIGINT"),  # null if the source does not number its messages
    ("record_time", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("raw_key", "BYTES"),
    ("raw_value", "BYTES"),
    ("headers", "MAP<STRING, BYTES>"),
    ("error_class", "STRING"),
    ("error", "STRING"),
    ("target_table", "STRING"),  # null if the record could not even be decoded
    ("received_at", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ("attempt", "INT"),
)


def letters_table(configured: str | None, database: str | None) -> str:
    """Return the full name of the table, given the setting and the database of the sink."""
    name = configured or DEFAULT_NAME
    return name if "." in name else f"{database or _DATABASE}.{name}"


def ensure(warehouse: CatalogSettings, table: str) -> TableSchema:
    """Return the schema of the dead-letter table, creating the table if necessary.

    Raise ConfigError when a table of this name exists with other columns.
    """
    try:
        schema = warehouse.store(table).schema()
    except TableMissing:
        # An append table without buckets, into which every write task may write.
        first = create_schema(list(COLUMNS), options={"bucket": "-1"}, now=warehouse.now_millis())
        schema = warehouse.created(table, first)
    _check_columns(schema, table)
    return schema


def check_columns(warehouse: CatalogSettings, table: str) -> None:
    """Raise ConfigError when a table of this name exists with other columns."""
    try:
        _check_columns(warehouse.store(table).schema(), table)
    except TableMissing:
        return


def _check_columns(schema: TableSchema, table: str) -> None:
    if [field.name for field in schema.fields] != [name for name, _ in COLUMNS] or schema.primary_keys:
        raise ConfigError(
            "the dead-letter table exists with other columns", table=table, hint="choose another table for dead letters"
        )


@dataclass(frozen=True, slots=True)
class LetterOrigin:
    """The pipeline, and the place of its source, from which bad records come.

    `table` is the target table that they do not fit; None: they cannot be read.
    """

    pipeline: str
    place: str
    fetched: FetchedMessages | None
    table: str | None


def letter_rows(
    records: Sequence[BadRecord], origin: LetterOrigin, now_millis: int, schema: TableSchema
) -> pa.RecordBatch:
    """Return one row per record, in the table's columns. There are few records, because their number is limited."""
    arrow = arrow_schema(schema.fields)
    made = [_row(record, origin, now_millis) for record in records]
    columns = [pa.array([row[name] for row in made], arrow.field(name).type) for name, _ in COLUMNS]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def source_position(place: str, record: BadRecord) -> str:
    return f"{place}@{record.position}"


def _row(record: BadRecord, origin: LetterOrigin, now_millis: int) -> dict[str, object]:
    return {
        "pipeline": origin.pipeline,
        "source_position": source_position(origin.place, record),
        "offset": record.pos if record.id is None else None,
        "error_class": record.reason_class,
        "error": record.message,
        "target_table": origin.table,
        "received_at": now_millis,
        "attempt": 0,
        **_message(record, origin.fetched),
    }


def _message(record: BadRecord, fetched: FetchedMessages | None) -> dict[str, object]:
    if fetched is None:
        nothing = dict.fromkeys(("topic", "partition", "record_time", "raw_key", "headers"))
        return {**nothing, "raw_value": record.raw}
    messages = fetched.messages
    # Offsets of fetched messages rise, and the bad record is one of these messages.
    number = int(np.searchsorted(messages.offsets, record.pos))
    headers = None if fetched.headers is None else fetched.headers[number]
    return {
        "topic": fetched.topic,
        "partition": fetched.partition,
        "record_time": None if messages.timestamps is None else int(messages.timestamps[number]),
        "raw_key": None if messages.keys is None else messages.keys[number],
        "raw_value": messages.values[number],
        # Kafka allows several headers of one name, a map does not: the last one is kept.
        "headers": None if headers is None else list(dict(headers).items()),
    }
