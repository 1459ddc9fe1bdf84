"""The bytes of all values of a column as pieces, and records made of the pieces of their columns.

A piece has up to eight bytes for each row, as an integer. All rows of a piece are placed by one call of numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import EVEN_GROUPS, ODD_GROUPS, at_every_byte
from penstock.table.values.buffers import Bytes, Flags, Ints, Words, text_parts

_WORD = 8
# Longer texts are copied one by one.
_LONG_TEXT = 128
# The continuation bits of a number by its size in bytes. A word has at most eight of these bytes.
_MORE = np.array([sum(0x80 << 8 * byte for byte in range(min(size - 1, 8))) for size in range(11)], np.uint64)
_LOW = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


@dataclass(frozen=True, slots=True)
class ShortBytes:
    """Up to eight bytes of each row, the first one in the lowest bits; bits above them are zero."""

    word: Words
    size: Ints


@dataclass(frozen=True, slots=True)
class Text:
    """Texts of any length, one after another in `data`."""

    size: Ints
    data: Bytes


def numbers(values: Ints, valid: Flags | None, *, nullable: bool) -> Iterator[ShortBytes]:
    """Yield zigzag varints: seven bits per byte, the lowest first, and the sign in the lowest bit of all."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    most = int(zigzag.max(initial=0))
    size = np.ones(len(values), np.int64)
    for byte in range(1, -(-most.bit_length() // 7)):
        size += zigzag >= np.uint64(1 << 7 * byte)
    word = zigzag & np.uint64((1 << 56) - 1)
    # The groups of seven bits are moved apart: 28 bits first, then 14, then 7.
    for step in range(2 if most >> 28 else 1 if most >> 14 else 0, -1, -1):
        shift = np.uint64(1 << step)
        word = (word & EVEN_GROUPS[step]) | (word << shift & ODD_GROUPS[step])
    word |= _MORE[size]
    rest = None
    if most >> 56:
        high = zigzag >> np.uint64(56)
        rest = (high & np.uint64(0x7F)) | (high >> np.uint64(7)) * np.uint64(0x0180)
    yield from _after_branch(
        [(word, np.minimum(size, _WORD)), (rest, np.maximum(size - _WORD, 0))], valid, nullable=nullable
    )


def fixed(words: Words, width: int, valid: Flags | None, *, nullable: bool) -> Iterator[ShortBytes]:
    """Yield values of a fixed width."""
    yield from _after_branch([(words, np.full(len(words), width, np.int64))], valid, nullable=nullable)


def decimals(values: Ints, valid: Flags | None, *, nullable: bool) -> Iterator[ShortBytes]:
    """Yield numbers of at most 64 bits in as few bytes as they need, after their length, the highest byte first."""
    size = np.ones(len(values), np.int64)
    positive = values ^ (values >> 63)
    most = int(positive.max(initial=0))
    for byte in range(1, -(-(most.bit_length() + 1) // 8)):
        size += positive >= 1 << (8 * byte - 1)
    word = values.byteswap().view(np.uint64) >> (8 * (_WORD - size)).astype(np.uint64)
    head = (size << 1).view(np.uint64)
    if int(size.max(initial=0)) < _WORD:
        parts: list[tuple[Words | None, Ints]] = [(head | word << np.uint64(8), size + 1)]
    else:
        parts = [(head, np.ones(len(values), np.int64)), (word, size)]
    yield from _after_branch(parts, valid, nullable=nullable)


def texts(array: pa.Array, valid: Flags | None, *, nullable: bool) -> Iterator[ShortBytes | Text]:
    """Yield binaries after their length; the array has no nulls."""
    size, data = text_parts(array)
    yield from numbers(size, valid, nullable=nullable)
    yield Text(size, data)


def _after_branch(
    parts: Sequence[tuple[Words | None, Ints]], valid: Flags | None, *, nullable: bool
) -> Iterator[ShortBytes]:
    """Yield the parts after the branch of their union, if they are nullable: 2 and the value, or 0 only."""
    if valid is not None:
        parts = [(word, np.where(valid, size, 0)) for word, size in parts]
        parts = [(None if word is None else np.where(valid, word, np.uint64(0)), size) for word, size in parts]
    first, size = parts[0]
    assert first is not None
    if nullable:
        branch = np.uint64(2) if valid is None else valid.astype(np.uint64) << np.uint64(1)
        if int(size.max(initial=0)) < _WORD:
            parts = [(first << np.uint64(8) | branch, size + 1), *parts[1:]]
        else:
            ones = np.ones(len(size), np.int64)
            parts = [(np.broadcast_to(branch, len(size)), ones), *parts]
    for word, size in parts:
        if word is not None:
            yield ShortBytes(word, size)


def records(pieces: Sequence[ShortBytes | Text], count: int) -> tuple[Bytes, Ints]:
    """Return the bytes of all records one after another, and where each begins, and the last one ends."""
    bounds = np.zeros(count + 1, np.int64)
    for piece in pieces:
        bounds[1:] += piece.size
    np.cumsum(bounds, out=bounds)
    out = np.zeros(int(bounds[-1]) + _WORD, np.uint8)
    at = bounds[:-1].copy()
    for piece in pieces:
        if isinstance(piece, ShortBytes):
            _place(out, at, piece.word)
        else:
            _place_texts(out, at, piece)
        at += piece.size
    return out[: int(bounds[-1])], bounds


def _place(out: Bytes, at: Ints, word: Words) -> None:
    # Each write has eight bytes, and keeps the bytes that are there: the first pieces of the next row may follow a
    # piece directly. All rows are read before any is written, and numpy writes in their order, so a row less than eight
    # bytes behind another one is not overwritten by it.
    every = np.ndarray(len(out) - _WORD + 1, "V8", buffer=out.data, strides=(1,))
    whole = every[at].view(np.uint64)
    whole |= word
    every[at] = whole.view("V8")


def _place_texts(out: Bytes, at: Ints, text: Text) -> None:
    starts = np.cumsum(text.size) - text.size
    data = np.concatenate([text.data, np.zeros(_WORD, np.uint8)])
    every = at_every_byte(data, "V8")
    short = text.size <= _LONG_TEXT
    rows = np.flatnonzero(short & (text.size > 0))
    first = 0
    while len(rows):
        left = text.size[rows] - first
        word = every[starts[rows] + first].view(np.uint64)
        word &= _LOW[np.minimum(left, _WORD)]
        _place(out, at[rows] + first, word)
        first += _WORD
        rows = rows[left > _WORD]
    for row in np.flatnonzero(~short).tolist():
        place, start, size = int(at[row]), int(starts[row]), int(text.size[row])
        out[place : place + size] = data[start : start + size]
