"""Messages as one text, and where the names of their members end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import COLON, QUOTE, Bytes
from penstock.formats.layouts.layout import MOST_BLANKS
from penstock.formats.layouts.member_values import WINDOW, PieceText

# Windows are read up to the last byte, and behind it for layouts with blanks.
_PADDING = b"\n" * (WINDOW + MOST_BLANKS)
# Bytes in which names are looked for at once.
_PART = 1 << 16
_NOWHERE: Int64s = np.zeros(0, np.int64)


class MessageTexts:
    """Messages as one text, and where each of them begins and ends."""

    def __init__(self, documents: Sequence[bytes]) -> None:
        self.documents = documents
        text = b"".join([*documents, _PADDING])
        self.piece = PieceText.of(text)
        self.ends = np.cumsum(np.fromiter(map(len, documents), np.int64, len(documents)))
        self.begins = np.append(0, self.ends[:-1])


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
