"""JSON texts as arrays of bytes: where quotation marks and escapes are, and texts with their escapes resolved."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import Int64s

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

QUOTE, ESCAPE, COLON = b'"\\:'
BACKSLASH = b"\\"
# Bytes below this one are control characters, which JSON does not allow in texts.
SPACE = 0x20
# The character that an escape stands for, by the character after the backslash; 0 if it is not a single character.
_MEANT = np.zeros(256, np.uint8)
_MEANT[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')


def is_utf8(text: bytes | Bytes) -> bool:
    """Return whether all bytes are valid UTF-8."""
    whole = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, len(text)], np.int32)), pa.py_buffer(text))
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def escape_positions(text: bytes, data: Bytes) -> Int64s:
    """Return the positions in `data` of backslashes that escape the next character: every second one in a run.

    `text` contains the bytes of `data`. It is searched first, because most texts have no backslash at all.
    """
    if BACKSLASH not in text:
        return np.zeros(0, np.int64)
    return escapes_of(data)


def escapes_of(data: Bytes) -> Int64s:
    """Return the positions of backslashes that begin an escape. Slower than `escape_positions` if there are none."""
    places = np.flatnonzero(data == ESCAPE)
    if len(places) == 0 or not (np.diff(places) == 1).any():
        return places
    begins = np.append(True, np.diff(places) != 1)
    number = np.arange(len(places))
    in_its_run = number - np.maximum.accumulate(np.where(begins, number, 0))
    first: Int64s = places[in_its_run % 2 == 0]
    return first


def quotation_marks(data: Bytes, escapes: Int64s) -> Mask:
    """Return which bytes are quotation marks that are not escaped."""
    marks: Mask = data == QUOTE
    # A backslash at the very end escapes nothing.
    inner = escapes[:-1] if len(escapes) and escapes[-1] == len(data) - 1 else escapes
    marks[inner + 1] = False
    return marks


def unresolvable(data: Bytes, escapes: Int64s) -> Mask:
    """Return which of these escapes do not stand for a single character, as \\uXXXX and wrong ones."""
    following = data[np.minimum(escapes + 1, len(data) - 1)]
    wrong: Mask = _MEANT[following] == 0
    return wrong


def unescaped(column: pa.Array) -> pa.Array | None:
    """Return the texts of a column with escapes resolved; None if a character is escaped by its number (\\uXXXX)."""
    bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
    escapes = escapes_of(data)
    if len(escapes) == 0:
        return column
    if unresolvable(data, escapes).any():
        return None
    text = data.copy()
    resolve(text, escapes + 1)
    bounds = bounds - bounds[0]
    # Each bound moves forward by the number of backslashes removed before it. Texts are many and escapes are few.
    removed = np.bincount(np.searchsorted(bounds, escapes, side="right"), minlength=len(bounds))
    offsets = (bounds - np.cumsum(removed)).astype(np.int32)
    return pa.StringArray.from_buffers(len(column), pa.py_buffer(offsets), without(text, escapes))


def resolve(data: Bytes, places: Int64s) -> None:
    """Replace the characters that were escaped at these places by those that they stand for."""
    data[places] = _MEANT[data[places]]


def without(data: Bytes, places: Int64s) -> pa.Buffer:
    """Return the text without the bytes at these places, which are in order."""
    # Bytes between two places are copied at once.
    bounds = np.empty(2 * len(places) + 2, np.int32)
    bounds[0], bounds[-1] = 0, len(data)
    bounds[1:-1:2], bounds[2:-1:2] = places, places + 1
    parts = pa.BinaryArray.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return pc.take(parts, pa.array(np.arange(0, len(bounds), 2, dtype=np.int32)), boundscheck=False).buffers()[2]
