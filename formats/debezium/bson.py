"""Debezium's messages of MongoDB: documents as texts of extended JSON, parsed and printed."""

from __future__ import annotations

import math
import uuid
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from penstock.errors import DecodeError
from penstock.formats.change import BAD_VALUE, MISSING_FIELD, DecodeOptions, DecodeResult, Messages
from penstock.formats.debezium.decode import message_key
from penstock.formats.debezium.operations import WITHOUT_ROWS, Row, skip_without_rows, without_operation
from penstock.formats.json_envelope import NULL, UNREADABLE, handle_envelopes, missing, read_json, unknown_operation
from penstock.formats.json_text import MAX_EXPONENT, Number, exact, java_double, text_of
from penstock.formats.message_format import Format
from penstock.formats.row_builder import TextTables

# Subtypes of binary data that are UUIDs: 3 is the old one, 4 the present one.
_UUID_SUBTYPES = {"3", "03", "4", "04"}
_MARKS = {"$minKey": "BsonMinKey", "$maxKey": "BsonMaxKey"}


def plain_value(value: Any) -> Any:
    """Return the plain value of extended JSON; ValueError for a `$` form with invalid content."""
    if isinstance(value, Number):
        return double(value)
    if isinstance(value, list):
        return [plain_value(member) for member in value]
    if not isinstance(value, dict):
        return value
    if value and next(iter(value)).startswith("$"):
        try:
            return _special(value)
        except (KeyError, TypeError, AttributeError, InvalidOperation) as error:
            raise ValueError(f"{next(iter(value))} contains {str(value)[:80]}") from error
    return {name: plain_value(member) for name, member in value.items()}


def _special(value: Mapping[str, Any]) -> Any:
    match value:
        case {"$oid": text} | {"$symbol": text} | {"$uuid": text}:
            return str(text)
        case {"$numberInt": digits} | {"$numberLong": digits}:
            return int(digits)
        case {"$numberDouble": digits}:
            return double(digits)
        case {"$numberDecimal": digits}:
            return decimal(digits)
        case {"$date": moment}:
            return milliseconds(moment)
        case {"$timestamp": {"t": seconds}}:
            return int(seconds)
        case {"$binary": {"base64": data, "subType": subtype}} | {"$binary": data, "$type": subtype}:
            return str(uuid.UUID(bytes=b64decode(data))) if subtype in _UUID_SUBTYPES else str(data)
        case {"$regularExpression": {"pattern": pattern, "options": options}}:
            return regex(pattern, options)
        case {"$regex": pattern, "$options": options}:
            return regex(pattern, options)
        # Before `$code` alone, because a mapping pattern also matches objects with further members.
        case {"$code": code, "$scope": scope}:
            return {"$code": code, "$scope": plain_value(scope)}
        case {"$code": code}:
            return str(code)
        case {"$minKey": _} | {"$maxKey": _}:
            return _MARKS[next(iter(value))]
        case {"$undefined": _}:
            return None
    return {name: plain_value(member) for name, member in value.items()}


def double(digits: str) -> Number | str:
    """Return a double as Java prints it: 3.14, 0.0, 1.0E10, NaN, Infinity."""
    number = float(digits)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return Number(java_double(number))


def decimal(digits: str) -> Number | str:
    number = Decimal(digits)
    if number.is_nan():
        return "NaN"
    if number.is_infinite():
        return "Infinity" if number > 0 else "-Infinity"
    if abs(number.adjusted()) > MAX_EXPONENT:
        return Number(digits)
    return Number(format(number, "f"))


def milliseconds(moment: Any) -> int:
    if isinstance(moment, str):
        parsed = datetime.fromisoformat(moment)
        since = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
    return int(moment["$numberLong"] if isinstance(moment, dict) else moment)


def regex(pattern: str, options: str) -> str:
    escaped = pattern.replace("/", "\\/") or "(?:)"
    return f"/{escaped}/{options}"


NAME = "debezium-bson"
KEY = ("_id",)
_KINDS = {dict: "OBJECT", list: "ARRAY", bool: "BOOLEAN"}


