"""ogg-json (Oracle GoldenGate): `before` and `after`, no types, `op_ts` in the time zone of the job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DecodeError
from penstock.formats.change import DecodeOptions, DecodeResult, Int64s, Messages, Truncation
from penstock.formats.json_bytes import Mask
from penstock.formats.json_envelope import missing, read_envelopes, unknown_operation
from penstock.formats.json_text import exact
from penstock.formats.layouts.layout import MessageLayout, ObjectMembers
from penstock.formats.layouts.layout_rows import RowMembers, kinds_of
from penstock.formats.layouts.member_columns import MemberColumns
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_groups import KnownLayouts
from penstock.formats.layouts.untyped_rows import UntypedRows, decode_by_layout
from penstock.formats.message_format import Format
from penstock.formats.row_builder import TextTables, bad_record
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER

NAME = "ogg-json"
# GoldenGate adds a member with this ending for a column whose value it does not have.
_MISSING_MARK = "_isMissing"
Row = dict[str, Any]


class OggEnvelope(msgspec.Struct, gc=False):
    table: str | None = None
    op_type: str | None = None
    op_ts: str | None = None
    primary_keys: list[str] | None = None
    before: Row | None = None
    after: Row | None = None


_read_envelope = msgspec.json.Decoder(OggEnvelope, float_hook=exact).decode
_known = KnownLayouts(("table",), ("op_type",))


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode ogg-json messages."""
    return decode_by_layout(messages, options, _known, _add_layout, _decode_records)


@dataclass(frozen=True, slots=True)
class OggMembers:
    """The members of a layout of ogg-json; `keys` is None if the messages say nothing about primary keys."""

    rows: RowMembers
    table: int | None
    operation: int
    time: int | None
    keys: tuple[str, ...] | None

    @property
    def texts(self) -> list[int]:
        """Return the members that must be texts or null."""
        return [member for member in (self.table, self.operation, self.time) if member is not None]

    @classmethod
    def of(cls, layout: MessageLayout) -> OggMembers | None:
        """Return the members of a layout, None if its messages need the record path."""
        before, after, operation = layout.row("before"), layout.row("after"), layout.scalar("op_type")
        if operation is None or not layout.scalars_or_missing("table", "op_ts"):
            return None
        # A row with nested values, and a row that is not an object.
        if any(row is None and (name,) in layout.number for name, row in (("before", before), ("after", after))):
            return None
        if not layout.texts_or_missing("primary_keys"):
            return None
        rows = _row_members(before, after)
        if rows is None or any(name.endswith(_MISSING_MARK) for name in rows.names):
            return None
        time = layout.scalar("op_ts")
        return cls(rows, layout.scalar("table"), operation, time, layout.texts("primary_keys"))


def _row_members(before: ObjectMembers | None, after: ObjectMembers | None) -> RowMembers | None:
    if before and after:
        # In compressed updates each image has the columns that the other one lacks.
        return RowMembers(after[0], after[1], before[1]) if before[0] == after[0] else None
    if after:
        return RowMembers(*after)
    return RowMembers(before[0], (), deleted=before[1]) if before else None


def _add_layout(rows: LayoutRows, messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> Mask:
    members = rows.layout.derive(NAME, OggMembers.of)
    if members is None or not rows.are_texts_or_null(members.texts).all():
        return np.zeros(len(rows), bool)
    row = members.rows
    columns = MemberColumns(rows, [*members.texts, *(row.after or row.deleted)], row.before)
    times = np.full(len(rows), -1, np.int64)
    if members.time is not None:
        times = event_times(columns.text(members.time), options.zone)
    # An insert has no row before and a delete no row after the change; the record path reads those that differ.
    operations = {"U": UPDATE_AFTER} if row.before else {"I": INSERT} if row.after else {"D": DELETE}
    kinds = kinds_of(columns, members.operation, operations)
    untyped = UntypedRows(columns, row, kinds, times, members.keys)
    parts = options.ogg_name_parts
    return untyped.add([members.table], lambda name: split_name(name, parts), messages, options, decoded)


def _decode_records(messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> None:
    tables = TextTables(options)
    envelopes = read_envelopes(messages, _read_envelope, decoded)
    texts = pa.array([None if envelope is None else envelope.op_ts for envelope in envelopes], pa.string())
    times = event_times(texts, options.zone)
    for number, envelope in enumerate(envelopes):
        if envelope is None:
            continue
        name = split_name(envelope.table, options.ogg_name_parts)
        if envelope.op_type == "T":
            decoded.skipped["truncate"] += 1
            decoded.truncations.append(Truncation(int(messages.offsets[number]), *name))
            continue
        try:
            _add_rows(envelope, number, int(times[number]), name, tables)
        except DecodeError as error:
            decoded.bad.append(bad_record(messages, number, error))
    tables.finish(messages, decoded)


def split_name(name: str | None, parts: int | None) -> tuple[str | None, str | None]:
    """Return database and table. Of three parts the first is the catalog, unless `parts` says that names have two."""
    if name is None or "." not in name:
        return None, name
    first, rest = name.split(".", 1)
    if "." in rest and parts != 2:
        first, rest = rest.split(".", 1)
    return first, rest


def event_times(texts: pa.Array, zone: str) -> Int64s:
    """Return event times in milliseconds, -1 for a text that is not a local timestamp.

    A local time that clocks skip continues with the offset before the gap, as in Java.
    """
    place = ZoneInfo(zone)
    try:
        local = texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        local = pa.array([_local(text) for text in texts.to_pylist()], pa.timestamp("us"))
    if zone == "UTC":  # where clocks skip nothing
        return np.array(_millis(local), np.int64)
    moments = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    # A local time that clocks skip is another one after a conversion to an instant and back.
    skipped = pc.fill_null(pc.not_equal(pc.local_timestamp(moments), local), fill_value=False)
    millis = np.array(_millis(moments), np.int64)
    for row in np.flatnonzero(skipped):
        millis[row] = int(local[row].as_py().replace(tzinfo=place).timestamp() * 1000)
    return millis


def _millis(moments: pa.Array) -> pa.Array:
    return pc.fill_null(pc.divide(moments.cast(pa.int64()), 1000), fill_value=-1)


def _local(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "").replace(tzinfo=None)
    except ValueError:
        return None


def _add_rows(
    envelope: OggEnvelope, number: int, time: int, name: tuple[str | None, str | None], tables: TextTables
) -> None:
    operation, before, after = envelope.op_type, _without_marks(envelope.before), _without_marks(envelope.after)
    if operation is None:
        raise missing(NAME, "op_type")
    if operation not in {"I", "U", "D"}:
        raise unknown_operation(operation)
    if after is None and operation != "D":
        raise missing(NAME, "after", "op_type", operation)
    if before is None and operation != "I":
        raise missing(NAME, "before", "op_type", operation)
    rows = tables.of(*name, envelope.primary_keys)
    if operation == "I":
        rows.change(number, time, None, after)
    elif operation == "D":
        rows.change(number, time, before, None)
    else:
        # A compressed update omits unchanged columns from one of the images; a missing member is not null.
        rows.change(number, time, {**(after or {}), **(before or {})}, {**(before or {}), **(after or {})})


def _without_marks(row: Row | None) -> Row | None:
    if row is None or not any(name.endswith(_MISSING_MARK) for name in row):
        return row
    return {name: value for name, value in row.items() if not name.endswith(_MISSING_MARK)}


FORMAT = Format("ogg-json", decode)
