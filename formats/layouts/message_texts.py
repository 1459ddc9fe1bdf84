"""Messages as one text, and where the names of their members end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import COLON, QUOTE, Bytes, escapes_of, unresolvable
from penstock.formats.layouts.layout import MOST_BLANKS
from penstock.formats.layouts.member_values import WINDOW, PieceText

# Windows are read up to the last byte, and behind it for layouts with blanks.
_PADDING = b"\n" * (WINDOW + MOST_BLANKS)
# Bytes in which names are looked for at once.
_PART = 1 << 16
# In the place of an escaped quotation mark: no byte of UTF-8, so no byte of a layout.
_ESCAPED = 0xFF
_NOWHERE: Int64s = np.zeros(0, np.int64)


class MessageTexts:
    """Messages as one text, and where each of them begins and ends.

    `marks` is the same text without the quotation marks that are escaped: all that are left delimit texts and names.
    `unresolved` are the places of escapes that do not stand for a single character.
    """

    def __init__(self, documents: Sequence[bytes]) -> None:
        self.documents = documents
        text = b"".join([*documents, _PADDING])
        self.piece = PieceText.of(text)
        self.ends = np.cumsum(np.fromiter(map(len, documents), np.int64, len(documents)))
        self.begins = np.append(0, self.ends[:-1])
        self.marks, self.unresolved = self.piece, _NOWHERE
        if self.piece.escaped:
            data = self.piece.data
            escapes = escapes_of(data)
            following = escapes + 1  # the padding follows the last byte
            self.unresolved = escapes[unresolvable(data, escapes)]
            quotes = following[data[following] == QUOTE]
            if len(quotes):
                data = data.copy()
                data[quotes] = _ESCAPED
                self.marks = PieceText.of(data.tobytes())


def name_ends(data: Bytes, begin: int, end: int) -> tuple[Int64s, int]:
    """Return the quotation marks in front of colons between two positions, and the number of all quotation marks."""
    found, count = [_NOWHERE], 0
    size = min(_PART, end - begin)
    marks, colons = np.empty(size, bool), np.empty(size, bool)
    for start in range(begin, end, _PART):
        stop = min(start + _PART, end)
        mark, colon = marks[: stop - start], colons[: stop - start]
        np.equal(data[start:stop], QUOTE, out=mark)
        np.equal(data[start + 1 : stop + 1], COLON, out=colon)
        count += int(np.count_nonzero(mark))
        colon &= mark
        places = np.flatnonzero(colon)
        places += start
        found.append(places)
    return np.concatenate(found), count
