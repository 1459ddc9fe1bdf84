"""Rows of canal-json messages with a known frame, decoded without parsing the messages.

The messages of one table are decoded together if their rows have one layout. All other messages are left to the paths
that parse them, which decide what an odd message means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow as pa

from penstock.formats.canal.alike_groups import fewest_alike, groups_together
from penstock.formats.canal.bulk import BulkMessages, decode_bulk
from penstock.formats.canal.framed_messages import FramedBlock, FramedMessages
from penstock.formats.canal.framed_tables import FramedTable, TableBlock, joined, piece_ends
from penstock.formats.canal.groups import declared_columns
from penstock.formats.canal.known_frames import KnownFrames
from penstock.formats.canal.message_frame import DeclaredTable
from penstock.formats.canal.old_documents import OldBlock, content
from penstock.formats.canal.same_layout import LayoutPiece, joined_pieces, layout_piece
from penstock.formats.change import DecodeOptions, DecodeResult, ImageRule, Int64s, Messages
from penstock.formats.json_bytes import Mask
from penstock.row_kinds import UPDATE_AFTER

# Messages per block. Fewer would stay in the CPU cache, but each frame in a block has a fixed cost.
BLOCK = 8_000
# So a block has ALIKE messages for each frame that is expected, within the memory that its text may take.
ALIKE, MOST_BLOCK, MOST_BLOCK_BYTES = 200, 60_000, 64 << 20
# Messages of a frame in a block, on average: for fewer, the other paths are quicker.
FEWEST_ALIKE = 48
# Larger messages gain little, since their frame is a small part of them.
MOST_MEAN_BYTES = 16 << 10


def add_framed(
    messages: Messages, options: DecodeOptions, known: KnownFrames, fewest: int, decoded: DecodeResult
) -> Messages:
    """Add the rows of messages that have a known frame, and return the other messages.

    Tables of fewer than `fewest` messages are left to the other paths.
    """
    if len(messages) < max(1, fewest):
        return messages
    tables: dict[DeclaredTable, FramedTable] = {}
    values, sizes = _sized(messages.values)
    ends, begin = np.cumsum(sizes), 0
    while begin < len(values):
        end = _block_end(begin, ends, known)
        if known.is_tried() and int(sizes[begin:end].sum()) <= (end - begin) * MOST_MEAN_BYTES:
            found = _framed(values[begin:end], sizes[begin:end], known, fewest)
            # The block may have had more kinds of messages than were expected, and too few of each.
            wider = end if len(found.places) else _block_end(begin, ends, known)
            if wider > end:
                end = wider
                found = _framed(values[begin:end], sizes[begin:end], known, fewest)
            known.note(len(found.places) / (end - begin))
            _add_block(found, begin, known, tables)
        begin = end
    added: Mask = np.zeros(len(messages), np.bool_)
    # In the order in which the tables come first, as on the other paths.
    in_order = sorted(tables.values(), key=lambda rows: int(rows.blocks[0].messages.numbers[0]))
    for rule, together in groups_together(in_order, options):
        numbers = _add_tables(rule, together, options.bulk_rows, messages, decoded) if rule else None
        if numbers is not None:
            added[numbers] = True
            continue
        for table in together:
            if table.count >= fewest:
                added[_add_table(table, messages, options, decoded)] = True
    if not added.any():
        return messages
    return messages.take(np.flatnonzero(~added))


def _framed(values: Sequence[bytes], sizes: Int64s, known: KnownFrames, fewest: int) -> FramedMessages:
    return FramedBlock(values, sizes).framed(known, min(fewest, FEWEST_ALIKE))


def _block_end(begin: int, ends: Int64s, known: KnownFrames) -> int:
    """Return where the block of messages that starts at `begin` ends, by the frames that the last block had.

    `ends` are the ends of the messages, one after the other.
    """
    count = min(max(BLOCK, ALIKE * known.kinds), MOST_BLOCK)
    before = int(ends[begin - 1]) if begin else 0
    fitting = int(np.searchsorted(ends, before + MOST_BLOCK_BYTES, side="right")) - begin
    return min(begin + max(BLOCK, min(count, fitting)), len(ends))


def _sized(values: Sequence[bytes | None]) -> tuple[Sequence[bytes], Int64s]:
    """Return messages and their sizes; those without a value are empty, and have no frame."""
    try:
        # Usually all have a value, and this is cheaper than to look for others.
        return cast(Sequence[bytes], values), np.fromiter(
            map(len, cast(Sequence[bytes], values)), np.int64, len(values)
        )
    except TypeError:
        return _sized([value or b"" for value in values])


def _add_block(found: FramedMessages, first: int, known: KnownFrames, tables: dict[DeclaredTable, FramedTable]) -> None:
    """Add the messages of a block that have frames to their tables."""
    if not len(found.places):
        return
    arrays = known.arrays
    # The messages of a table are next to each other, in order.
    table_of = np.array(known.tables)[found.frames]
    order = np.argsort(table_of, kind="stable")
    frames, operations = found.frames[order], arrays.operation[found.frames[order]]
    times = found.times[order]
    data = found.documents(order, arrays.data_place[frames])
    is_update = operations == UPDATE_AFTER
    updates = np.flatnonzero(is_update)
    olds = found.documents(order[updates], 4 - arrays.data_place[frames[updates]])
    text, bounds = content(data)
    updates_before = np.append(0, np.cumsum(is_update))
    edges = np.flatnonzero(np.append(True, np.diff(table_of[order]) != 0)).tolist()
    for begin, end in zip(edges, [*edges[1:], len(order)], strict=True):
        piece = slice(begin, end)
        changes = BulkMessages(
            found.places[order[piece]] + first,
            operations[piece],
            times[piece],
            [OldBlock(olds[updates_before[begin] : updates_before[end]])],
        )
        table = known.frames[int(frames[begin])].table
        tables.setdefault(table, FramedTable(table)).blocks.append(
            TableBlock(changes, text[bounds[begin] : bounds[end]], bounds[begin + 1 : end + 1] - bounds[begin])
        )


def _add_tables(
    rule: ImageRule, tables: Sequence[FramedTable], bulk_rows: int, messages: Messages, decoded: DecodeResult
) -> Int64s | None:
    """Add the rows of tables with the same columns together, and return the numbers of their messages.

    None if something is odd in any of them: each table is then added on its own.
    """
    fields, keys = declared_columns(tables[0].types, tables[0].keys)
    ends = np.cumsum([table.count for table in tables])
    if fields is None or len(tables) == 1 or int(ends[-1]) < fewest_alike(rule, bulk_rows):
        return None
    every = joined([block for table in tables for block in table.blocks])
    texts = [old.texts for old in every.messages.olds]
    old = OldBlock(pa.concat_arrays(texts))
    if not old.are_json(by_layout=rule.before_images == "all"):
        return None
    pieces: list[LayoutPiece] = []
    begin = 0
    for place in piece_ends(every.ends):
        first = int(every.ends[begin - 1]) if begin else 0
        text = every.text[first : int(every.ends[place - 1])].tobytes()
        piece = layout_piece(text, every.ends[begin:place] - first)
        if piece is None:
            return None
        pieces.append(piece)
        begin = place
    parsed = joined_pieces(pieces, [field.name for field in fields])
    if parsed is None:
        return None
    changes, found = replace(every.messages, olds=[old]), DecodeResult()
    schemas = [(table.schema(fields, keys), end) for table, end in zip(tables, ends.tolist(), strict=True)]
    decode_bulk(changes, parsed, schemas, rule, messages, found)
    if found.bad:
        return None
    decoded.extend(found)
    return changes.numbers


def _add_table(framed: FramedTable, messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> Int64s:
    """Add the rows of a table, and return the numbers of the messages that were added."""
    nothing = np.zeros(0, np.int64)
    good: list[TableBlock] = []
    pieces: list[LayoutPiece] = []
    fields, keys = declared_columns(framed.types, framed.keys)
    if fields is None:
        return nothing
    rule, found = options.rule(framed.database, framed.table, keys), DecodeResult()
    by_layout = rule.before_images == "all"
    for block in framed.pieces():
        are_json = all(olds.are_json(by_layout=by_layout) for olds in block.messages.olds)
        piece = layout_piece(block.text.tobytes(), block.ends) if are_json else None
        if piece is not None:
            pieces.append(piece)
            good.append(block)
    if not pieces:
        return nothing
    parsed = joined_pieces(pieces, [field.name for field in fields])
    if parsed is None:
        return nothing
    changes = joined(good).messages
    tables = [(framed.schema(fields, keys), len(changes.numbers))]
    decode_bulk(changes, parsed, tables, rule, messages, found)
    if found.bad:
        return nothing
    decoded.extend(found)
    return changes.numbers
