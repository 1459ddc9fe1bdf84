"""Rows in the golden encoding as the Arrow tables our own API takes: the way back from `relations.encode`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.internal import from_internal
from penstock.table.values.types import parse_type
from tests.golden.relations import Type, root_of

Columns = Sequence[tuple[str, Type]]
WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN"}
TEXT = {"CHAR", "VARCHAR", "STRING"}
EPOCH = dt.date(1970, 1, 1)


def arrow_rows(rows: Sequence[Sequence[Any]], columns: Columns) -> pa.Table:
    """Rows of encoded values, without kinds."""
    arrays = []
    for place, (_, kind) in enumerate(columns):
        values = [row[place] for row in rows]
        if kind == "VARIANT":  # JSON on both sides
            arrays.append(pa.array(values, pa.string()))
        else:
            arrays.append(from_internal([decode(value, kind) for value in values], parsed(kind)))
    return pa.table(arrays, names=[name for name, _ in columns])


def arrow_changes(rows: Sequence[Sequence[Any]], columns: Columns) -> tuple[pa.Table, list[str]]:
    """Rows as the oracle takes them, ("+I", value, ...): the table and the kinds."""
    return arrow_rows([row[1:] for row in rows], columns), [row[0] for row in rows]


def parsed(kind: Type) -> Any:
    return parse_type(with_ids(kind))


def with_ids(kind: Any) -> Any:
    """A type as `create` takes it, with the field ids that only schema files have."""
    if not isinstance(kind, Mapping):
        return kind
    node = {key: with_ids(value) for key, value in kind.items()}
    if "fields" in node:
        node["fields"] = [{"id": -1, **member, "type": with_ids(member["type"])} for member in kind["fields"]]
    return node


def arrow_type(kind: Type) -> pa.DataType:
    return to_arrow(parsed(kind))


def decode(value: Any, kind: Type) -> Any:
    """The table's internal value (`penstock.table.values.internal`) of an encoded one."""
    if value is None:
        return None
    root = root_of(kind)
    if isinstance(kind, Mapping):
        return decode_nested(value, root, kind)
    if root in WHOLE or root in TEXT:
        return value
    if root in {"FLOAT", "DOUBLE"}:
        number = float(value)
        return float(np.float32(number)) if root == "FLOAT" else number
    if root == "DECIMAL":
        return Decimal(value)
    if root in {"BINARY", "VARBINARY", "BYTES"}:
        return bytes.fromhex(value)
    if root == "DATE":
        return (dt.date.fromisoformat(value) - EPOCH).days
    if root == "TIME":
        return nanos_of_clock(value) // 10**6
    if root.startswith("TIMESTAMP"):
        day, _, clock = value.removesuffix("Z").partition("T")
        return (dt.date.fromisoformat(day) - EPOCH).days * 86400 * 10**9 + nanos_of_clock(clock)
    raise AssertionError(f"no way to write {kind}")


def decode_nested(value: Any, root: str, kind: Mapping[str, Any]) -> Any:
    if root == "ARRAY":
        return [decode(item, kind["element"]) for item in value]
    if root == "ROW":
        named = (
            value if isinstance(value, Mapping) else dict(zip((f["name"] for f in kind["fields"]), value, strict=True))
        )
        return tuple(decode(named[part["name"]], part["type"]) for part in kind["fields"])
    key, held = (kind["key"], kind["value"]) if root == "MAP" else (kind["element"], "INT")
    return [(decode(k, key), decode(v, held)) for k, v in value]


def nanos_of_clock(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 10**9 + int(fraction.ljust(9, "0") or 0)
