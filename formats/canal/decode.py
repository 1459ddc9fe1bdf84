"""canal-json: one flat object per event and table, many rows per message, every value a string.

Messages are grouped by database, table, the bytes of `mysqlType` and of `pkNames`, so that a group has one source
schema. Messages that have a known frame around rows of one layout are not parsed at all (framed_rows.py). Of the
others, large groups are parsed in bulk (bulk.py), and faster if all rows have the same layout (same_layout.py); small
and irregular groups are parsed record by record. All paths yield the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from penstock.errors import DecodeError
from penstock.formats.canal.alike_groups import SAME_LAYOUT_SHARE, add_alike, fewest_alike
from penstock.formats.canal.bulk import BulkMessages, decode_bulk, parse_rows
from penstock.formats.canal.framed_rows import add_framed
from penstock.formats.canal.groups import CanalGroup, converters, declared_columns, grouped
from penstock.formats.canal.known_frames import KnownFrames
from penstock.formats.canal.message import (
    CanalEnvelope,
    Texts,
    may_move,
    read_old,
    read_rows,
    row_columns,
)
from penstock.formats.canal.same_layout import MOST_BYTES, same_layout_rows
from penstock.formats.canal.values import Convert
from penstock.formats.change import (
    BAD_VALUE,
    DecodeOptions,
    DecodeResult,
    ImageRule,
    Int64s,
    Messages,
    SourceField,
    SourceSchema,
)
from penstock.formats.faults import Faults
from penstock.formats.json_envelope import UNREADABLE
from penstock.formats.json_text import text_column
from penstock.formats.message_format import Format
from penstock.formats.row_builder import Read, RowBuilder, bad_record, check_members

# The most bytes and cells in one call of Arrow's JSON reader, whose offsets have 32 bits.
SPAN_BYTES = 64 << 20
SPAN_CELLS = 16 << 20
# The assumed size of a row: a group of few messages counts as large if each message has many rows.
ROW_BYTES = 300
_known = KnownFrames()


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode canal-json messages."""
    decoded = DecodeResult()
    others = add_framed(messages, options, _known, int(options.bulk_rows * SAME_LAYOUT_SHARE), decoded)
    for group in add_alike(grouped(others, decoded), others, options, decoded):
        _decode_group(group, others, options, decoded)
    return decoded


