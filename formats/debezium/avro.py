"""debezium-avro: Confluent's wire format (a zero byte, the schema id, then Avro) for both key and value."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO

import fastavro
import pyarrow as pa

from penstock.errors import ConfigError, DecodeError
from penstock.formats.change import (
    BAD_VALUE,
    NOT_AVRO,
    DecodeOptions,
    DecodeResult,
    Messages,
    RegisteredSchemas,
    SourceSchema,
    TableName,
)
from penstock.formats.debezium.avro_schema import (
    AvroColumn,
    RecordSchema,
    columns_of,
    compile_schema,
    connect_type_of,
)
from penstock.formats.debezium.avro_values import arrow_type, arrow_value, is_arrow_value
from penstock.formats.debezium.connect_values import reader
from penstock.formats.debezium.operations import WITHOUT_ROWS, Operation, Row, skip_without_rows, without_operation
from penstock.formats.json_envelope import TOMBSTONE
from penstock.formats.message_format import Format
from penstock.formats.row_builder import Read, RowBuilder, bad_record, each

NAME = "debezium-avro"
# A zero byte and the number of the schema.
_HEADER = struct.Struct(">bI")
_UNREADABLE = (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, struct.error)


@dataclass(frozen=True, slots=True)
class Schema:
    """A registered schema, its columns, and the original names of columns that Avro does not allow."""

    number: int
    record: RecordSchema
    columns: tuple[AvroColumn, ...]
    renamed: Mapping[str, str]

    def named(self, row: Row | None) -> Row | None:
        """Return a row with the original column names."""
        if row is None or not self.renamed:
            return row
        return {self.renamed.get(member, member): value for member, value in row.items()}


class AvroRows:
    """The schemas met so far and the rows collected by value schema, table and key."""

    def __init__(self, registry: RegisteredSchemas, options: DecodeOptions) -> None:
        self.registry, self.options = registry, options
        self.schemas: dict[int, Schema | DecodeError] = {}
        self.groups: dict[tuple[int, str | None, str | None, tuple[str, ...]], RowBuilder] = {}

    def schema(self, number: int) -> Schema:
        """Return a registered schema; DecodeError, also on every later call, if it cannot be used."""
        if number not in self.schemas:
            try:
                self.schemas[number] = _schema(number, compile_schema(self.registry.schema(number)))
            except DecodeError as error:
                self.schemas[number] = error
        known = self.schemas[number]
        if isinstance(known, DecodeError):
            raise known
        return known

    def record(self, message: bytes) -> tuple[Schema, Row]:
        """Return the schema and the decoded record of a message; DecodeError if its bytes do not match."""
        if len(message) < _HEADER.size or message[0] != 0:
            raise DecodeError("the record is not in Confluent's wire format", reason=NOT_AVRO)
        schema = self.schema(_HEADER.unpack_from(message)[1])
        data = BytesIO(message)
        data.seek(_HEADER.size)
        try:
            record = fastavro.schemaless_reader(data, schema.record.reading, None)
        except _UNREADABLE as error:
            raise DecodeError(
                f"the record does not match schema {schema.number}: {error!r}", reason=NOT_AVRO
            ) from error
        if data.tell() != len(message):
            raise DecodeError(f"unexpected bytes after the record of schema {schema.number}", reason=NOT_AVRO)
        if not isinstance(record, dict):
            raise DecodeError(f"schema {schema.number} is not a record type", reason=NOT_AVRO)
        return schema, record

    def rows(self, schema: Schema, name: TableName, keys: tuple[str, ...]) -> RowBuilder:
        """Return the rows collected for this schema, table and key."""
        identity = (schema.number, *name, keys)
        if identity not in self.groups:
            self.groups[identity] = RowBuilder(
                self.options.rule(*name, keys), [column.name for column in schema.columns]
            )
        return self.groups[identity]


def _schema(number: int, record: RecordSchema) -> Schema:
    # The columns of an envelope are the fields of its row; the columns of a key are its own fields.
    columns = record.row_columns() or columns_of(record.whole)
    renamed = {column.member: column.name for column in columns if column.member != column.name}
    return Schema(number, record, columns, renamed)


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode debezium-avro messages.

    Raises SourceError (retryable) if the registry does not answer: then nothing is known about the records.
    """
    decoded = DecodeResult()
    if options.registry is None:
        raise ConfigError("debezium-avro needs a schema registry", hint="set schema.registry.url")
    reading = AvroRows(options.registry, options)
    for number, value in enumerate(messages.values):
        if value is None:
            decoded.skipped[TOMBSTONE] += 1
            continue
        try:
            _add_rows(value, number, messages, reading, decoded)
        except DecodeError as error:
            decoded.bad.append(bad_record(messages, number, error))
    for (identity, database, table, keys), rows in reading.groups.items():
        columns = reading.schema(identity).columns
        schema = SourceSchema("avro", database, table, tuple(column.source_field() for column in columns), keys)
        rows.batch(schema, [_reader(column) for column in columns], messages, decoded)
    return decoded


def _add_rows(value: bytes, number: int, messages: Messages, reading: AvroRows, decoded: DecodeResult) -> None:
    schema, record = reading.record(value)
    operation = record.get("op")
    if not isinstance(operation, str):
        decoded.skipped[without_operation(NAME, record.keys(), record.get("status"))] += 1
        return
    source = record.get("source")
    name = _name(source if isinstance(source, dict) else {}, reading.options)
    if operation in WITHOUT_ROWS:
        skip_without_rows(operation, number, name, messages, decoded)
        return
    key = _key(messages, number, reading)
    rows = reading.rows(schema, name, tuple(key or ()))
    before, after = (schema.named(_row(record, side)) for side in ("before", "after"))
    Operation(NAME, operation, before, after, lambda: key).add_to(rows, number, _time(record.get("ts_ms")))


def _name(source: Row, options: DecodeOptions) -> TableName:
    database, table = source.get("schema" if options.name_from == "schema" else "db"), source.get("table")
    return database if isinstance(database, str) else None, table if isinstance(table, str) else None


def _time(moment: object) -> int:
    return moment if isinstance(moment, int) and moment >= 0 else -1


def _row(record: Row, side: str) -> Row | None:
    row = record.get(side)
    if row is not None and not isinstance(row, dict):
        raise DecodeError(f"'{side}' in the record is not a row", reason=BAD_VALUE)
    return row


def _key(messages: Messages, number: int, reading: AvroRows) -> Row | None:
    value = messages.keys[number] if messages.keys is not None else None
    if value is None:
        return None
    schema, record = reading.record(value)
    return schema.named(record)


def _reader(column: AvroColumn) -> Read:
    kind = connect_type_of(column.schema)
    if kind is not None:
        return reader(column.name, str(kind))
    if is_arrow_value(column.schema):
        whole = arrow_type(column.schema)
        return lambda values, _faults: pa.array(values, whole)
    problem = f"the value of column {column.name} does not fit {column.schema['type']}"
    return each(lambda value: arrow_value(value, column.schema), arrow_type(column.schema), problem)


FORMAT = Format("debezium-avro", decode, needs_key=True, needs_registry=True)
