"""aws-dms-json: one row in `data`, with before values next to it as `BI_<column>`. Declares no types and no key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock.formats.change import DecodeOptions, DecodeResult, Messages
from penstock.formats.json_envelope import handle_envelopes, missing, unknown_operation
from penstock.formats.json_text import exact
from penstock.formats.message_format import Format
from penstock.formats.row_builder import TextTables
from penstock.row_kinds import UPDATE_AFTER

NAME = "aws-dms-json"
BEFORE_PREFIX = "BI_"
OPERATIONS = frozenset({"load", "insert", "update", "delete"})
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


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode aws-dms-json messages."""
    decoded = DecodeResult()
    tables = TextTables(options)

    def handle(envelope: AwsDmsEnvelope, number: int) -> None:
        metadata = envelope.metadata
        if metadata is not None and metadata.record_type not in {None, "data"}:
            decoded.skipped[metadata.record_type or ""] += 1
        else:
            _add_rows(envelope, number, tables)

    handle_envelopes(messages, _read_envelope, decoded, handle)
    tables.finish(messages, decoded)
    return decoded


def _add_rows(envelope: AwsDmsEnvelope, number: int, tables: TextTables) -> None:
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
        # The DMS task sends no before images: nothing can be retracted.
        if before is None:
            rows.put(number, time, UPDATE_AFTER, after)
        else:
            rows.change(number, time, before, after)


def images(data: Row) -> tuple[Row | None, Row]:
    """Return the before and the after image of a row; the before image is None if it is unknown.

    `BI_x` is a before value only if a column `x` exists too. Without any such member the before image is unknown.
    """
    olds = {name.removeprefix(BEFORE_PREFIX): value for name, value in data.items() if _is_before(name, data)}
    after = {name: value for name, value in data.items() if not _is_before(name, data)}
    return {**after, **olds} if olds else None, after


def _is_before(name: str, data: Row) -> bool:
    return name.startswith(BEFORE_PREFIX) and name.removeprefix(BEFORE_PREFIX) in data


FORMAT = Format("aws-dms-json", decode)
