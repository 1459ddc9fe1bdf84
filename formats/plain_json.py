"""json: every message is a row, or an array of rows, to insert. It has no table names, keys or types."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from penstock.errors import DecodeError
from penstock.formats.change import DecodeOptions, DecodeResult, Messages, SourceSchema
from penstock.formats.json_bytes import Mask
from penstock.formats.json_envelope import read_envelopes
from penstock.formats.json_text import exact
from penstock.formats.layouts.layout_rows import UNDECIDED, RowMembers, TableMessages
from penstock.formats.layouts.member_columns import MemberColumns
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_groups import KnownLayouts
from penstock.formats.layouts.untyped_rows import decode_by_layout, read_text, text_fields
from penstock.formats.message_format import Format
from penstock.formats.row_builder import TextTables, bad_record, check_members
from penstock.formats.unsent_values import ENCODED_TEXTS, unsent_error, unsent_names
from penstock.row_kinds import INSERT

Row = dict[str, Any]

_read_rows = msgspec.json.Decoder(Row | list[Row], float_hook=exact).decode
_known = KnownLayouts()


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode messages that are rows or arrays of rows, all of them as inserts."""
    return decode_by_layout(messages, options, _known, _add_rows, _decode_records)


def _add_rows(rows: LayoutRows, messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> Mask:
    layout = rows.layout
    if layout.has_others:
        return np.zeros(len(rows), bool)
    members = tuple(range(len(layout.paths)))
    columns = MemberColumns(rows, members)
    names = tuple(name for (name,) in layout.paths)
    kinds, times = np.full(len(rows), INSERT, np.int8), np.full(len(rows), -1, np.int64)
    if members:
        kinds[rows.have(members, ENCODED_TEXTS)] = UNDECIDED
    schema = SourceSchema("text", None, None, text_fields(names))
    table = TableMessages(
        columns, None, RowMembers(names, members), kinds, times, [(schema, len(kinds))], read_text(columns)
    )
    return table.add(options.rule(None, None, ()), messages, decoded)


def _decode_records(messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> None:
    tables = TextTables(options)
    rows = tables.of(None, None, None)
    for number, message in enumerate(read_envelopes(messages, _read_rows, decoded)):
        if message is None:
            continue
        found = message if isinstance(message, list) else [message]
        try:
            check_members(found)
            # Rows of Debezium without their envelope (ExtractNewRecordState).
            if unsent := [name for row in found for name in unsent_names(row)]:
                raise unsent_error(unsent)
        except DecodeError as error:
            decoded.bad.append(bad_record(messages, number, error))
            continue
        for place, row in enumerate(found):
            rows.put(number, -1, INSERT, row, place)
    tables.finish(messages, decoded)


FORMAT = Format("json", decode)