def _decode_group(group: CanalGroup, messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> None:
    try:
        fields, keys = declared_columns(bytes(group.types), bytes(group.keys))
    except (*UNREADABLE, DecodeError) as error:
        wrong = DecodeError(f"mysqlType or pkNames cannot be read: {error}", reason=BAD_VALUE)
        decoded.bad += [bad_record(messages, number, wrong) for number in group.numbers]
        return
    rule = options.rule(group.database, group.table, keys)
    if fields is None:
        _decode_undeclared(group, keys, rule, messages, decoded)
        return
    schema = SourceSchema("mysql", group.database, group.table, fields, keys, states_no_key=group.states_no_key)
    documents = [member.data for member in group.members]
    sizes = np.fromiter(map(len, documents), np.int64, len(documents))
    least = fewest_alike(rule, options.bulk_rows)
    if (
        _is_bulky(fields, least, sizes)
        and int(sizes.sum()) <= MOST_BYTES
        and (parsed := same_layout_rows(documents, [field.name for field in fields]))
    ):
        every = BulkMessages.of(group.members, np.array(group.numbers, np.int64))
        decode_bulk(every, parsed, [(schema, len(every.numbers))], rule, messages, decoded)
        return
    if (weights := _overflowing(documents, sizes, len(fields))) is not None:
        kept = _reject_sparse(group, weights, sizes, len(fields), messages, decoded)
        # A cell counts as that many bytes, so that spans limited by bytes have a limited number of cells too.
        sizes = np.maximum(sizes, weights * (SPAN_BYTES // SPAN_CELLS))[kept]
    for start, stop in _spans(sizes):
        members, numbers = group.members[start:stop], group.numbers[start:stop]
        bulky = _is_bulky(fields, max(options.bulk_rows, least), sizes[start:stop])
        if not (bulky and _decode_span(members, numbers, schema, rule, messages, decoded)):
            rows = _read_records(members, numbers, [field.name for field in fields], rule, messages, decoded)
            rows.batch(schema, [_reader(convert) for convert in converters(fields)], messages, decoded)


def _decode_span(
    members: Sequence[CanalEnvelope],
    numbers: Sequence[int],
    schema: SourceSchema,
    rule: ImageRule,
    messages: Messages,
    decoded: DecodeResult,
) -> bool:
    """Decode messages by one call of Arrow; return False if it refuses a row, which the record path then names."""
    try:
        parsed = parse_rows([member.data for member in members], [field.name for field in schema.fields])
        bulk = BulkMessages.of(members, np.array(numbers, np.int64))
        decode_bulk(bulk, parsed, [(schema, len(bulk.numbers))], rule, messages, decoded)
    except pa.ArrowInvalid:
        return False
    return True


def _is_bulky(fields: Sequence[SourceField], bulk_rows: int, sizes: Int64s) -> bool:
    """Return whether one bulk call for all of these documents is cheaper than parsing each."""
    return bool(fields) and (len(sizes) >= bulk_rows or int(sizes.sum()) >= bulk_rows * ROW_BYTES)


def _spans(sizes: Int64s) -> Iterator[tuple[int, int]]:
    """Yield ranges of consecutive members of at most SPAN_BYTES; a larger member is a range by itself."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        done = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, done + SPAN_BYTES, side="right")), start + 1)
        yield start, stop
        start = stop


def _overflowing(documents: Sequence[msgspec.Raw], sizes: Int64s, width: int) -> Int64s | None:
    """Return an upper bound of the number of cells per member, or None if all together stay below SPAN_CELLS."""
    # The smallest row, `{},`, has three bytes.
    if width * int(sizes.sum()) // 3 <= SPAN_CELLS:
        return None
    if width * b"".join(documents).count(b"{") <= SPAN_CELLS:
        return None
    return np.fromiter((bytes(document).count(b"{") for document in documents), np.int64, len(documents)) * width


def _reject_sparse(
    group: CanalGroup, cells: Int64s, sizes: Int64s, width: int, messages: Messages, decoded: DecodeResult
) -> list[int]:
    """Report members with almost empty rows of very many columns as bad; return the places of the others.

    Such rows would expand to far more memory than their bytes.
    """
    sparse = set(np.flatnonzero((cells > SPAN_CELLS) & (cells > sizes)).tolist())
    error = DecodeError(f"the rows of the record contain almost none of its {width} columns", reason=BAD_VALUE)
    decoded.bad += [bad_record(messages, group.numbers[place], error) for place in sorted(sparse)]
    kept = [place for place in range(len(group.members)) if place not in sparse]
    group.numbers = [group.numbers[place] for place in kept]
    group.members = [group.members[place] for place in kept]
    return kept


def _decode_undeclared(
    group: CanalGroup, keys: tuple[str, ...], rule: ImageRule, messages: Messages, decoded: DecodeResult
) -> None:
    rows = _read_records(group.members, group.numbers, None, rule, messages, decoded)
    for part in rows.parts():
        fields = tuple(SourceField(name) for name in part.names())
        schema = SourceSchema("text", group.database, group.table, fields, keys, states_no_key=group.states_no_key)
        part.batch(schema, [_reader(None)] * len(fields), messages, decoded)


def _reader(convert: Convert | None) -> Read:
    def read(values: Sequence[str | None], faults: Faults) -> pa.Array:
        texts = text_column(values)
        return convert(texts, faults) if convert else texts

    return read


def _read_records(
    members: Sequence[CanalEnvelope],
    numbers: Sequence[int],
    names: Sequence[str] | None,
    rule: ImageRule,
    messages: Messages,
    decoded: DecodeResult,
) -> RowBuilder:
    rows, moves = RowBuilder(rule, names), may_move(rule)
    for number, member in zip(numbers, members, strict=True):
        try:
            after = read_rows(member.data, decoded)
            wanted = member.type == "UPDATE" and (rows.all_images or moves(member.old))
            olds = read_old(member.old, decoded) if wanted else []
            images = list(_images(member.type, after, olds))
            check_members([row for pair in images for row in pair if row is not None])
        except DecodeError as error:
            decoded.bad.append(bad_record(messages, number, error))
            continue
        for place, (before, row) in enumerate(images):
            rows.change(number, member.time(), before, row, place)
    return rows


def _images(
    operation: str | None, rows: Sequence[Texts], olds: Sequence[Texts | None]
) -> Iterator[tuple[Texts | None, Texts | None]]:
    """Yield each row before and after the change."""
    for place, row in enumerate(rows):
        if operation == "UPDATE":
            old = olds[place] if place < len(olds) else None
            # `old` has only changed columns: a column that it lacks is unchanged, and one that is null there was
            # null.
            yield {**row, **(old or {})}, row
        elif operation == "DELETE":
            yield row, None
        else:
            yield None, row


FORMAT = Format("canal-json", decode, row_columns=row_columns)
