"""Bulk decoding of canal rows: one call of Arrow's JSON reader for all messages of one source schema.

`old` is read only where it can matter: for every update if before images are wanted, otherwise only if it names a
watched column. Arrow's reader does not distinguish a null from an absent member. So documents that name the same
columns are read by their layout, and all others one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from penstock.errors import DecodeError
from penstock.formats.canal.before_images import BeforeImages, add_layouts, mentioning, with_befores
from penstock.formats.canal.groups import converters
from penstock.formats.canal.message import OPERATIONS, CanalEnvelope, Texts, read_old
from penstock.formats.canal.old_documents import OldBlock
from penstock.formats.change import DecodeResult, ImageRule, Int64s, Messages, SourceSchema
from penstock.formats.faults import Faults
from penstock.formats.row_builder import DecodedRows
from penstock.row_kinds import INSERT, UPDATE_AFTER, RowKinds

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
    tables: Sequence[tuple[SourceSchema, int]],
    rule: ImageRule,
    messages: Messages,
    decoded: DecodeResult,
) -> None:
    """Append one ChangeBatch for each table; `parsed` contains the `data` of the messages, table after table.

    `tables` has the schema of each table, whose columns are equal, and the number of its last message plus one.
    """
    numbers, operations = changes.numbers, changes.operations
    names = [field.name for field in tables[0][0].fields]
    starts, columns = parsed
    counts = np.diff(starts)
    member_of_row = np.repeat(np.arange(len(numbers)), counts)
    faults = Faults()
    befores = _read_befores(changes, starts, rule, faults, decoded)
    kinds = operations[member_of_row]
    row_of = np.arange(len(kinds))
    if befores.count:
        columns, kinds, row_of = with_befores(befores, columns, names, kinds, rule)
    member_of_row = member_of_row[row_of]
    after = (kinds == INSERT) | (kinds == UPDATE_AFTER)
    converts = converters(tables[0][0].fields)
    columns = [
        convert(column, faults) if convert else column for column, convert in zip(columns, converts, strict=True)
    ]
    sub = (2 * (row_of - starts[member_of_row]) + after).astype(np.int32)
    rows = DecodedRows(tables[0][0], columns, numbers[member_of_row], kinds, sub, changes.times[member_of_row])
    ends = np.searchsorted(member_of_row, [end for _, end in tables])
    rows.add_tables([schema for schema, _ in tables], ends, decoded, messages, faults)


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
) -> BeforeImages:
    befores = BeforeImages()
    everything = rule.before_images == "all"
    watch = {name.lower() for name in rule.watch}
    updates = np.flatnonzero(changes.operations == UPDATE_AFTER)
    for block in changes.olds:
        members, updates = updates[: len(block)], updates[len(block) :]
        chosen = add_layouts(befores, block, members, starts) if everything else mentioning(block.documents, rule)
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
