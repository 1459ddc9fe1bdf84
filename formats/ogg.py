"""ogg-json (Oracle GoldenGate): `before` and `after`, no types, `op_ts` in the time zone of the job."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DecodeError
from penstock.formats.change import DecodeOptions, DecodeResult, Int64s, Messages, Truncation
from penstock.formats.json_envelope import missing, read_envelopes, unknown_operation
from penstock.formats.json_text import exact
from penstock.formats.row_builder import TextTables, bad_record

NAME = "ogg-json"
# GoldenGate adds a member of this ending for a column whose value it does not have.
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


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode ogg-json messages."""
    decoded = DecodeResult()
    tables = TextTables(options)
    envelopes = read_envelopes(messages, _read_envelope, decoded)
    times = event_times([None if envelope is None else envelope.op_ts for envelope in envelopes], options.zone)
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
    return decoded


def split_name(name: str | None, parts: int | None) -> tuple[str | None, str | None]:
    """Return database and table. Of three parts the first is the catalog, unless `parts` says that names have two."""
    if name is None or "." not in name:
        return None, name
    first, rest = name.split(".", 1)
    if "." in rest and parts != 2:
        first, rest = rest.split(".", 1)
    return first, rest


def event_times(texts: list[str | None], zone: str) -> Int64s:
    """Return event times in milliseconds, -1 for a text that is not a local timestamp.

    A local time that clocks skip continues with the offset before the gap, as in Java.
    """
    place = ZoneInfo(zone)
    column = pa.array(texts, pa.string())
    try:
        local = column.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        local = pa.array([_local(text) for text in texts], pa.timestamp("us"))
    moments = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    # A local time that clocks skip is another one after a conversion to an instant and back.
    skipped = pc.fill_null(pc.not_equal(pc.local_timestamp(moments), local), fill_value=False)
    millis = np.array(pc.fill_null(pc.divide(moments.cast(pa.int64()), 1000), fill_value=-1), np.int64)
    for row in np.flatnonzero(skipped):
        millis[row] = int(local[row].as_py().replace(tzinfo=place).timestamp() * 1000)
    return millis


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
