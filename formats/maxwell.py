"""maxwell-json: the full row in `data`, the previous values of changed columns in `old`. No types; `ts` in seconds."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.formats.change import DecodeOptions, DecodeResult, Messages
from penstock.formats.json_envelope import handle_envelopes, missing, unknown_operation
from penstock.formats.json_text import exact
from penstock.formats.row_builder import TextTables
from penstock.row_kinds import UPDATE_AFTER

NAME = "maxwell-json"
ROW_OPERATIONS = frozenset({"insert", "bootstrap-insert", "update", "delete"})
_DDL = ("database-create", "database-alter", "database-drop", "table-create", "table-alter", "table-drop")
WITHOUT_ROWS = frozenset({"bootstrap-start", "bootstrap-complete", *_DDL})


class MaxwellEnvelope(msgspec.Struct, gc=False):
    database: str | None = None
    table: str | None = None
    type: str | None = None
    ts: int | float | str | None = None
    data: dict[str, Any] | None = None
    # In DDL messages `old` is a table definition, so any object must parse.
    old: dict[str, Any] | None = None
    primary_key_columns: list[str] | None = None

    def time(self) -> int:
        """Return the event time in milliseconds, -1 if there is no valid time."""
        # Below 2^53 seconds, the milliseconds fit into 63 bits.
        return self.ts * 1000 if isinstance(self.ts, int) and 0 <= self.ts < 1 << 53 else -1


_read_envelope = msgspec.json.Decoder(MaxwellEnvelope, float_hook=exact).decode


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode maxwell-json messages."""
    decoded = DecodeResult()
    tables = TextTables(options)

    def handle(envelope: MaxwellEnvelope, number: int) -> None:
        if envelope.type in WITHOUT_ROWS:
            decoded.skipped[envelope.type] += 1
        else:
            _add_rows(envelope, number, tables)

    handle_envelopes(messages, _read_envelope, decoded, handle)
    tables.finish(messages, decoded)
    return decoded


def _add_rows(envelope: MaxwellEnvelope, number: int, tables: TextTables) -> None:
    operation, data, old = envelope.type, envelope.data, envelope.old
    if operation is None:
        raise missing(NAME, "type")
    if operation not in ROW_OPERATIONS:
        raise unknown_operation(operation)
    if data is None:
        raise missing(NAME, "data")
    rows = tables.of(envelope.database, envelope.table, envelope.primary_key_columns)
    time = envelope.time()
    if operation == "delete":
        rows.change(number, time, data, None)
    elif operation != "update":
        rows.change(number, time, None, data)
    elif old is None:
        # The row before is unknown, so nothing can be retracted.
        rows.put(number, time, UPDATE_AFTER, data)
    else:
        # Maxwell sends only the changed columns of the row before.
        rows.change(number, time, {**data, **old}, data)
