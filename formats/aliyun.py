"""aliyun-json (Alibaba Cloud DTS and DataWorks): one row image per message, types declared in `schema.dataColumn`.

The six types of DataWorks are BOOLEAN, LONG, DOUBLE, STRING, BYTES (in base64) and DATE (milliseconds since 1970, with
a time of day if the column of the source has one).

An update is either two messages, UPDATE_BEFORE and UPDATE_AFTER, or UPDATE_AFTER alone. If both follow each other, the
pair is decoded as one change, so that a changed key becomes a delete and an insert as in every other format.
"""

from __future__ import annotations

from binascii import a2b_base64
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa

from penstock.errors import DecodeError
from penstock.formats.change import BAD_VALUE, DecodeOptions, DecodeResult, Messages, SourceField, SourceSchema
from penstock.formats.json_envelope import NULL, UNREADABLE, handle_envelopes, missing, unknown_operation
from penstock.formats.json_text import exact, text_of
from penstock.formats.message_format import Format
from penstock.formats.row_builder import Read, RowBuilder, each, texts
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

NAME = "aliyun-json"
# A DATE given as a number further than this many days from 1970 is in milliseconds, not in days.
LAST_DAY = 3_000_000
DAY_MILLIS = 86_400_000
# The documentation of DataWorks spells UPDATE_BEFORE in both ways.
ROW_OPERATIONS = {name: name for name in ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")} | {
    "UPDATE_BEFOR": "UPDATE_BEFORE"
}
# MHEARTBEAT is written all the time.
_TRANSACTIONS = ("TRANSACTION_BEGIN", "TRANSACTION_END", "GTID", "XACOMMIT", "XAROLLBACK")
_DDL = ("CREATE", "ALTER", "ERASE", "QUERY", "TRUNCATE", "RENAME", "CINDEX", "DINDEX")
WITHOUT_ROWS = frozenset({"MHEARTBEAT", *_TRANSACTIONS, *_DDL})
Row = dict[str, Any]


class Image(msgspec.Struct, gc=False):
    row: Row | None = msgspec.field(default=None, name="dataColumn")


class Timestamp(msgspec.Struct, gc=False):
    system_time: int | float | str | None = msgspec.field(default=None, name="systemTime")


class AliyunPayload(msgspec.Struct, gc=False):
    op: str | None = None
    before: Image | None = None
    after: Image | None = None
    ddl: msgspec.Raw = NULL
    timestamp: Timestamp | None = None

    def time(self) -> int:
        moment = self.timestamp.system_time if self.timestamp else None
        return moment if isinstance(moment, int) and 0 <= moment < 1 << 63 else -1


class AliyunEnvelope(msgspec.Struct, gc=False):
    schema: msgspec.Raw = NULL
    payload: AliyunPayload | None = None
    ddl: bool | None = None


class AliyunColumn(msgspec.Struct):
    name: str
    type: str | None = None


class AliyunSource(msgspec.Struct):
    db: str | None = msgspec.field(default=None, name="dbName")
    table: str | None = msgspec.field(default=None, name="tableName")


class Declaration(msgspec.Struct):
    columns: list[AliyunColumn] = msgspec.field(default_factory=list, name="dataColumn")
    primary_key: list[str] | None = msgspec.field(default=None, name="primaryKey")
    source: AliyunSource | None = None


_read_envelope = msgspec.json.Decoder(AliyunEnvelope, float_hook=exact).decode
_read_declaration = msgspec.json.Decoder(Declaration | None).decode


