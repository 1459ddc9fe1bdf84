"""Decoding of canal rows that all have the same layout: the same members in the same order, only the values differ.

All rows of a group are joined to one text, and its quotation marks give the positions of members and values. If every
byte between the values proves to be the same as in the first row, the values are cut out column by column without any
parser. This proves that the documents are valid JSON. For any other layout the result is None, and a general JSON
reader has to parse the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import Int64s
from penstock.formats.json_bytes import (
    COLON,
    ESCAPE,
    QUOTE,
    SPACE,
    Bytes,
    Mask,
    escape_positions,
    is_utf8,
    quotation_marks,
    unescaped,
)

# The most cells of columns that no row has: they use memory that the documents did not.
MOST_ABSENT = 1 << 20
# The most bytes of one call: it needs arrays with one number per quotation mark.
MOST_BYTES = 16 << 20

# The number of documents per piece, so that the index arrays of a piece stay in the CPU cache.
PIECE = 1_000

_BRACKET = ord("[")
# The bytes between rows of documents that follow each other.
_AFTER_ROW, _AFTER_DOCUMENT = b"},{", b"}][{"
_FIRST_ROW = msgspec.json.Decoder(list[dict[str, str | None]]).decode


@dataclass(frozen=True, slots=True)
class CellPositions:
    """The positions of the values of all rows in the text, as arrays [rows, columns], without the quotation marks."""

    starts: Int64s
    ends: Int64s
    nulls: Mask
    first_rows: Int64s  # the first row of each document
    document_begins: Int64s


@dataclass(frozen=True, slots=True)
class LayoutPiece:
    """The columns of some documents, and the first row of each, with the number of rows as last element."""

    first_rows: Int64s
    columns: Mapping[str, pa.Array]

    @property
    def rows(self) -> int:
        return int(self.first_rows[-1])

    def column(self, name: str) -> pa.Array:
        """Return the texts of a member, nulls if the rows do not have it."""
        found = self.columns.get(name)
        return pa.nulls(self.rows, pa.string()) if found is None else found


def same_layout_rows(documents: Sequence[msgspec.Raw], names: Sequence[str]) -> tuple[Int64s, list[pa.Array]] | None:
    """Return the first row of each document (with the number of rows as last element), and one text column per name.

    None if the rows do not have the same layout.
    """
    pieces: list[LayoutPiece] = []
    count = max(1, len(documents) // PIECE)
    for place in range(count):
        part = documents[len(documents) * place // count : len(documents) * (place + 1) // count]
        piece = layout_piece(b"".join(part), np.cumsum(np.fromiter(map(len, part), np.int64, len(part))))
        if piece is None:
            return None
        pieces.append(piece)
    return joined_pieces(pieces, names)


def joined_pieces(pieces: Sequence[LayoutPiece], names: Sequence[str]) -> tuple[Int64s, list[pa.Array]] | None:
    """Return the first row of each document, and one text column per name; None if too few rows have these members."""
    wanted = set(names)
    if sum(len(wanted.difference(piece.columns)) * piece.rows for piece in pieces) > MOST_ABSENT:
        return None
    ends = np.cumsum([0, *(piece.rows for piece in pieces)])
    starts = [piece.first_rows[:-1] + end for piece, end in zip(pieces, ends.tolist(), strict=False)]
    return np.concatenate([*starts, ends[-1:]]), [
        pa.concat_arrays([piece.column(name) for piece in pieces]) for name in names
    ]


def layout_piece(text: bytes, ends: Int64s) -> LayoutPiece | None:
    """Return the rows of documents that follow each other in `text`; None if they do not have the same layout.

    `ends` are the ends of the documents in the text.
    """
    try:
        members = list(_FIRST_ROW(text[: ends[0]])[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, IndexError):
        return None
    found = _piece(text, ends, len(members)) if members else None
    if found is None:
        return None
    first_rows, columns = found
    return LayoutPiece(first_rows, dict(zip(members, columns, strict=True)))


def _piece(text: bytes, ends: Int64s, width: int) -> tuple[Int64s, list[pa.Array]] | None:
    data = np.frombuffer(text, np.uint8)
    # Control characters are white space between members here, since JSON does not allow them in texts.
    if data.min() < SPACE or not is_utf8(text):
        return None
    escapes = escape_positions(text, data)
    cells = _cells(text, data, np.flatnonzero(quotation_marks(data, escapes)), width)
    # A document that ends elsewhere than its rows is no JSON, even if all of them together look so.
    if cells is None or not np.array_equal(cells.document_begins[1:], ends[:-1]):
        return None
    values = _values(text, cells, escaped=len(escapes) > 0)
    return None if values is None else (np.append(cells.first_rows, len(cells.starts)), values)


def _cells(text: bytes, data: Bytes, quotes: Int64s, width: int) -> CellPositions | None:
    """Return the positions of all values, None if the layout of the rows differs.

    Every row must have the members of the first row in the same order, no blanks, and only texts or nulls as values.
    """
    # Escaped quotation marks are left out, so the others open and close texts in turn. One that is followed by a colon
    # closes the name of a member.
    closing = quotes[1::2]
    if len(closing) < width or int(closing[-1]) + 2 > len(data):
        return None
    keys = np.flatnonzero(data.take(closing + 1) == COLON)
    if len(keys) == 0 or len(keys) % width:
        return None
    key_opens = quotes.take(2 * keys).reshape(-1, width)
    # After the closing quotation mark and the colon.
    starts = quotes.take(2 * keys + 1).reshape(-1, width) + 2
    begins_document = data[key_opens[:, 0] - 2] == _BRACKET
    ends = np.empty_like(starts)
    # A value ends before the comma and the quotation mark of the next member, or at the end of its row.
    ends[:, :-1] = key_opens[:, 1:] - 1
    gaps = np.where(begins_document[1:], len(_AFTER_DOCUMENT), len(_AFTER_ROW))
    ends[:-1, -1] = key_opens[1:, 0] - gaps
    ends[-1, -1] = len(text) - 2
    if not (text.startswith(b'[{"') and _same_members(text, data, key_opens, starts)):
        return None
    if not _same_ends(data, key_opens[:, 0], begins_document):
        return None
    nulls = data.take(starts) != QUOTE
    # A value that begins with a quotation mark also ends with a quotation mark, and the text has no others.
    whole = len(keys) + nulls.size - int(np.count_nonzero(nulls)) == len(closing)
    if not (whole and np.array_equal(data.take(ends - 1) != QUOTE, nulls) and _are_nulls(data, starts, ends, nulls)):
        return None
    first_rows = np.flatnonzero(begins_document)
    return CellPositions(starts + ~nulls, ends - ~nulls, nulls, first_rows, key_opens[first_rows, 0] - 2)


def _same_members(text: bytes, data: Bytes, opens: Int64s, starts: Int64s) -> bool:
    """Return whether each member, with its colon, is spelled as in the first row and follows a comma or `{`."""
    begins = opens - 1
    models = [text[start:stop] for start, stop in zip(begins[0].tolist(), starts[0].tolist(), strict=True)]
    return (
        bool((starts - begins == starts[0] - begins[0]).all())
        and models[0][:1] == b"{"
        and all(model[:1] == b"," for model in models[1:])
        and all(_are(data, begins[:, column], model) for column, model in enumerate(models))
    )


def _same_ends(data: Bytes, opens: Int64s, begins_document: Mask) -> bool:
    """Return whether the bytes between rows are exactly those between objects in arrays, and nothing else is there."""
    inner, outer = opens[1:][~begins_document[1:]], opens[1:][begins_document[1:]]
    return (
        bool(begins_document[0])
        and _are(data, inner - len(_AFTER_ROW), _AFTER_ROW)
        and _are(data, outer - len(_AFTER_DOCUMENT), _AFTER_DOCUMENT)
        and data[-2:].tobytes() == b"}]"
    )


def _are_nulls(data: Bytes, starts: Int64s, ends: Int64s, nulls: Mask) -> bool:
    begins = starts[nulls]
    return bool((ends[nulls] - begins == len(b"null")).all()) and _are(data, begins, b"null")


def _are(data: Bytes, places: Int64s, model: bytes) -> bool:
    """Return whether the bytes at all places equal `model`."""
    # Overlapping windows as single elements, one per byte: only the chosen ones are copied.
    windows = np.ndarray((len(data) - len(model) + 1,), f"V{len(model)}", data, 0, (1,))
    return bool(windows[places].tobytes() == model * len(places))


def _values(text: bytes, cells: CellPositions, *, escaped: bool) -> list[pa.Array] | None:
    """Return the values of each column, None if an escape cannot be resolved.

    One text array contains all values and the text between them; a single Arrow `take` sorts the values by column.
    """
    rows, width = cells.starts.shape
    bounds = np.empty(2 * rows * width + 1, np.int32)
    bounds[0] = 0
    bounds[1::2] = cells.starts.reshape(-1)
    bounds[2::2] = cells.ends.reshape(-1)
    parts = pa.StringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), pa.py_buffer(text))
    places = np.ascontiguousarray(np.arange(1, 2 * rows * width, 2, dtype=np.int32).reshape(rows, width).T)
    texts = pc.take(parts, pa.array(places.reshape(-1)), boundscheck=False)
    odd = _escaped_columns(texts, rows, width) if escaped else set()
    columns: list[pa.Array] = []
    for number in range(width):
        column = texts.slice(number * rows, rows)
        if number in odd and (column := unescaped(column)) is None:
            return None
        if cells.nulls[:, number].any():
            column = pc.if_else(pa.array(cells.nulls[:, number]), pa.scalar(None, pa.string()), column)
        columns.append(column)
    return columns


def _escaped_columns(texts: pa.Array, rows: int, width: int) -> set[int]:
    """Return the numbers of the columns that contain backslashes; `texts` has all columns one after the other."""
    _, offsets, data = texts.buffers()
    edges = np.frombuffer(offsets, np.int32)[: rows * width + 1 : rows]
    places = np.flatnonzero(np.frombuffer(data or b"", np.uint8) == ESCAPE)
    return set(np.flatnonzero(np.diff(np.searchsorted(places, edges))).tolist())
