"""maxwell-json: the full row in `data`, the previous values of changed columns in `old`. No types; `ts` in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from penstock.formats.change import DecodeOptions, DecodeResult, Messages
from penstock.formats.json_bytes import Mask
from penstock.formats.json_envelope import handle_envelopes, missing, unknown_operation
from penstock.formats.json_text import exact
from penstock.formats.layouts.layout import MessageLayout
from penstock.formats.layouts.layout_rows import RowMembers, event_millis, kinds_of
from penstock.formats.layouts.member_columns import MemberColumns
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_groups import KnownLayouts
from penstock.formats.layouts.untyped_rows import UntypedRows, decode_by_layout
from penstock.formats.message_format import Format
from penstock.formats.row_builder import TextTables
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER

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
_known = KnownLayouts(("database",), ("table",), ("type",))
_KINDS = {"insert": INSERT, "bootstrap-insert": INSERT, "update": UPDATE_AFTER, "delete": DELETE}


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode maxwell-json messages."""
    return decode_by_layout(messages, options, _known, _add_layout, _decode_records)


@dataclass(frozen=True, slots=True)
class MaxwellMembers:
    """The members of a layout of maxwell-json; `keys` is None if the messages say nothing about primary keys."""

    rows: RowMembers
    database: int | None
    table: int | None
    type: int
    ts: int | None
    keys: tuple[str, ...] | None

    @property
    def texts(self) -> list[int]:
        """Return the members that must be texts or null."""
        return [member for member in (self.database, self.table, self.type) if member is not None]

    @classmethod
    def of(cls, layout: MessageLayout) -> MaxwellMembers | None:
        """Return the members of a layout, None if its messages need the record path."""
        data, old = layout.row("data"), layout.row("old")
        operation = layout.scalar("type")
        if data is None or operation is None or not layout.scalars_or_missing("database", "table", "ts"):
            return None
        # `old` without scalars in it may only be absent; a null is left to the record path as well.
        if old is None and ("old",) in layout.number:
            return None
        if not layout.texts_or_missing("primary_key_columns"):
            return None
        names, after = data
        previous = dict(zip(*old, strict=True)) if old else {}
        if not previous.keys() <= set(names):
            return None
        before = tuple(previous.get(name, member) for name, member in zip(names, after, strict=True)) if old else ()
        rows = RowMembers(names, after, before, deleted=after)
        place = (layout.scalar("database"), layout.scalar("table"), operation, layout.scalar("ts"))
        return cls(rows, *place, layout.texts("primary_key_columns"))


def _add_layout(rows: LayoutRows, messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> Mask:
    members = rows.layout.derive(NAME, MaxwellMembers.of)
    if members is None or not rows.are_texts_or_null(members.texts).all():
        return np.zeros(len(rows), bool)
    wanted = [*members.texts, *members.rows.after, *([] if members.ts is None else [members.ts])]
    columns = MemberColumns(rows, wanted, [member for member in members.rows.before if member not in wanted])
    times = event_millis(columns, members.ts, 1000)
    if times is None:
        return np.zeros(len(rows), bool)
    kinds = kinds_of(columns, members.type, _KINDS)
    untyped = UntypedRows(columns, members.rows, kinds, times, members.keys)
    named_by = [members.database, members.table]
    return untyped.add(named_by, lambda database, table: (database, table), messages, options, decoded)


def _decode_records(messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> None:
    tables = TextTables(options)

    def handle(envelope: MaxwellEnvelope, number: int) -> None:
        if envelope.type in WITHOUT_ROWS:
            decoded.skipped[envelope.type] += 1
        else:
            _add_rows(envelope, number, tables)

    handle_envelopes(messages, _read_envelope, decoded, handle)
    tables.finish(messages, decoded)


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


FORMAT = Format("maxwell-json", decode)
