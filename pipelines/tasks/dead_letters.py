"""The dead-letter table: bad records as rows, committed together with their batch, from which they can be replayed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.formats.change import BadRecord
from penstock.ingest.fetched_chunk import FetchedMessages
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema

DEFAULT_NAME = "__penstock_dead_letters"
LETTERS_DATABASE = "penstock"  # if the sink has no single database
COLUMNS = (
    ("pipeline", "STRING"),
    ("source_position", "STRING"),  # place@offset: topic/partition, file, binlog
    ("topic", "STRING"),
    ("partition", "INT"),
    ("offset", "BIGINT"),
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


def ensure(warehouse: CatalogSettings, table: str) -> TableSchema:
    """Return the schema of the dead-letter table, creating the table if necessary.

    Raise ConfigError when a table of this name exists with other columns.
    """
    try:
        schema = warehouse.store(table).schema()
    except TableMissing:
        first = create_schema(list(COLUMNS), options={"bucket": "-1"}, now=warehouse.now_millis())
        schema = warehouse.created(table, first)
    if [one.name for one in schema.fields] != [name for name, _ in COLUMNS] or schema.primary_keys:
        raise ConfigError(
            "the dead-letter table exists with other columns", table=table, hint="choose another table for dead letters"
        )
    return schema


def rows(
    records: Sequence[BadRecord],
    *,
    pipeline: str,
    place: str,
    fetched: FetchedMessages | None,
    table: str | None,
    now_millis: int,
    schema: TableSchema,
) -> pa.RecordBatch:
    """Return one row per record, in the table's columns. There are few records, because their number is limited."""
    arrow = arrow_schema(schema.fields)
    made = [_row(record, pipeline, place, fetched, table, now_millis) for record in records]
    columns = [pa.array([row[name] for row in made], arrow.field(name).type) for name, _ in COLUMNS]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _row(
    record: BadRecord, pipeline: str, place: str, fetched: FetchedMessages | None, table: str | None, now_millis: int
) -> dict[str, object]:
    return {
        "pipeline": pipeline,
        "source_position": f"{place}@{record.pos}",
        "offset": record.pos,
        "error_class": record.reason_class,
        "error": record.message,
        "target_table": table,
        "received_at": now_millis,
        "attempt": 0,
        **_origin(record, fetched),
    }


def _origin(record: BadRecord, fetched: FetchedMessages | None) -> dict[str, object]:
    if fetched is None:
        nothing = dict.fromkeys(("topic", "partition", "record_time", "raw_key", "headers"))
        return {**nothing, "raw_value": record.raw}
    messages = fetched.messages
    number = int(np.searchsorted(messages.offsets, record.pos))
    headers = None if fetched.headers is None else fetched.headers[number]
    return {
        "topic": fetched.topic,
        "partition": fetched.partition,
        "record_time": None if messages.timestamps is None else int(messages.timestamps[number]),
        "raw_key": None if messages.keys is None else messages.keys[number],
        "raw_value": messages.values[number],
        "headers": None if headers is None else list(dict(headers).items()),
    }
