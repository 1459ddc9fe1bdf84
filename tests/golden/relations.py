"""Rows as Java Paimon tells them, and what a reader of ours must say about the same table.

A relation is a multiset of rows in an encoding that JSON carries without loss (see `encode`): decimals, dates, times
and timestamps are text, bytes are hex, maps are lists of pairs, NaN and the infinities are words. Order never counts.
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.golden.variant import json_of

Type = str | Mapping[str, Any]
Row = Sequence[Any]
Cells = tuple[Hashable, ...]

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows with the names and Paimon types of their columns; `kinds` and `buckets` run parallel to the rows."""

    columns: tuple[str, ...]
    types: tuple[Type, ...]
    rows: list[Row]
    kinds: list[str] | None = None
    buckets: list[int] | None = None
    refusal: str | None = None
    # Columns whose arrays Java keeps in hash tables: the order of their elements means nothing.
    unordered: frozenset[str] = field(default=frozenset())

    def with_rows(self, rows: list[Row], kinds: list[str] | None) -> Relation:
        return replace(self, rows=rows, kinds=kinds, buckets=None)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one snapshot, as a streaming reader sees them."""

    snapshot: int
    rows: Relation


def unordered_columns(options: Mapping[str, str]) -> frozenset[str]:
    functions = {key: value for key, value in options.items() if key.endswith(".aggregate-function")}
    return frozenset(key.split(".")[1] for key, value in functions.items() if value in {"collect", "nested_update"})


def relation_of(table: pa.Table, types: Mapping[str, Type], *, kind_column: str | None = None) -> Relation:
    """An Arrow table in the encoding; `types` gives the Paimon type of each column by name."""
    kinds = table.column(kind_column).to_pylist() if kind_column else None
    names = [name for name in table.column_names if name != kind_column]
    columns = [encode(table.column(name), types[name]) for name in names]
    rows = list(zip(*columns, strict=True)) if columns else []
    return Relation(tuple(names), tuple(types[name] for name in names), rows, kinds)


def difference(expected: Relation, actual: pa.Table | Relation, *, kind_column: str | None = None) -> str | None:
    """None when both hold the same rows (and kinds, where both have them), otherwise what is wrong, in short."""
    if isinstance(actual, pa.Table):
        names = [name for name in actual.column_names if name != kind_column]
        if names != list(expected.columns):
            return f"columns {names}, Java has {list(expected.columns)}"
        actual = relation_of(actual, dict(zip(expected.columns, expected.types, strict=True)), kind_column=kind_column)
    if actual.columns != expected.columns:
        return f"columns {list(actual.columns)}, Java has {list(expected.columns)}"
    with_kinds = expected.kinds is not None and actual.kinds is not None
    wanted, found = counted(expected, expected, with_kinds), counted(actual, expected, with_kinds)
    if wanted == found:
        return None
    missing, extra = wanted - found, found - wanted
    counts = (
        f"{missing.total()} of Java's {len(expected)} rows are missing, {extra.total()} of {len(actual)} are not Java's"
    )
    return "\n".join([counts, *examples(expected, missing, extra)])[:2000]


def counted(relation: Relation, declared: Relation, with_kinds: bool) -> Counter[Cells]:
    kinds = relation.kinds if with_kinds and relation.kinds is not None else [None] * len(relation.rows)
    canon = [
        canonical_of(kind, name in declared.unordered)
        for name, kind in zip(declared.columns, declared.types, strict=True)
    ]
    return Counter(
        (kind, *(canonical(value) for canonical, value in zip(canon, row, strict=True)))
        for kind, row in zip(kinds, relation.rows, strict=True)
    )


def examples(expected: Relation, missing: Counter[Cells], extra: Counter[Cells]) -> Iterable[str]:
    """Missing and extra rows side by side, each with the one that is most like it."""
    names = ("kind", *expected.columns)

    def likeness(row: Cells, lost: Cells) -> int:
        return sum(a == b for a, b in zip(row, lost, strict=True))

    for lost in list(missing)[:3]:
        near = max(extra, key=lambda row, lost=lost: likeness(row, lost), default=None)
        if near is None:
            yield f"  missing {dict(zip(names, lost, strict=True))}"
            continue
        cells = [f"{n}: Java {a!r}, ours {b!r}" for n, a, b in zip(names, lost, near, strict=True) if a != b]
        yield "  " + "; ".join(cells[:4])
    if not missing:
        yield from (f"  extra {dict(zip(names, row, strict=True))}" for row in list(extra)[:3])


# ----------------------------------------------------------------------------------- equal values are equal


def root_of(kind: Type) -> str:
    """The bare name of a type: DECIMAL of "DECIMAL(10, 2) NOT NULL", ROW of a row type."""
    text = kind if isinstance(kind, str) else str(kind["type"])
    return text.removesuffix(" NOT NULL").partition("(")[0].strip()


def canonical_of(kind: Type, unordered: bool = False) -> Callable[[Any], Hashable]:
    """The function that turns an encoded value of this type into a hashable one, equal when the values are."""
    root = root_of(kind)
    if isinstance(kind, Mapping):
        value = nested_canonical(root, kind, unordered)
    elif root in {"FLOAT", "DOUBLE"}:
        value = float_bits("<f" if root == "FLOAT" else "<d")
    elif root == "VARIANT":
        value = variant_canonical
    else:
        return lambda plain: plain
    return lambda encoded: None if encoded is None else value(encoded)


def nested_canonical(root: str, kind: Mapping[str, Any], unordered: bool) -> Callable[[Any], Hashable]:
    if root == "ARRAY":
        element = canonical_of(kind["element"])
        if unordered:
            return lambda items: tuple(sorted((element(item) for item in items), key=repr))
        return lambda items: tuple(element(item) for item in items)
    if root in {"MAP", "MULTISET"}:
        key = canonical_of(kind["key"] if root == "MAP" else kind["element"])
        held = canonical_of(kind["value"] if root == "MAP" else "INT")
        return lambda pairs: frozenset((key(k), held(v)) for k, v in pairs)
    fields = [(part["name"], canonical_of(part["type"])) for part in kind["fields"]]
    return lambda row: tuple(canonical(row[name]) for name, canonical in fields)


def float_bits(layout: str) -> Callable[[Any], Hashable]:
    def bits(encoded: Any) -> Hashable:
        number = float(encoded)
        return "NaN" if math.isnan(number) else struct.pack(layout, number)

    return bits


def variant_canonical(encoded: Any) -> Hashable:
    return json.dumps(json.loads(encoded), sort_keys=True)


# ----------------------------------------------------------------------------------- Arrow to the encoding


def encode(column: pa.ChunkedArray | pa.Array, kind: Type) -> list[Any]:
    """One column, value by value, as Java's JSON has it."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # an empty one stays chunked in some Arrow versions
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    root = root_of(kind)
    if isinstance(kind, Mapping):
        return encode_nested(array, root, kind)
    if root == "VARIANT":
        return encode_variant(array)
    if pa.types.is_timestamp(array.type):
        return encode_timestamps(array, zoned="LOCAL TIME ZONE" in kind or root == "TIMESTAMP_LTZ")
    if pa.types.is_time(array.type):
        return encode_times(array)
    if pa.types.is_date(array.type):
        return encode_dates(array)
    if root in {"FLOAT", "DOUBLE"}:
        return [None if value is None else number(value, short=root == "FLOAT") for value in array.to_pylist()]
    return [plain(value) for value in array.to_pylist()]