class AliyunGroup:
    """The rows of one declared schema, and the before image whose after image may be in the next message."""

    def __init__(self, declaration: Declaration, options: DecodeOptions) -> None:
        source = declaration.source or AliyunSource()
        self.name = source.db, source.table
        self.keys = tuple(declaration.primary_key or ())
        self.states_no_key = declaration.primary_key == []
        self.declared = {column.name: column.type for column in declaration.columns}
        self.rows = RowBuilder(options.rule(*self.name, self.keys))
        self.waiting: tuple[int, int, Row] | None = None

    def before(self, number: int, time: int, row: Row) -> None:
        """Keep a before image until the next row of this schema, which may be its after image."""
        self.flush()
        self.waiting = number, time, row

    def after(self, number: int, time: int, row: Row) -> None:
        """Add an after image, as one change together with the before image that precedes it, if any."""
        if self.waiting is None:
            self.rows.put(number, time, UPDATE_AFTER, row)
            return
        (at, then, old), self.waiting = self.waiting, None
        moved = self.rows.moves(old, row)
        if moved or self.rows.all_images:
            self.rows.put(at, then, DELETE if moved else UPDATE_BEFORE, old)
        self.rows.put(number, time, INSERT if moved else UPDATE_AFTER, row)

    def flush(self) -> None:
        """Add a before image that no after image followed."""
        if self.waiting is not None:
            number, time, row = self.waiting
            self.rows.put(number, time, UPDATE_BEFORE, row)
            self.waiting = None

    def finish(self, messages: Messages, decoded: DecodeResult) -> None:
        """Append the ChangeBatches of the collected rows."""
        self.flush()
        declared = tuple(SourceField(name, kind) for name, kind in self.declared.items())
        for part in self.rows.parts():
            # Members that the declaration lacks still become columns.
            extra = tuple(SourceField(name, "STRING") for name in part.names() if name not in self.declared)
            schema = SourceSchema("aliyun", *self.name, declared + extra, self.keys, states_no_key=self.states_no_key)
            part.batch(schema, [_reader(field) for field in schema.fields], messages, decoded)


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode aliyun-json messages."""
    decoded = DecodeResult()
    groups: dict[bytes, AliyunGroup] = {}

    def handle(envelope: AliyunEnvelope, number: int) -> None:
        payload = envelope.payload
        if envelope.ddl or (payload is not None and payload.ddl != NULL):
            decoded.skipped["DDL"] += 1
        elif payload is not None and payload.op in WITHOUT_ROWS:
            decoded.skipped[payload.op] += 1
        else:
            _add_rows(envelope, number, groups, options)

    handle_envelopes(messages, _read_envelope, decoded, handle)
    for group in groups.values():
        group.finish(messages, decoded)
    return decoded


def _add_rows(envelope: AliyunEnvelope, number: int, groups: dict[bytes, AliyunGroup], options: DecodeOptions) -> None:
    payload = envelope.payload
    if payload is None:
        raise missing(NAME, "payload")
    if payload.op is None:
        raise missing(NAME, "op")
    operation = ROW_OPERATIONS.get(payload.op)
    if operation is None:
        raise unknown_operation(payload.op)
    side = "before" if operation in {"UPDATE_BEFORE", "DELETE"} else "after"
    image = payload.before if side == "before" else payload.after
    if image is None or image.row is None:
        raise missing(NAME, side if image is None else "dataColumn", "op", payload.op)
    group, time, row = _group(envelope.schema, groups, options), payload.time(), image.row
    if operation == "UPDATE_AFTER":
        group.after(number, time, row)
    elif operation == "UPDATE_BEFORE":
        group.before(number, time, row)
    else:
        group.flush()
        group.rows.put(number, time, INSERT if side == "after" else DELETE, row)


def _group(schema: msgspec.Raw, groups: dict[bytes, AliyunGroup], options: DecodeOptions) -> AliyunGroup:
    # The bytes of the declaration are its identity: a producer repeats them in every message.
    identity = bytes(schema)
    if identity not in groups:
        try:
            declaration = _read_declaration(identity)
        except UNREADABLE as error:
            raise DecodeError(f"the schema in the record cannot be parsed: {error}", reason=BAD_VALUE) from error
        groups[identity] = AliyunGroup(declaration or Declaration(), options)
    return groups[identity]


def _reader(field: SourceField) -> Read:
    declared = (field.type or "").upper()
    problem = f"the value of column {field.name} does not fit {declared}"
    if declared == "DATE":
        return each(_date_text, pa.string(), problem)
    # Sources' own names, such as BLOB, say nothing of how their values are written.
    return each(_bytes, pa.binary(), problem) if declared == "BYTES" else texts


def _bytes(value: str) -> bytes:
    return a2b_base64(value, strict_mode=True)


def _date_text(value: object) -> str | None:
    """Return the text of a DATE, which has a time of day if its number of milliseconds has one.

    A number counts days, or milliseconds if it is far too large to be a day.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) <= LAST_DAY:
            return str(date(1970, 1, 1) + timedelta(days=value))
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
        midnight = value % DAY_MILLIS == 0
        return str(moment.date()) if midnight else moment.replace(tzinfo=None).isoformat(" ", "milliseconds")
    return text_of(value)


def leads(value: bytes | None) -> bool:
    """Return whether a message has the old row of an update, whose new row is in the next message."""
    return value is not None and b"UPDATE_BEFOR" in value and _operation(value) == "UPDATE_BEFORE"


def follows(value: bytes | None) -> bool:
    """Return whether a message has the new row of an update, whose old row may be in the message before."""
    return value is not None and b"UPDATE_AFTER" in value and _operation(value) == "UPDATE_AFTER"


def _operation(value: bytes) -> str | None:
    try:
        envelope = _read_envelope(value)
    except UNREADABLE:
        return None  # a bad record, or one that is repaired and decoded alone
    return None if envelope.payload is None else ROW_OPERATIONS.get(envelope.payload.op or "")


FORMAT = Format("aliyun-json", decode, leads=leads, follows=follows)
