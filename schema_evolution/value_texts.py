"""Values of any type as texts, and nested values from JSON texts."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import late_pandas
from penstock.schema_evolution.text_casts import Misfits
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.texts import to_text
from penstock.table.values.types import ArrayType, AtomicType, DataType, type_json


def as_text(column: pa.Array) -> pa.Array:
    """Return values in the text form they would have in a text message."""
    if pa.types.is_list(column.type) and pa.types.is_string(column.type.value_type):
        # The labels of a SET, as MySQL prints them.
        return pc.binary_join(column, ",")
    if pa.types.is_nested(column.type):
        late_pandas.needed_for(column.type)
        pairs = pa.types.is_map(column.type)
        values = (dict(value) if pairs and value is not None else value for value in column.to_pylist())
        return pa.array([None if value is None else _json_text(value) for value in values], pa.string())
    if pa.types.is_decimal(column.type):
        return to_text(column, AtomicType("DECIMAL", precision=column.type.precision, scale=column.type.scale))
    if pa.types.is_binary(column.type):
        return _utf8(column)
    return pc.cast(column, pa.string())


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain_text)


def _plain_text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _utf8(column: pa.Array) -> pa.Array:
    """Return bytes as text; invalid UTF-8 is shown as U+FFFD."""
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode(errors="replace") for value in column.to_pylist()]
        return pa.array(texts, pa.string())


def bit_texts(column: pa.Array) -> pa.Array:
    """Return bytes as binary digits, eight per byte."""
    encoded = column.dictionary_encode()
    texts = ["".join(f"{byte:08b}" for byte in value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def parsed_json(column: pa.Array, type_: DataType, name: str, misfits: Misfits) -> pa.Array:
    """Parse nested values from JSON text, each distinct text once.

    A list of texts may also be written `[a,b]` or `a,b`.
    """
    encoded = column.dictionary_encode()
    arrow = to_arrow(type_)
    values: list[object] = []
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            value = _constructed(text, type_)
            # Converted alone, so that a failure concerns this text only and not the whole column.
            pa.array([value], arrow)
        except (ValueError, TypeError, AttributeError, pa.ArrowException) as reason:
            rows = np.flatnonzero(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False) == number)
            misfits.add(rows, f"{name} {type_json(type_)}: {text[:80]!r} does not fit ({reason})")
            value = None
        values.append(value)
    return pa.array(values, arrow).take(encoded.indices)


def _constructed(text: str, type_: DataType) -> object:
    if isinstance(type_, ArrayType) and isinstance(type_.element, AtomicType) and type_.element.root == "VARCHAR":
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if isinstance(value, list):
            return [item if item is None or isinstance(item, str) else json.dumps(item) for item in value]
        inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        return inner.split(",") if inner else []
    value = json.loads(text)
    if isinstance(type_, ArrayType) and not isinstance(value, list):
        raise TypeError("is not a JSON array")
    if not isinstance(type_, ArrayType) and not isinstance(value, dict):
        raise TypeError("is not a JSON object")
    if isinstance(value, dict) and pa.types.is_map(to_arrow(type_)):
        return list(value.items())
    return value
