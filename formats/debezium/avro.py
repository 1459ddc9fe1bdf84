"""debezium-avro: Confluent's wire format (a zero byte, the schema id, then Avro) for both key and value."""

from __future__ import annotations

import re
import struct
from io import BytesIO

import fastavro

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
from penstock.formats.debezium.avro_rows import decode_by_schema
from penstock.formats.debezium.avro_schema import HEAD_BYTES, Schema, compile_schema
from penstock.formats.debezium.avro_values import value_reader
from penstock.formats.debezium.operations import WITHOUT_ROWS, Operation, Row, skip_without_rows, without_operation
from penstock.formats.json_envelope import TOMBSTONE
from penstock.formats.message_format import Format
from penstock.formats.row_builder import RowBuilder, bad_record

NAME = "debezium-avro"
# A zero byte and the number of the schema.
_HEADER = struct.Struct(">bI")
# Some errors of fastavro name the buffer, which has another address each time.
_ADDRESS = re.compile(r" from <_io\.BytesIO object at 0x\w+>")
_UNREADABLE = (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, struct.error)


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
                self.schemas[number] = Schema.of(number, compile_schema(self.registry.schema(number)))
            except DecodeError as error:
                self.schemas[number] = error
        known = self.schemas[number]
        if isinstance(known, DecodeError):
            raise known
        return known

    def record(self, message: bytes) -> tuple[Schema, Row]:
        """Return the schema and the decoded record of a message; DecodeError if its bytes do not match."""
        if len(message) < HEAD_BYTES or message[0] != 0:
            raise DecodeError("the record is not in Confluent's wire format", reason=NOT_AVRO)
        schema = self.schema(_HEADER.unpack_from(message)[1])
        data = BytesIO(message)
        data.seek(HEAD_BYTES)
        try:
            record = fastavro.schemaless_reader(data, schema.record.reading, None)
        except _UNREADABLE as error:
            reason = _ADDRESS.sub("", repr(error))
            raise DecodeError(f"the record does not match schema {schema.number}: {reason}", reason=NOT_AVRO) from error
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


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode debezium-avro messages.

    Raises SourceError (retryable) if the registry does not answer: then nothing is known about the records.
    """
    decoded = DecodeResult()
    if options.registry is None:
        raise ConfigError("debezium-avro needs a schema registry", hint="set schema.registry.url")
    reading = AvroRows(options.registry, options)
    others = decode_by_schema(messages, reading.schema, options, decoded)
    for number, value in enumerate(others.values):
        if value is None:
            decoded.skipped[TOMBSTONE] += 1
            continue
        try:
            _add_rows(value, number, others, reading, decoded)
        except DecodeError as error:
            decoded.bad.append(bad_record(others, number, error))
    for (identity, database, table, keys), rows in reading.groups.items():
        columns = reading.schema(identity).columns
        schema = SourceSchema("avro", database, table, tuple(column.source_field() for column in columns), keys)
        rows.batch(schema, [value_reader(column) for column in columns], others, decoded)
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


FORMAT = Format("debezium-avro", decode, needs_key=True, needs_registry=True)
