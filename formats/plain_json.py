"""json: every message is a row, or an array of rows, to insert. It has no table names, keys or types."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.errors import DecodeError
from penstock.formats.change import DecodeOptions, DecodeResult, Messages
from penstock.formats.json_envelope import read_envelopes
from penstock.formats.json_text import exact
from penstock.formats.row_builder import TextTables, bad_record, check_members
from penstock.row_kinds import INSERT

Row = dict[str, Any]

_read_rows = msgspec.json.Decoder(Row | list[Row], float_hook=exact).decode


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode messages that are rows or arrays of rows, all of them as inserts."""
    decoded = DecodeResult()
    tables = TextTables(options)
    rows = tables.of(None, None, None)
    for number, message in enumerate(read_envelopes(messages, _read_rows, decoded)):
        if message is None:
            continue
        found = message if isinstance(message, list) else [message]
        try:
            check_members(found)
        except DecodeError as error:
            decoded.bad.append(bad_record(messages, number, error))
            continue
        for place, row in enumerate(found):
            rows.put(number, -1, INSERT, row, place)
    tables.finish(messages, decoded)
    return decoded