class BsonSource(msgspec.Struct, gc=False):
    db: str | None = None
    collection: str | None = None


class BsonPayload(msgspec.Struct, gc=False):
    op: str | None = None
    before: Any = None
    after: Any = None
    source: BsonSource | None = None
    ts_ms: int | float | str | None = None
    status: Any = None

    def time(self) -> int:
        return self.ts_ms if isinstance(self.ts_ms, int) and 0 <= self.ts_ms < 1 << 63 else -1


class BsonEnvelope(BsonPayload, gc=False):
    schema: msgspec.Raw = NULL
    payload: BsonPayload | None = None


_read_envelope = msgspec.json.Decoder(BsonEnvelope).decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_document = msgspec.json.Decoder(dict[str, Any], float_hook=exact).decode
_read_value = msgspec.json.Decoder(Any, float_hook=exact).decode


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode debezium-bson messages."""
    decoded = DecodeResult()
    tables = TextTables(options)
    handle_envelopes(
        messages,
        _read_envelope,
        decoded,
        lambda envelope, number: _add_rows(envelope, number, messages, tables, decoded),
    )
    tables.finish(messages, decoded)
    return decoded


def _add_rows(
    envelope: BsonEnvelope, number: int, messages: Messages, tables: TextTables, decoded: DecodeResult
) -> None:
    payload = envelope.payload or envelope
    operation, source = payload.op, payload.source or BsonSource()
    if operation is None:
        decoded.skipped[without_operation(NAME, _member_names(messages.values[number] or b""), payload.status)] += 1
        return
    if operation in WITHOUT_ROWS:
        skip_without_rows(operation, number, (source.db, source.collection), messages, decoded)
        return
    if operation not in {"c", "r", "u", "d"}:
        raise unknown_operation(operation)
    before, after = _document(payload.before, decoded), _document(payload.after, decoded)
    if after is None and operation in {"c", "r"}:
        raise missing(NAME, "after", "op", operation)
    if before is None and operation in {"u", "d"}:
        # MongoDB has no before image by default, but the key of the message identifies the document.
        before = _key_row(messages, number, operation, decoded)
    rows = tables.of(source.db, source.collection, KEY)
    if operation == "d":
        rows.change(number, payload.time(), before, None)
    else:
        # An update without `after` means that the document had been deleted meanwhile: only the delete remains.
        rows.change(number, payload.time(), before if operation == "u" else None, after)


def _member_names(value: bytes) -> set[str]:
    try:
        members = _read_members(value)
        return set(_read_members(members["payload"]) if "payload" in members else members)
    except UNREADABLE as error:
        raise missing(NAME, "op") from error


def _document(text: object, decoded: DecodeResult) -> Row | None:
    if text is None:
        return None
    if not isinstance(text, str):
        kind = _KINDS.get(type(text), "NUMBER")
        raise DecodeError(f"debezium bson record expected to be STRING type, but actual is {kind}", reason=BAD_VALUE)
    return _texts(read_json(text.encode(), _read_document, decoded))


def _texts(document: Row) -> Row:
    try:
        return {name: text_of(plain_value(value)) for name, value in document.items()}
    except (ValueError, OverflowError, RecursionError) as error:
        raise DecodeError(f"the document is not MongoDB extended JSON: {error}", reason=BAD_VALUE) from error


def _key_row(messages: Messages, number: int, operation: str, decoded: DecodeResult) -> Row:
    key = message_key(messages, number) or {}
    if "id" not in key:
        text = f"Invalid {NAME} format: missing 'id' field in key when 'op' is '{operation}'."
        raise DecodeError(text, reason=MISSING_FIELD)
    value = read_json(bytes(key["id"]), _read_value, decoded)
    # The key contains the identifier as JSON within a text.
    if isinstance(value, str):
        value = read_json(value.encode(), _read_value, decoded)
    return _texts({"_id": value})


FORMAT = Format("debezium-bson", decode, needs_key=True)
