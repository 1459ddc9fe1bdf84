"""Encoding of a row as a canal message, which is how a row that came from no message is kept for a later replay.

Only rows that no table accepted are encoded, one cell at a time: speed does not matter, and the text is what a person
will look at.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import ChangeBatch, SourceField
from penstock.formats.geometry import GEOMETRY_TYPES
from penstock.formats.mysql_type import parse_mysql_type
from penstock.row_kinds import DELETE, UPDATE_BEFORE


def canal_message(change: ChangeBatch, row: int) -> bytes:
    """Return the message that `decode("canal-json", ...)` decodes to this very row.

    Geometries are GeoJSON already, so they are declared as text. An update image is encoded as the delete of the before
    image or the insert of the after image.
    """
    gone = change.kinds[row] in {DELETE, UPDATE_BEFORE}
    types = {one.name: _declared(one) for one in change.schema.fields}
    cells = {
        one.name: _text(column.slice(row, 1), one.type or "")
        for one, column in zip(change.schema.fields, change.rows, strict=True)
    }
    message = {
        "database": change.schema.database,
        "table": change.schema.table,
        "type": "DELETE" if gone else "INSERT",
        "isDdl": False,
        "es": max(int(change.event_times[row]), 0),
        "pkNames": list(change.schema.primary_keys) or None,
        "mysqlType": {name: declared for name, declared in types.items() if declared is not None},
        "data": [cells],
        "old": None,
    }
    return json.dumps(message, ensure_ascii=False).encode()


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
