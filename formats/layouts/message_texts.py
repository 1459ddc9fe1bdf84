"""Messages as one text, and where the names of their members end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import BACKSLASH, COLON, QUOTE, Bytes, escapes_of, resolve, unresolvable, without
from penstock.formats.layouts.layout import ESCAPED, MOST_BLANKS
from penstock.formats.layouts.member_values import WINDOW, PieceText

# Windows are read up to the last byte, and behind it for layouts with blanks.
_PADDING = b"\n" * (WINDOW + MOST_BLANKS)
# Bytes in which names are looked for at once.
_PART = 1 << 18
_NOWHERE: Int64s = np.zeros(0, np.int64)


class MessageTexts:
    """Messages as one text with their escapes resolved, and where each of them begins and ends in it.

    `marks` is the same text with a byte that JSON does not have for each character that was escaped, so that all
    quotation marks delimit texts and names. `unresolved` are the numbers of messages with an escape that does not stand
    for a single character.
    """

    def __init__(self, documents: Sequence[bytes]) -> None:
        self.documents = documents
        text = b"".join([*documents, _PADDING])
        self.ends = np.cumsum(np.fromiter(map(len, documents), np.int64, len(documents)))
        self.unresolved = _NOWHERE
        if BACKSLASH in text:
            self._resolve(np.frombuffer(text, np.uint8))
        else:
            self.piece = self.marks = PieceText.of(text)
        self.begins = np.append(0, self.ends[:-1])

    def _resolve(self, data: Bytes) -> None:
        escapes = escapes_of(data)
        message = np.searchsorted(self.ends, escapes, side="right")
        # A backslash at the end of a message must not escape the begin of the next one.
        wrong = unresolvable(data, escapes) | (escapes + 1 == self.ends[message])
        self.unresolved = np.unique(message[wrong])
        if len(self.unresolved):
            escapes, message = escapes[~wrong], message[~wrong]
        text = without(data, escapes)
        # Each place moves forward by the number of backslashes before it.
        places = escapes - np.arange(len(escapes))
        marks = bytearray(text)
        np.frombuffer(marks, np.uint8)[places] = ESCAPED
        resolve(np.frombuffer(text, np.uint8), places)
        self.piece, self.marks = PieceText.of(text), PieceText.of(marks)
        self.ends -= np.cumsum(np.bincount(message, minlength=len(self.ends)))

    def marked(self, number: int) -> bytes:
        """Return a message as it is in `marks`."""
        return bytes(self.marks.text[self.begins[number] : self.ends[number]])


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
