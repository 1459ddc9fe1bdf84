"""row-json: one change of a source without messages, with its Arrow values: a dead letter decodes to this very change.

`data` is for people. `arrow` is what is decoded: the row as an Arrow IPC stream in base64, because the texts of types
that are not MySQL's say too little about their values. An update with its old row has two rows there, the old one
first. Changes of MySQL and rows without declared types are canal-json.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from penstock.errors import DecodeError
from penstock.formats.canal.decode import decode as decode_canal
from penstock.formats.canal.message import canal_message, row_columns
from penstock.formats.change import (
    BAD_VALUE,
    ChangeBatch,
    DecodeOptions,
    DecodeResult,
    Messages,
    SourceSchema,
)
from penstock.formats.json_envelope import UNREADABLE
from penstock.formats.message_format import Format
from penstock.formats.row_builder import bad_record
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

_CANAL_DIALECTS = frozenset({"mysql", "text"})
# The kinds of the rows of a message, by its type and the number of its rows.
_IMAGES = {
    ("INSERT", 1): (INSERT,),
    ("DELETE", 1): (DELETE,),
    ("UPDATE", 1): (UPDATE_AFTER,),
    ("UPDATE", 2): (UPDATE_BEFORE, UPDATE_AFTER),
}


class RowEnvelope(msgspec.Struct, gc=False):
    """The members that are decoded. A message without `arrow` is canal-json."""

    arrow: str | None = None
    type: str | None = None
    es: int = -1
    source: dict[str, Any] | None = None


class _ShownRow(RowEnvelope, gc=False):
    """The members that show which row it is, too."""

    database: str | None = None
    table: str | None = None
    data: list[dict[str, str | None]] = []


SourceTable: TypeAlias = tuple[str | None, str | None]
_read = msgspec.json.Decoder(RowEnvelope).decode
_read_row = msgspec.json.Decoder(_ShownRow).decode


def row_message(change: ChangeBatch, rows: Sequence[int]) -> bytes:
    """Return the message that `decode("row-json", ...)` decodes to these rows of one change.

    They are one row, or the old and the new row of an update.
    """
    if change.schema.dialect in _CANAL_DIALECTS:
        return canal_message(change, rows)
    last = rows[-1]
    images = change.rows.take(pa.array(rows))
    message = {
        "database": change.schema.database,
        "table": change.schema.table,
        "type": _operation(change.kinds[list(rows)].tolist()),
        "es": int(change.event_times[last]),
        "data": [_shown_row(change, last)],
        "source": msgspec.to_builtins(change.schema),
        "arrow": base64.b64encode(_stream(images)).decode(),
    }
    return json.dumps(message, ensure_ascii=False).encode()


def _operation(kinds: Sequence[int]) -> str:
    if len(kinds) > 1 or kinds[-1] == UPDATE_AFTER:
        return "UPDATE"
    return "INSERT" if kinds[-1] == INSERT else "DELETE"


def _shown_row(change: ChangeBatch, row: int) -> dict[str, str | None]:
    cells = change.rows.slice(row, 1)
    return {field.name: _shown(cell) for field, cell in zip(change.schema.fields, cells, strict=True)}


def decode(messages: Messages, options: DecodeOptions) -> DecodeResult:
    """Decode row-json messages, and canal-json messages among them."""
    decoded, others = DecodeResult(), []
    for number, value in enumerate(messages.values):
        try:
            envelope = RowEnvelope() if value is None else _read(value)
        except UNREADABLE:
            envelope = RowEnvelope()  # the decoder of canal-json reports what is wrong
        if envelope.arrow is None:
            others.append(number)
            continue
        try:
            decoded.batches.append(_change(envelope, int(messages.offsets[number])))
        except (pa.ArrowException, ValueError, OverflowError, msgspec.ValidationError, OSError) as error:
            wrong = DecodeError(f"the Arrow data of a row cannot be read: {error}", reason=BAD_VALUE)
            decoded.bad.append(bad_record(messages, number, wrong))
    if others:
        decoded.extend(decode_canal(messages.take(np.array(others, np.int64)), options))
    return decoded


def new_row(message: bytes) -> tuple[SourceTable, dict[str, Any]] | None:
    """Return the table and the new row of a message that `row_message` made, None if it has none.

    The values serve only for comparison with other messages.
    """
    try:
        shown = _read_row(message)
        if shown.type == "DELETE" or not shown.data:
            return None
        if shown.arrow is None:
            return (shown.database, shown.table), dict(shown.data[-1])
        change = _change(shown, 0)
    except (*UNREADABLE, pa.ArrowException, ValueError, OSError):
        return None  # a message of another kind
    last = change.rows.take(pa.array([len(change) - 1]))
    # Not as Python values: Arrow has times beyond their range.
    return (shown.database, shown.table), {name: _stream(last.select([name])) for name in last.schema.names}


def _change(envelope: RowEnvelope, position: int) -> ChangeBatch:
    schema = msgspec.convert(envelope.source, SourceSchema)
    rows = pa.ipc.open_stream(base64.b64decode(envelope.arrow or "", validate=True)).read_next_batch()
    rows.validate(full=True)
    kinds = _IMAGES.get((envelope.type or "", rows.num_rows))
    if kinds is None or rows.schema.names != [field.name for field in schema.fields]:
        raise ValueError("it has other columns than the message declares, or another number of rows than its type")
    return ChangeBatch(
        rows,
        np.array(kinds, np.int8),
        np.full(len(kinds), position, np.int64),
        np.array([0 if kind in {DELETE, UPDATE_BEFORE} else 1 for kind in kinds], np.int32),
        schema,
        np.full(len(kinds), envelope.es, np.int64),
    )


def _stream(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _shown(cell: pa.Array) -> str | None:
    if not cell[0].is_valid:
        return None
    if pa.types.is_string(cell.type):
        text: str = cell[0].as_py()
        return text
    # Not as Python values: Arrow has times beyond their range, and prints them.
    return str(cell.to_string(indent=0, skip_new_lines=True)).removeprefix("[").removesuffix("]")


FORMAT = Format("row-json", decode, row_columns=row_columns)
