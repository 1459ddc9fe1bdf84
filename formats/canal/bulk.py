"""Bulk decoding of canal rows: one call of Arrow's JSON reader for all messages of one source schema.

`old` is read only where it can matter: for every update if before images are wanted, otherwise only if it names a
watched column. Arrow's reader does not distinguish a null from an absent member. So documents that name the same
columns are read by their layout, and all others one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from penstock.errors import DecodeError
from penstock.formats.canal.message import OPERATIONS, CanalEnvelope, Texts, read_old, watched_names
from penstock.formats.canal.old_documents import OldBlock, OldLayout
from penstock.formats.canal.values import Convert
from penstock.formats.change import DecodeResult, ImageRule, Int64s, Messages, SourceSchema
from penstock.formats.faults import Faults
from penstock.formats.row_builder import DecodedRows
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, RowKinds

# The first row of each document (with the total number of rows as last element), and one text column per name over all
# rows.
ParsedRows: TypeAlias = tuple[Int64s, list[pa.Array]]


def parse_rows(documents: Sequence[msgspec.Raw], names: Sequence[str]) -> ParsedRows:
    """Parse the rows of all documents with Arrow's JSON reader.

    Raises ArrowInvalid for anything but arrays of flat rows of strings; the caller then decodes record by record.
    """
    buffer = pa.py_buffer(b'{"d":' + b'}\n{"d":'.join(documents) + b"}")
    _check_utf8(buffer)
    rows = pa.list_(pa.struct([(name, pa.string()) for name in names]))
    table = arrow_json.read_json(
        pa.BufferReader(buffer),
        # A single block: Arrow rejects a document that is longer than a block.
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=buffer.size + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema([("d", rows)]), unexpected_field_behavior="ignore"
        ),
    )
    lists = table.column(0).combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    structs = lists.flatten()
    if len(lists) != len(documents) or lists.null_count or structs.null_count:
        raise pa.ArrowInvalid("rows that are not JSON objects")
    return np.asarray(lists.offsets).astype(np.int64), structs.flatten()


def _check_utf8(buffer: pa.Buffer) -> None:
    """Raise ArrowInvalid for invalid UTF-8, which Arrow's JSON reader accepts and the record path rejects."""
    offsets = pa.py_buffer(np.array([0, buffer.size], np.int32))
    pa.StringArray.from_buffers(1, offsets, buffer).validate(full=True)


class _Befores:
    """The before images of updated rows, as row numbers and the texts that differ from the after image."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[Int64s] = []
        self._edits: dict[str, list[tuple[Int64s, pa.Array]]] = {}

    def add(self, rows: Int64s, changed: Mapping[str, pa.Array]) -> None:
        """Add the before images of rows. The same columns changed in each of these rows."""
        places = np.arange(self.count, self.count + len(rows))
        for name, texts in changed.items():
            self._edits.setdefault(name, []).append((places, texts))
        self._rows.append(rows)
        self.count += len(rows)

    def add_each(self, images: Sequence[tuple[int, Texts]]) -> None:
        """Add before images by the number of each row and its changed texts."""
        edits: dict[str, tuple[list[int], list[str | None]]] = {}
        for place, (_, changed) in enumerate(images, self.count):
            for name, text in changed.items():
                places, texts = edits.setdefault(name, ([], []))
                places.append(place)
                texts.append(text)
        for name, (places, texts) in edits.items():
            self._edits.setdefault(name, []).append((np.array(places), pa.array(texts, pa.string())))
        self._rows.append(np.array([row for row, _ in images], np.int64))
        self.count += len(images)

    @property
    def rows(self) -> Int64s:
        return np.concatenate(self._rows)

    def columns(self, names: Sequence[str], after: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the before images as columns: the after images with the changed texts replaced."""
        rows = pa.array(self.rows)
        columns = [column.take(rows) for column in after]
        for number, name in enumerate(names):
            if name in self._edits:
                mask = np.zeros(self.count, bool)
                for places, _ in self._edits[name]:
                    mask[places] = True
                texts = pa.concat_arrays([some for _, some in self._edits[name]])
                columns[number] = pc.replace_with_mask(columns[number], mask, texts)
        return columns


@dataclass(frozen=True, slots=True)
class BulkMessages:
    """Messages of one source schema: their numbers, row kinds and event times, and `old` of each update in order."""

    numbers: Int64s
    operations: RowKinds
    times: Int64s
    olds: Sequence[OldBlock]

    @classmethod
    def of(cls, members: Sequence[CanalEnvelope], numbers: Int64s) -> BulkMessages:
        """Return messages by their envelopes."""
        operations = np.array([OPERATIONS[member.type or ""] for member in members], np.int8)
        olds = [members[member].old for member in np.flatnonzero(operations == UPDATE_AFTER).tolist()]
        return cls(numbers, operations, event_times(members), [OldBlock(olds)])


def decode_bulk(
    changes: BulkMessages,
    parsed: ParsedRows,
    schema: SourceSchema,
    converts: Sequence[Convert | None],
    rule: ImageRule,
    messages: Messages,
    decoded: DecodeResult,
) -> None:
    """Append one ChangeBatch; `parsed` contains the `data` of the messages."""
    numbers, operations = changes.numbers, changes.operations
    names = [field.name for field in schema.fields]
    starts, columns = parsed
    counts = np.diff(starts)
    member_of_row = np.repeat(np.arange(len(numbers)), counts)
    faults = Faults()
    befores = _read_befores(changes, starts, rule, faults, decoded)
    kinds = operations[member_of_row]
    row_of = np.arange(len(kinds))
    if befores.count:
        columns, kinds, row_of = _with_befores(befores, columns, names, kinds, rule)
    member_of_row = member_of_row[row_of]
    after = (kinds == INSERT) | (kinds == UPDATE_AFTER)
    columns = [
        convert(column, faults) if convert else column for column, convert in zip(columns, converts, strict=True)
    ]
    sub = (2 * (row_of - starts[member_of_row]) + after).astype(np.int32)
    rows = DecodedRows(schema, columns, numbers[member_of_row], kinds, sub, changes.times[member_of_row])
    rows.add_to(decoded, messages, faults)


