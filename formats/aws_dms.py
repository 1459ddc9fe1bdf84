"""aws-dms-json: one row in `data`. Declares no types and no key.

Tasks that send values before an update have them as `BI_<column>` in `data`, or in an object beside `data`, whose name
is a setting of the task. Members that are null are left away, unless IncludeNullAndEmpty is set.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock.errors import DecodeError
from penstock.formats.change import BAD_VALUE, DecodeOptions, DecodeResult, Messages
from penstock.formats.json_envelope import handle_envelopes, missing, read_json, unknown_operation
from penstock.formats.json_text import exact
from penstock.formats.message_format import Format
from penstock.formats.row_builder import RowBuilder, TextTables
from penstock.row_kinds import UPDATE_AFTER

NAME = "aws-dms-json"
BEFORE_PREFIX = "BI_"
OPERATIONS = frozenset({"load", "insert", "update", "delete"})
_MEMBERS = frozenset({"data", "metadata", "control"})
Row = dict[str, Any]


class AwsDmsMetadata(msgspec.Struct, gc=False, rename="kebab"):
    record_type: str | None = None
    operation: str | None = None
    schema_name: str | None = None
    table_name: str | None = None
    timestamp: str | None = None

    def time(self) -> int:
        """Return the event time in milliseconds, -1 if there is no readable timestamp."""
        try:
            moment = datetime.fromisoformat(self.timestamp or "")
        except ValueError:
            return -1
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class AwsDmsEnvelope(msgspec.Struct, gc=False):
    data: Row | None = None
    metadata: AwsDmsMetadata | None = None


_read_envelope = msgspec.json.Decoder(AwsDmsEnvelope, float_hook=exact).decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_row = msgspec.json.Decoder(Row, float_hook=exact).decode


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode aws-dms-json messages."""
    decoded = DecodeResult()
    tables = TextTables(options)

    def handle(envelope: AwsDmsEnvelope, number: int) -> None:
        metadata = envelope.metadata
        if metadata is not None and metadata.record_type not in {None, "data"}:
            decoded.skipped[metadata.record_type or ""] += 1
        else:
            _add_rows(envelope, number, messages, tables)

    handle_envelopes(messages, _read_envelope, decoded, handle)
    tables.finish(messages, decoded)
    return decoded


def _add_rows(envelope: AwsDmsEnvelope, number: int, messages: Messages, tables: TextTables) -> None:
    metadata, data = envelope.metadata, envelope.data
    if metadata is None:
        raise missing(NAME, "metadata")
    operation = metadata.operation
    if operation is None:
        raise missing(NAME, "operation")
    if operation not in OPERATIONS:
        raise unknown_operation(operation)
    if data is None:
        raise missing(NAME, "data")
    rows = tables.of(metadata.schema_name, metadata.table_name, None)
    time = metadata.time()
    if operation == "delete":
        rows.change(number, time, data, None)
    elif operation != "update":
        rows.change(number, time, None, data)
    else:
        before, after = images(data)
        if before is None:
            before = _image_beside(messages.values[number] or b"")
        _add_update(rows, number, time, before, after)


def _add_update(rows: RowBuilder, number: int, time: int, before: Row | None, after: Row) -> None:
    whole = {**after, **(before or {})}
    if before is not None and (before.keys() >= after.keys() or rows.moves(whole, after)):
        rows.change(number, time, whole, after)
    else:
        # The row before is unknown, or only its key, which is the same: nothing can be retracted.
        rows.put(number, time, UPDATE_AFTER, after)


def images(data: Row) -> tuple[Row | None, Row]:
    """Return the before and the after image of a row; the before image is None if it is unknown.

    Without any `BI_x` next to a column `x` the before image is unknown, and `BI_x` a column. With one, each `BI_x` is a
    before value, since a column that became null may be missing, except for a column `BI_x` that has a before value.
    """
    found = [name for name in data if name.startswith(BEFORE_PREFIX)]
    if not any(name.removeprefix(BEFORE_PREFIX) in data for name in found):
        return None, data
    olds = {name.removeprefix(BEFORE_PREFIX): data[name] for name in found if BEFORE_PREFIX + name not in data}
    after = {name: value for name, value in data.items() if name not in found or BEFORE_PREFIX + name in data}
    return {**after, **olds}, after


def _image_beside(message: bytes) -> Row | None:
    """Return the values before an update that are an object beside `data`; None if there is no such object."""

    def read(value: bytes) -> list[tuple[str, Row]]:
        others = [(name, raw) for name, raw in _read_members(value).items() if name not in _MEMBERS]
        return [(name, _read_row(raw)) for name, raw in others if bytes(raw).startswith(b"{")]

    # Unpaired surrogates are counted when the message is read as a whole.
    found = read_json(message, read, DecodeResult())
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        text = (
            f"it is unknown which of {names} has the values before the update: one object beside 'data' may have them"
        )
        raise DecodeError(text, reason=BAD_VALUE)
    return found[0][1] if found else None


FORMAT = Format("aws-dms-json", decode)
