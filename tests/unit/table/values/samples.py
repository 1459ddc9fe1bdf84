"""Values as the recorded vectors spell them, and hypothesis strategies for values of every type."""

from __future__ import annotations

import datetime as dt
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from penstock.table.values.internal import entry_types
from penstock.table.values.types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    parse_type,
)

DATA = Path(__file__).resolve().parents[3] / "data"
VECTORS = json.loads((DATA / "bucket_vectors.json").read_text(encoding="utf-8"))
NESTED = json.loads((DATA / "nested_rows.json").read_text(encoding="utf-8"))
_EPOCH = dt.datetime(1970, 1, 1)


def internal(value: Any, type_: Any) -> object:
    """The internal value of what the recorded vectors hold."""
    match type_:
        case _ if value is None:
            return None
        case ArrayType(element):
            return [internal(item, element) for item in value]
        case MapType() | MultisetType():
            key, item = entry_types(type_)
            return [(internal(pair[0], key), internal(pair[1], item)) for pair in value]
        case RowType(fields):
            return tuple(internal(value[field.name], field.type) for field in fields)
    return _atomic(value, type_)


def _atomic(value: Any, type_: AtomicType) -> object:
    match type_.root:
        case "FLOAT" | "DOUBLE":
            return float(value)
        case "DECIMAL":
            return Decimal(value)
        case "BINARY" | "VARBINARY":
            return bytes.fromhex(value)
        case "DATE":
            return (dt.date.fromisoformat(value) - _EPOCH.date()).days
        case "TIME":
            clock = dt.time.fromisoformat(value[:15])
            return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1000 + clock.microsecond // 1000
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            whole, _, fraction = value.removesuffix("Z").partition(".")
            seconds = (dt.datetime.fromisoformat(whole) - _EPOCH) // dt.timedelta(seconds=1)
            return seconds * 10**9 + int(fraction.ljust(9, "0") or 0)
    return value


def vector_rows(group: dict[str, Any]) -> tuple[list[DataType], list[list[object]]]:
    types: list[Any] = [parse_type(text) for text in group["types"]]
    rows = [[internal(v, t) for v, t in zip(vector["values"], types, strict=True)] for vector in group["vectors"]]
    return types, rows


_INT_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
ATOMIC_TYPES = st.one_of(
    st.sampled_from(["BOOLEAN", *_INT_BITS, "FLOAT", "DOUBLE", "DATE", "TIME(3)", "STRING", "BYTES"]),
    st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"DECIMAL({p}, {s})")),
    st.integers(0, 9).map(lambda p: f"TIMESTAMP({p})"),
    st.integers(0, 9).map(lambda p: f"TIMESTAMP({p}) WITH LOCAL TIME ZONE"),
).map(parse_type)


def values_of(type_: Any) -> st.SearchStrategy[Any]:
    return st.none() | present_values_of(type_)


def present_values_of(type_: Any) -> st.SearchStrategy[Any]:
    match type_.root:
        case "BOOLEAN":
            return st.booleans()
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            half = 1 << (_INT_BITS[type_.root] - 1)
            return st.integers(-half, half - 1)
        case "FLOAT":
            return st.floats(width=32, allow_nan=False)
        case "DOUBLE":
            return st.floats(allow_nan=False)
        case "DATE":
            return st.integers(-719162, 2932896)
        case "TIME":
            return st.integers(0, 86_399_999)
        case "CHAR" | "VARCHAR":
            return st.text(max_size=20)
        case "BINARY" | "VARBINARY":
            return st.binary(max_size=20)
        case "DECIMAL":
            bound = 10**type_.precision - 1
            return st.integers(-bound, bound).map(lambda v: Decimal((int(v < 0), _digits(v), -type_.scale)))
    step = 10 ** (9 - type_.precision)
    return st.integers(-(2**63) // step + 1, 2**63 // step - 1).map(lambda v: v * step)


def _digits(value: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(value)))


def same(left: object, right: object) -> bool:
    """Equal, floats bit by bit."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    return left == right and type(left) is type(right)