def event_times(members: Sequence[CanalEnvelope]) -> Int64s:
    """Return the event times of the messages in milliseconds, -1 for those without a valid time."""
    try:
        # The type of the array shows whether all times are integers.
        times = np.array([member.ts for member in members])
    except OverflowError:
        times = np.empty(0)
    return (
        times
        if times.dtype == np.int64 and times.min() >= 0
        else np.array([member.time() for member in members], np.int64)
    )


def _read_befores(
    changes: BulkMessages, starts: Int64s, rule: ImageRule, faults: Faults, decoded: DecodeResult
) -> _Befores:
    befores = _Befores()
    everything = rule.before_images == "all"
    watch = {name.lower() for name in rule.watch}
    updates = np.flatnonzero(changes.operations == UPDATE_AFTER)
    for block in changes.olds:
        members, updates = updates[: len(block)], updates[len(block) :]
        chosen = _add_layouts(befores, block, members, starts) if everything else _mentioning(block.documents, rule)
        images: list[tuple[int, Texts]] = []
        for place, member in zip(chosen.tolist(), members[chosen].tolist(), strict=True):
            try:
                changed = read_old(block.documents[place], decoded)
            except DecodeError as error:
                faults.messages[int(changes.numbers[member])] = error
                continue
            for number, row in enumerate(range(int(starts[member]), int(starts[member + 1]))):
                before = (changed[number] if number < len(changed) else None) or {}
                if everything or not watch.isdisjoint(name.lower() for name in before):
                    images.append((row, before))
        if images:
            befores.add_each(images)
    return befores


def _add_layouts(befores: _Befores, block: OldBlock, members: Int64s, starts: Int64s) -> Int64s:
    """Add the before images of updates that are read by layout, and return the places of the others."""
    others = [block.others]
    for layout in block.layouts:
        rows = _rows_of(layout, members[layout.places], starts)
        if rows is None:
            others.append(layout.places)
        else:
            befores.add(rows, layout.rows.columns)
    return np.sort(np.concatenate(others))


def _rows_of(layout: OldLayout, members: Int64s, starts: Int64s) -> Int64s | None:
    """Return the row of each row of these documents, None if an update does not have as many rows as its `old`."""
    first = layout.rows.first_rows
    counts = np.diff(first)
    if not np.array_equal(starts[members + 1] - starts[members], counts):
        return None
    rows: Int64s = np.repeat(starts[members] - first[:-1], counts) + np.arange(layout.rows.rows)
    return rows


def _mentioning(olds: Sequence[bytes], rule: ImageRule) -> Int64s:
    """Return the positions of the `old` values that `may_move` accepts, with one search over all of them."""
    pattern = watched_names(rule)
    if pattern is None or not olds:
        return np.arange(len(olds)) if rule.watch else np.empty(0, np.int64)
    text = b"\n".join(olds) + b"\n"
    hits = [match.start() for match in pattern.finditer(text)]
    # Usually nothing is escaped, and then a single search shows it. An `old` with an escape is always selected, because
    # an escape can spell any name, even if it turns out to be in a value.
    at = text.find(b"\\")
    while at >= 0:
        hits.append(at)
        at = text.find(b"\\", text.find(b"\n", at))
    ends = np.cumsum([len(old) + 1 for old in olds])
    return np.unique(np.searchsorted(ends, hits, side="right"))


def _with_befores(
    befores: _Befores, columns: list[pa.Array], names: Sequence[str], kinds: RowKinds, rule: ImageRule
) -> tuple[list[pa.Array], RowKinds, Int64s]:
    """Return all rows in message order, each before image directly ahead of its after image.

    Also returns their kinds, and the number of the row that each belongs to.
    """
    rows = befores.rows
    images = befores.columns(names, columns)
    moved = _moved(columns, images, rows, names, rule)
    if rule.before_images != "all":
        images = [image.filter(pa.array(moved)) for image in images]
        rows = rows[moved]
        moved = np.ones(len(rows), bool)
    kinds = kinds.copy()
    kinds[rows] = np.where(moved, INSERT, UPDATE_AFTER)
    before_kinds = np.where(moved, DELETE, UPDATE_BEFORE).astype(np.int8)
    row_of = np.concatenate([np.arange(len(kinds)), rows])
    # Row n has the sort key 2n + 1 and its before image 2n.
    order = np.argsort(np.concatenate([2 * np.arange(len(kinds)) + 1, 2 * rows]), kind="stable")
    places = pa.array(order)
    merged = [pa.concat_arrays([column, image]).take(places) for column, image in zip(columns, images, strict=True)]
    return merged, np.concatenate([kinds, before_kinds])[order], row_of[order]


def _moved(
    columns: Sequence[pa.Array], images: Sequence[pa.Array], rows: Int64s, names: Sequence[str], rule: ImageRule
) -> np.ndarray:
    moved = np.zeros(len(rows), bool)
    watch = {name.lower() for name in rule.watch}
    for name, column, image in zip(names, columns, images, strict=True):
        if name.lower() in watch:
            present = column.take(pa.array(rows))
            same = pc.or_(
                pc.fill_null(pc.equal(present, image), fill_value=False), pc.and_(present.is_null(), image.is_null())
            )
            moved |= ~np.asarray(same)
    return moved
