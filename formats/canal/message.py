"""A canal-json message: its parts, and the messages that dead letters become."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import ChangeBatch, DecodeResult, ImageRule, SourceField
from penstock.formats.geometry import GEOMETRY_TYPES
from penstock.formats.json_envelope import NULL, UNREADABLE, read_json
from penstock.formats.json_text import exact, text_of
from penstock.formats.mysql_type import parse_mysql_type
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

NAME = "canal-json"
# ROW is the operation of other producers, such as TiDB.
OPERATIONS = {"INSERT": INSERT, "ROW": INSERT, "UPDATE": UPDATE_AFTER, "DELETE": DELETE}
WITHOUT_ROWS = frozenset(
    [
        "CREATE",
        "ALTER",
        "ERASE",
        "QUERY",
        "TRUNCATE",
        "RENAME",
        "CINDEX",
        "DINDEX",
        "GTID",
        "XACOMMIT",
        "XAROLLBACK",
        "MHEARTBEAT",
    ]
)
# A missing member says nothing about keys, while null or an empty list says that the table has no key.
ABSENT = msgspec.Raw(b"")
Texts = dict[str, str | None]


class CanalEnvelope(msgspec.Struct, gc=False):
    """The members that are needed; msgspec skips all others without parsing them."""

    database: str | None = None
    table: str | None = None
    type: str | None = None
    is_ddl: bool | None = msgspec.field(default=None, name="isDdl")
    data: msgspec.Raw = NULL
    old: msgspec.Raw = NULL
    mysql_type: msgspec.Raw = msgspec.field(default=NULL, name="mysqlType")
    pk_names: msgspec.Raw = msgspec.field(default=ABSENT, name="pkNames")
    ts: int | float | str | None = None

    def time(self) -> int:
        """Return the event time in milliseconds, -1 if there is no valid time."""
        return self.ts if isinstance(self.ts, int) and 0 <= self.ts < 1 << 63 else -1


class _Rows(msgspec.Struct):
    data: list[dict[str, msgspec.Raw]] = []


read_envelope = msgspec.json.Decoder(CanalEnvelope).decode
read_types = msgspec.json.Decoder(dict[str, str] | None).decode
read_names = msgspec.json.Decoder(list[str] | None).decode
_texts = msgspec.json.Decoder(list[Texts]).decode
_values = msgspec.json.Decoder(list[dict[str, Any]], float_hook=exact).decode
_old_texts = msgspec.json.Decoder(list[Texts | None]).decode
_rows = msgspec.json.Decoder(_Rows).decode
_old_values = msgspec.json.Decoder(list[dict[str, Any] | None], float_hook=exact).decode


def read_rows(data: msgspec.Raw, decoded: DecodeResult) -> list[Texts]:
    """Return the rows of a message as texts; producers other than canal also send numbers and nested values."""
    try:
        return _texts(data)
    except UNREADABLE:
        # Slower, because every value is parsed.
        return read_json(bytes(data), lambda raw: [_as_texts(row) for row in _values(raw)], decoded)


def read_old(old: bytes, decoded: DecodeResult) -> list[Texts | None]:
    """Return the changed columns of each row. None, or a missing element, means that nothing changed in that row."""
    try:
        return _old_texts(old)
    except UNREADABLE:
        return read_json(
            bytes(old), lambda raw: [None if row is None else _as_texts(row) for row in _old_values(raw)], decoded
        )


def may_move(rule: ImageRule) -> Callable[[bytes], bool]:
    """Return a test whether an `old`, judged by its bytes alone, can name a watched column.

    If before images are not wanted, `old` is parsed only where this test is true.
    """
    pattern = watched_names(rule)
    if pattern is None:
        return lambda old: bool(rule.watch)
    return lambda old: pattern.search(old) is not None or b"\\" in bytes(old)


def watched_names(rule: ImageRule) -> re.Pattern[bytes] | None:
    """Return a pattern that finds the watched names in JSON without escapes (an escape could spell any name).

    None if bytes cannot decide this: no name is watched, or one is not ASCII.
    """
    if not rule.watch or not all(name.isascii() for name in rule.watch):
        return None
    names = "|".join(re.escape(name) for name in sorted(rule.watch))
    return re.compile(rf'"(?:{names})"'.encode(), re.IGNORECASE)


def _as_texts(row: dict[str, Any]) -> Texts:
    return {name: text_of(value) for name, value in row.items()}


def row_columns(message: bytes) -> Collection[str] | None:
    """Return the columns of the message's first row, which may be fewer than `mysqlType` declares."""
    try:
        rows = _rows(message).data
    except msgspec.DecodeError:
        return None
    return rows[0] if rows else None


def canal_message(change: ChangeBatch, rows: Sequence[int]) -> bytes:
    """Return the message that `decode("canal-json", ...)` decodes to this very change.

    The rows are one row, or the old and the new row of an update. Geometries are GeoJSON already, so they are declared
    as text. A new row without its old one is encoded as an insert.
    """
    last = rows[-1]
    gone = change.kinds[last] in {DELETE, UPDATE_BEFORE}
    types = {field.name: _declared(field) for field in change.schema.fields}
    declared = {name: type_ for name, type_ in types.items() if type_ is not None}
    message = {
        "database": change.schema.database,
        "table": change.schema.table,
        "type": "UPDATE" if len(rows) > 1 else "DELETE" if gone else "INSERT",
        "isDdl": False,
        "es": max(int(change.event_times[last]), 0),
        "pkNames": list(change.schema.primary_keys) or None,
        # An empty declaration would declare a row without columns.
        "mysqlType": declared or None,
        "data": [_cells(change, last)],
        "old": [_cells(change, rows[0])] if len(rows) > 1 else None,
    }
    return json.dumps(message, ensure_ascii=False).encode()


def _cells(change: ChangeBatch, row: int) -> dict[str, str | None]:
    return {
        field.name: _text(column.slice(row, 1), field.type or "")
        for field, column in zip(change.schema.fields, change.rows, strict=True)
    }


def _declared(field: SourceField) -> str | None:
    if field.type is not None and parse_mysql_type(field.type).name in GEOMETRY_TYPES:
        return "text"
    return field.type


def _text(cell: pa.Array, declared: str) -> str | None:
    """Return one cell in canal's spelling: bytes as ISO-8859-1 characters, labels of a SET separated by commas."""
    kind = cell.type
    if not cell[0].is_valid:
        return None
    if pa.types.is_boolean(kind):
        return "1" if cell[0].as_py() else "0"
    if pa.types.is_binary(kind) and declared.lower().startswith("bit"):
        return str(int.from_bytes(cell[0].as_py(), "big"))
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return str(cell[0].as_py(), "latin-1")
    if pa.types.is_list(kind):
        values = cell[0].as_py()
        return ",".join(values) if pa.types.is_string(kind.value_type) else json.dumps(values)
    text: str = pc.cast(cell, pa.string())[0].as_py()
    return text
