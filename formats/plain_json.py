"""json: every message is a row, or an array of rows, to insert. No names, no key, no types."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.formats.change import Decoded, DecodeOptions, Messages
from penstock.formats.envelope import read_envelopes
from penstock.formats.rows import TextTables
from penstock.formats.texts import exact

Row = dict[str, Any]

_read_rows = msgspec.json.Decoder(Row | list[Row], float_hook=exact).decode


def decode(messages: Messages, options: DecodeOptions) -> Decoded:
    decoded = Decoded()
    tables = TextTables(options)
    rows = tables.of(None, None, None)
    for number, message in enumerate(read_envelopes(messages, _read_rows, decoded)):
        if message is None:
            continue
        found = message if isinstance(message, list) else [message]
        for place, row in enumerate(found):
            rows.change(number, -1, None, row, place)
    tables.finish(messages, decoded)
    return decoded