def number(value: float, *, short: bool) -> float | str:
    """A FLOAT as its shortest text reads; minus zero and what JSON has no number for as words."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 and math.copysign(1, value) < 0:
        return "-0.0"
    return float(str(np.float32(value))) if short else value


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, str | int | bool):
        return value
    return format(value, "f")  # Decimal, with exactly its scale


def encode_nested(array: pa.Array, root: str, kind: Mapping[str, Any]) -> list[Any]:
    valid = array.is_valid().to_pylist()
    if root == "ROW":
        parts = [(part["name"], encode(pc.struct_field(array, part["name"]), part["type"])) for part in kind["fields"]]
        return [{name: cells[at] for name, cells in parts} if ok else None for at, ok in enumerate(valid)]
    offsets = array.offsets.to_pylist()
    if root == "ARRAY":
        items: list[Any] = encode(array.values, kind["element"])
    else:
        keys = encode(array.keys, kind["key"] if root == "MAP" else kind["element"])
        items = [
            list(pair)
            for pair in zip(keys, encode(array.items, kind["value"] if root == "MAP" else "INT"), strict=True)
        ]
    return [items[start:end] if ok else None for ok, start, end in zip(valid, offsets, offsets[1:], strict=False)]


def encode_timestamps(array: pa.Array, *, zoned: bool) -> list[str | None]:
    scale = NANOS[array.type.unit]
    ticks = np.asarray(array.cast(pa.int64()).fill_null(0))
    seconds, rest = np.divmod(ticks, 10**9 // scale)
    moments = np.datetime_as_string(seconds.astype("datetime64[s]"))
    tail = "Z" if zoned else ""
    return [
        f"{moment}.{part * scale:09d}{tail}" if ok else None
        for moment, part, ok in zip(moments, rest.tolist(), array.is_valid().to_pylist(), strict=True)
    ]


def encode_dates(array: pa.Array) -> list[str | None]:
    days = np.datetime_as_string(
        np.asarray(array.cast(pa.date32()).cast(pa.int32()).fill_null(0)).astype("datetime64[D]")
    )
    return [str(day) if ok else None for day, ok in zip(days, array.is_valid().to_pylist(), strict=True)]


def encode_times(array: pa.Array) -> list[str | None]:
    scale = NANOS[array.type.unit]
    ticks = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()
    return [None if tick is None else clock(tick * scale // 10**6) for tick in ticks]


def clock(millis: int) -> str:
    return f"{millis // 3600000:02d}:{millis // 60000 % 60:02d}:{millis // 1000 % 60:02d}.{millis % 1000:03d}"


def encode_variant(array: pa.Array) -> list[Any]:
    if pa.types.is_struct(array.type):
        return [None if pair is None else json_of(pair["value"], pair["metadata"]) for pair in array.to_pylist()]
    return list(array.to_pylist())
