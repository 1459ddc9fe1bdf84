"""The placeholders that Debezium writes for values that the database did not log.

These are large values that an update did not touch (PostgreSQL), and large objects (Oracle). Each type of column has
its form of the placeholder: a text, its bytes, an array, a map or a geometry.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import DecodeError
from penstock.formats.change import BAD_VALUE

UNSENT = "__debezium_unavailable_value"
_BYTES = UNSENT.encode()
# The connector and the converter write bytes as base64 or hexadecimal digits, and `hstore` as JSON.
_TEXTS = (UNSENT, b64encode(_BYTES).decode(), _BYTES.hex(), json.dumps({UNSENT: UNSENT}, separators=(",", ":")))
# As bytes, without the escapes of a JSON text.
ENCODED_TEXTS = tuple(text.encode() for text in _TEXTS)
_SCALARS = frozenset([*_TEXTS, _BYTES])
# Of integers and dates; of UUIDs.
_ARRAYS = (list(_BYTES), ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"])
_GEOMETRIES = frozenset(
    form
    for data in map(
        bytes.fromhex,
        [
            "0101000020E6100000000000FC83D797C1000000FC83D797C1",
            "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640",
            "0101000000000000FC83D797C1000000FC83D797C1",
        ],
    )
    for form in (data, b64encode(data).decode())
)
# The texts and bytes that are placeholders on their own, or within an array, a map or a geometry.
ENCODED_FORMS = (*ENCODED_TEXTS, *(form.encode() if isinstance(form, str) else form for form in _GEOMETRIES))


def is_unsent(value: Any) -> bool:
    """Return whether a value of a row is a placeholder, in any of its forms."""
    if isinstance(value, str | bytes):
        return value in _SCALARS
    if isinstance(value, list):
        return (len(value) == 1 and isinstance(value[0], str | bytes) and value[0] in _SCALARS) or value in _ARRAYS
    if isinstance(value, Mapping):
        return dict(value) == {UNSENT: UNSENT} or _is_geometry(value.get("wkb"))
    return False


def _is_geometry(data: Any) -> bool:
    return isinstance(data, str | bytes) and data in _GEOMETRIES


def has_unsent(row: Mapping[str, Any]) -> bool:
    """Return whether any value of a row is a placeholder."""
    try:
        return not _SCALARS.isdisjoint(row.values())
    except TypeError:  # arrays and maps cannot be looked up in a set
        return any(map(is_unsent, row.values()))


def unsent_names(row: Mapping[str, Any]) -> list[str]:
    """Return the columns of a row whose value is a placeholder."""
    return [name for name, value in row.items() if is_unsent(value)] if has_unsent(row) else []


def unsent_error(names: Sequence[str]) -> DecodeError:
    """Return the error for a new row that lacks the values of these columns."""
    return DecodeError(
        (
            f"the unchanged value of column {', '.join(names)} is not in the message: set REPLICA IDENTITY FULL on the "
            "source table (Oracle: lob.enabled=true)"
        ),
        reason=BAD_VALUE,
    )
