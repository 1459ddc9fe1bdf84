"""debezium-json: the bare payload, or the envelope {"schema", "payload"} of Kafka Connect's JsonConverter.

With a schema the columns have declared types (connect.py) and native values (connect_values.py); without a schema all
columns are text. The primary keys are the fields of the message key, else the payload's `pkNames`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.formats.change import DecodeOptions, DecodeResult, Messages, TableName
from penstock.formats.debezium.connect import row_fields, table_schema
from penstock.formats.debezium.connect_values import reader
from penstock.formats.debezium.operations import WITHOUT_ROWS, Operation, Row, skip_without_rows, without_operation
from penstock.formats.debezium.row_layouts import decode_by_layout
from penstock.formats.json_envelope import NULL, TOMBSTONE, UNREADABLE, handle_envelopes, missing
from penstock.formats.json_text import exact
from penstock.formats.message_format import Format
from penstock.formats.row_builder import RowBuilder

NAME = "debezium-json"
ABSENT = msgspec.Raw(b"")


class DebeziumSource(msgspec.Struct, gc=False):
    db: str | None = None
    schema: str | None = None
    table: str | None = None


class DebeziumPayload(msgspec.Struct, gc=False):
    op: str | None = None
    before: Row | None = None
    after: Row | None = None
    source: DebeziumSource | None = None
    ts_ms: int | float | str | None = None
    pk_names: list[str] | None = msgspec.field(default=None, name="pkNames")

    def time(self) -> int:
        return self.ts_ms if isinstance(self.ts_ms, int) and 0 <= self.ts_ms < 1 << 63 else -1


class DebeziumEnvelope(DebeziumPayload, gc=False):
    """A message of either shape. If it has a member `schema`, null or not, the change is in `payload`."""

    schema: msgspec.Raw = ABSENT
    payload: DebeziumPayload | msgspec.UnsetType | None = msgspec.UNSET

    def change(self) -> DebeziumPayload | None:
        """Return the payload of either shape, None if it is null; DecodeError if it is missing."""
        if self.schema == ABSENT:
            return self
        if self.payload is msgspec.UNSET:
            raise missing(NAME, "payload")
        return self.payload


_read_envelope = msgspec.json.Decoder(DebeziumEnvelope, float_hook=exact).decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_row = msgspec.json.Decoder(Row, float_hook=exact).decode


class DebeziumGroup:
    """The rows of one table, key and declared schema."""

    def __init__(self, schema: msgspec.Raw, name: TableName, keys: tuple[str, ...] | None, rows: RowBuilder):
        self.schema, self.name, self.keys, self.rows = schema, name, keys, rows


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode debezium-json messages."""
    decoded = DecodeResult()
    others = decode_by_layout(messages, options, decoded)
    if len(others):
        _decode_records(others, options, decoded)
    return decoded


def _decode_records(messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> None:
    groups = DebeziumGroups(options)
    handle_envelopes(
        messages,
        _read_envelope,
        decoded,
        lambda envelope, number: _add_rows(envelope, number, messages, groups, decoded),
    )
    for group in groups.all():
        _finish(group, messages, decoded)


class DebeziumGroups:
    """The groups of rows by table, key and declared schema."""

    def __init__(self, options: DecodeOptions) -> None:
        self.options = options
        self.latest: dict[tuple[object, ...], DebeziumGroup] = {}
        self.found: dict[tuple[object, ...], DebeziumGroup] = {}

    def of(self, payload: DebeziumPayload, schema: msgspec.Raw, keys: tuple[str, ...] | None) -> DebeziumGroup:
        """Return the group of a message; DecodeError if its schema declares no row.

        `keys` is None if the message says nothing about them.
        """
        database, table = self.name(payload)
        identity = (database, table, keys)
        # Every message carries a schema of several kilobytes; comparing it is cheaper than hashing it.
        group = self.latest.get(identity)
        if group is None or group.schema != schema:
            whole = (*identity, bytes(schema))
            group = self.found.get(whole)
            if group is None:
                # Rejects a schema without rows before any row is accepted.
                row_fields(bytes(schema or NULL))
                rows = RowBuilder(self.options.rule(database, table, keys or ()))
                group = self.found[whole] = DebeziumGroup(schema, (database, table), keys, rows)
            self.latest[identity] = group
        return group

    def name(self, payload: DebeziumPayload) -> TableName:
        """Return the database and table of a message."""
        source = payload.source or DebeziumSource()
        return source.schema if self.options.name_from == "schema" else source.db, source.table

    def all(self) -> list[DebeziumGroup]:
        """Return the groups that have rows."""
        return [group for group in self.found.values() if group.rows.rows]


def _add_rows(
    envelope: DebeziumEnvelope, number: int, messages: Messages, groups: DebeziumGroups, decoded: DecodeResult
) -> None:
    payload = envelope.change()
    if payload is None:
        # Older converters of Kafka Connect wrap the null of a tombstone (KAFKA-3832).
        decoded.skipped[TOMBSTONE] += 1
        return
    if payload.op is None:
        members, status = _other_members(messages.values[number] or b"", envelope)
        decoded.skipped[without_operation(NAME, members, status)] += 1
        return
    if payload.op in WITHOUT_ROWS:
        skip_without_rows(payload.op, number, groups.name(payload), messages, decoded)
        return
    key = message_key(messages, number)
    # Debezium itself names the key columns only in the message key.
    names = key or payload.pk_names
    keys = None if names is None else tuple(names)
    rows = groups.of(payload, envelope.schema, keys).rows
    operation = Operation(NAME, payload.op, payload.before, payload.after, lambda: _key_row(key))
    operation.add_to(rows, number, payload.time())


def _other_members(value: bytes, envelope: DebeziumEnvelope) -> tuple[dict[str, msgspec.Raw], object]:
    """Return the members of a message without operation, and its `status`."""
    try:
        members = _read_members(value)
        members = members if envelope.schema == ABSENT else _read_members(members["payload"])
        return members, msgspec.json.decode(members.get("status", NULL))
    except UNREADABLE as error:
        raise missing(NAME, "op") from error


def message_key(messages: Messages, number: int) -> dict[str, msgspec.Raw] | None:
    """Return the members of the message key, unwrapped; None without a key and for a key that is not a JSON object."""
    value = messages.keys[number] if messages.keys is not None else None
    if not value:
        return None
    try:
        members = _read_members(value)
        return _read_members(members["payload"]) if members.keys() == {"schema", "payload"} else members
    except UNREADABLE:
        return None


def _key_row(key: Mapping[str, msgspec.Raw] | None) -> Row | None:
    if not key:
        return None
    members = [msgspec.json.encode(name) + b":" + value for name, value in key.items()]
    try:
        return _read_row(b"{" + b",".join(members) + b"}")
    except UNREADABLE:
        return None


def _finish(group: DebeziumGroup, messages: Messages, decoded: DecodeResult) -> None:
    declared = row_fields(bytes(group.schema or NULL))
    for part in group.rows.parts():
        schema = table_schema(group.name, group.keys, declared, part.names())
        part.batch(schema, [reader(field.name, field.type) for field in schema.fields], messages, decoded)


FORMAT = Format(
    "debezium-json",
    decode,
    needs_key=True,
    typing_hint="with value.converter.schemas.enable=true Debezium declares them",
)
