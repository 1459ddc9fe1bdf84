"""Bulk decoding of canal rows: one call of Arrow's JSON reader for all messages of one source schema.

`old` is parsed only where it can matter: for every update if before images are wanted, otherwise only if its bytes
contain the name of a watched column. It is parsed record by record, because only that path distinguishes a null from an
absent member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from penstock.errors import DecodeError
from penstock.formats.canal.message import OPERATIONS, CanalEnvelope, Texts, read_old, watched_names
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
        self.rows: list[int] = []
        self.edits: dict[str, tuple[list[int], list[str | None]]] = {}

    def add(self, row: int, changed: Texts) -> None:
        """Add the before image of a row, by its number and the changed texts."""
        for name, text in changed.items():
            places, texts = self.edits.setdefault(name, ([], []))
            places.append(len(self.rows))
            texts.append(text)
        self.rows.append(row)

    def columns(self, names: Sequence[str], after: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the before images as columns: the after images with the changed texts replaced."""
        rows = pa.array(self.rows, pa.int64())
        columns = [column.take(rows) for column in after]
        for number, name in enumerate(names):
            if name in self.edits:
                places, texts = self.edits[name]
                mask = np.zeros(len(self.rows), bool)
                mask[places] = True
                columns[number] = pc.replace_with_mask(columns[number], mask, pa.array(texts, pa.string()))
        return columns


@dataclass(frozen=True, slots=True)
class BulkMessages:
    """Messages of one source schema: their numbers, row kinds and event times, and `old` of each update in order."""

    numbers: Int64s
    operations: RowKinds
    times: Int64s
    olds: Sequence[bytes]

    @classmethod
    def of(cls, members: Sequence[CanalEnvelope], numbers: Int64s) -> BulkMessages:
        """Return messages by their envelopes."""
        operations = np.array([OPERATIONS[member.type or ""] for member in members], np.int8)
        olds = [members[member].old for member in np.flatnonzero(operations == UPDATE_AFTER).tolist()]
        return cls(numbers, operations, event_times(members), olds)


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
    if befores.rows:
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
    chosen = np.arange(len(changes.olds)) if everything else _mentioning(changes.olds, rule)
    updates = np.flatnonzero(changes.operations == UPDATE_AFTER)[chosen]
    for place, member in zip(chosen.tolist(), updates.tolist(), strict=True):
        try:
            olds = read_old(changes.olds[place], decoded)
        except DecodeError as error:
            faults.messages[int(changes.numbers[member])] = error
            continue
        first, count = int(starts[member]), int(starts[member + 1] - starts[member])
        for row in range(count):
            changed = (olds[row] if row < len(olds) else None) or {}
            if everything or any(name.lower() in watch for name in changed):
                befores.add(first + row, changed)
    return befores


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
    rows = np.array(befores.rows, np.int64)
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
