"""Bounds of texts in the statistics of ORC files, which Arrow's writer stores in full and Java's writer cuts.

A text of megabytes would be in its file seven times: as a value, and as both bounds in the index, the stripe and the
footer.
"""

from __future__ import annotations

from penstock.table.orc_metadata.protobuf import BYTES, Message

_MOST = 1024  # the bytes that Java keeps
_TEXTS = 4  # the field of a column's statistics with the bounds of its texts
_MINIMUM, _MAXIMUM, _LOWER, _UPPER = 1, 2, 4, 5  # of texts; the last two are bounds that are not values themselves
_ENTRIES, _STATISTICS = 1, 2  # the entries of an index, and the statistics of one
_LAST_CHARACTER, _LAST_BEFORE_SURROGATES = "\U0010ffff", "\ud7ff"


def has_long_bounds(column: Message) -> bool:
    """Return whether a column's statistics have longer bounds than Java's writer stores."""
    return any(
        number == _TEXTS and isinstance(value, bytes) and len(value) > _MOST for number, _, value in column.fields
    )


def with_short_bounds(column: Message) -> Message:
    """Return a column's statistics with bounds of at most 1024 bytes, which enclose the values."""
    if not has_long_bounds(column):
        return column
    return Message([(at, wire, _shortened(value) if at == _TEXTS else value) for at, wire, value in column.fields])


def with_short_index(index: Message) -> Message:
    """Return the index of a column in a stripe with such bounds."""
    entries = index.messages(_ENTRIES)
    for entry in entries:
        entry.put_messages(_STATISTICS, [with_short_bounds(message) for message in entry.messages(_STATISTICS)])
    index.put_messages(_ENTRIES, entries)
    return index


def _shortened(texts: int | bytes) -> bytes:
    found: list[tuple[int, int, int | bytes]] = []
    for number, wire, value in Message.parse(bytes(texts)).fields:
        if number == _MINIMUM and isinstance(value, bytes) and len(value) > _MOST:
            found.append((_LOWER, BYTES, _prefix(value).encode()))
        elif number == _MAXIMUM and isinstance(value, bytes) and len(value) > _MOST:
            found.append((_UPPER, BYTES, _above(value)))
        else:
            found.append((number, wire, value))
    return Message(found).encode()


def _prefix(text: bytes) -> str:
    end = _MOST
    while text[end] & 0xC0 == 0x80:  # in the middle of a character
        end -= 1
    return text[:end].decode()


def _above(text: bytes) -> bytes:
    """Return a short text above all texts with this beginning, or the text if all its characters are the last one."""
    start = _prefix(text).rstrip(_LAST_CHARACTER)
    if not start:
        return text
    last = "\ue000" if start[-1] == _LAST_BEFORE_SURROGATES else chr(ord(start[-1]) + 1)
    return (start[:-1] + last).encode()
