"""Random tables for hypothesis: types, columns, rows of every type, changes. Values are in the golden encoding.

A strategy here never gives what Paimon cannot hold or Java cannot compare (NaN in a key, a null map key): what is
refused has tests of its own.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.golden.relations import Type, clock, root_of

NANOS_A_DAY = 86400 * 10**9
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
PLAIN = ("BOOLEAN", *INTEGERS, "FLOAT", "DOUBLE", "DATE", "STRING", "BYTES")
KEY_TYPES = ("INT", "BIGINT", "STRING", "DATE", "DECIMAL(10, 2)", "DECIMAL(30, 5)", "TIMESTAMP(3)", "BOOLEAN", "BYTES")
# Words that have broken readers: empty, blank, 7 and 8 bytes (inlined or not), 16 and 17 (cut in statistics).
WORDS = (
    "",
    " ",
    "seven77",
    "eight888",
    "sixteen-bytes-16",
    "seventeen-bytes-17",
    "数据",
    "\U0001f469\u200d",
    "\x01",
    "a/b=c%",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of Java Paimon for a file format: digits of a second, and what a MULTISET may count."""

    finest: int = 9
    counted: tuple[str, ...] = ("INT", "STRING")


NO_LIMITS = Limits()
AVRO = Limits(finest=6, counted=("STRING",))


def parameters(kind: Type) -> list[int]:
    text = kind if isinstance(kind, str) else ""
    inside = text.partition("(")[2].partition(")")[0]
    return [int(part) for part in inside.split(",")] if inside else []


@functools.cache
def atomic_types(finest: int) -> st.SearchStrategy[str]:
    sizes = st.integers(1, 20)
    decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"DECIMAL({p}, {s})"))
    timestamps = st.integers(0, finest).flatmap(
        lambda p: st.sampled_from([f"TIMESTAMP({p})", f"TIMESTAMP({p}) WITH LOCAL TIME ZONE"])
    )
    return st.one_of(
        st.sampled_from(PLAIN),
        st.builds("{}({})".format, st.sampled_from(["CHAR", "VARCHAR", "BINARY", "VARBINARY"]), sizes),
        decimals,
        timestamps,
        st.just("TIME(3)"),
    )


@functools.cache
def types(depth: int = 2, limits: Limits = NO_LIMITS) -> st.SearchStrategy[Type]:
    """Every type but VARIANT, nested to `depth`."""
    if depth == 0:
        return atomic_types(limits.finest)
    inner = types(depth - 1, limits)
    map_keys = st.sampled_from(["INT", "STRING"])
    members = st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: [{"name": f"m{place}", "type": kind} for place, kind in enumerate(kinds)]
    )
    return st.one_of(
        atomic_types(limits.finest),
        st.builds(lambda element: {"type": "ARRAY", "element": element}, inner),
        st.builds(lambda key, value: {"type": "MAP", "key": key, "value": value}, map_keys, inner),
        st.builds(lambda element: {"type": "MULTISET", "element": element}, st.sampled_from(limits.counted)),
        st.builds(lambda fields: {"type": "ROW", "fields": fields}, members),
    )


def not_null(kind: str) -> str:
    return f"{kind} NOT NULL"


# Values -----------------------------------------------------------------------------------------------------


def values(kind: Type, *, key: bool = False) -> st.SearchStrategy[Any]:
    """Values of a type; null too, unless the type forbids it or the value is for a key."""
    root = root_of(kind)
    present = nested_values(root, kind) if isinstance(kind, Mapping) else atomic_values(root, kind, key=key)
    text = kind if isinstance(kind, str) else str(kind["type"])
    return present if key or text.endswith("NOT NULL") else st.one_of(st.none(), present)


def nested_values(root: str, kind: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if root == "ARRAY":
        return st.lists(values(kind["element"]), max_size=3)
    if root == "ROW":
        return st.fixed_dictionaries({part["name"]: values(part["type"]) for part in kind["fields"]})
    key = values(kind["key"] if root == "MAP" else kind["element"], key=True)
    held = values(kind["value"]) if root == "MAP" else st.integers(1, 9)
    return st.dictionaries(key, held, max_size=3).map(lambda pairs: [[k, v] for k, v in pairs.items()])


def atomic_values(root: str, kind: str, *, key: bool = False) -> st.SearchStrategy[Any]:
    sizes = parameters(kind)
    if root in INTEGERS:
        half = 1 << INTEGERS[root] - 1
        return st.integers(-half, half - 1)
    if root in {"FLOAT", "DOUBLE"}:
        return floats(32 if root == "FLOAT" else 64, key=key)
    if root == "CHAR":  # whose blanks at the end are no part of it in ORC
        return texts(sizes[0]).map(lambda text: text.rstrip(" "))
    if root in {"VARCHAR", "STRING"}:
        return texts(sizes[0] if sizes else 30)
    if root in {"BINARY", "VARBINARY", "BYTES"}:
        return st.binary(max_size=sizes[0] if sizes else 30).map(bytes.hex)
    if root == "DECIMAL":
        return decimals(sizes[0], sizes[1])
    if root == "DATE":
        return st.dates().map(dt.date.isoformat)
    if root == "TIME":
        return st.integers(0, 86_399_999).map(clock)
    if root.startswith("TIMESTAMP"):
        return timestamps(sizes[0], zoned="LOCAL" in kind)
    assert root == "BOOLEAN", kind
    return st.booleans()


def floats(width: int, *, key: bool) -> st.SearchStrategy[float | str]:
    def encoded(number: float) -> float | str:
        text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "-0.0": "-0.0"}.get(str(number))
        return number if text is None else text

    found = st.floats(width=width, allow_nan=not key)
    # One NaN is as good as another, and a key of -0.0 is stored as 0.0.
    return found.map(lambda number: encoded(number + 0.0 if key else number))


def texts(longest: int) -> st.SearchStrategy[str]:
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
    return st.one_of(
        st.sampled_from([word for word in WORDS if len(word) <= longest]), st.text(letters, max_size=longest)
    )


def decimals(precision: int, scale: int) -> st.SearchStrategy[str]:
    most = 10**precision - 1
    # Not scaleb: it rounds to the 28 digits of the context.
    return st.integers(-most, most).map(lambda whole: format(Decimal(f"{whole}e-{scale}"), f".{scale}f"))


def timestamps(precision: int, *, zoned: bool) -> st.SearchStrategy[str]:
    # Beyond microseconds only what 64 bits of nanoseconds hold.
    years = (1, 9999) if precision <= 6 else (1678, 2261)
    days = st.dates(dt.date(years[0], 1, 1), dt.date(years[1], 12, 31))
    step = 10 ** (9 - precision)
    ticks = st.integers(0, NANOS_A_DAY // step - 1)

    def text(day: dt.date, tick: int) -> str:
        seconds, nanos = divmod(tick * step, 10**9)
        return f"{day.isoformat()}T{clock(seconds * 1000)[:8]}.{nanos:09d}{'Z' if zoned else ''}"

    return st.builds(text, days, ticks)


# Tables -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table with their types, the first `keys` of them the primary key."""

    columns: tuple[tuple[str, Type], ...]
    keys: int = 1

    @property
    def primary_keys(self) -> list[str]:
        return [name for name, _ in self.columns[: self.keys]]


def columns(
    *, depth: int = 1, most: int = 5, keyed: bool = True, limits: Limits = NO_LIMITS
) -> st.SearchStrategy[Columns]:
    def made(keys: Sequence[str], rest: Sequence[Type]) -> Columns:
        named = [(f"k{place}", not_null(kind)) for place, kind in enumerate(keys)]
        named += [(f"c{place}", kind) for place, kind in enumerate(rest)]
        return Columns(tuple(named), len(keys))

    keys = st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=2) if keyed else st.just([])
    return st.builds(made, keys, st.lists(types(depth, limits), min_size=1, max_size=most))


def rows(of: Columns, *, most: int = 10) -> st.SearchStrategy[list[list[Any]]]:
    """Rows of encoded values; of a keyed table every key at most once."""
    cells = [values(kind, key=place < of.keys) for place, (_, kind) in enumerate(of.columns)]
    row = st.tuples(*cells).map(list)
    distinct = (lambda row: tuple(row[: of.keys])) if of.keys else None
    return st.lists(row, max_size=most, unique_by=distinct)


def changes(of: Columns, pool: Sequence[Sequence[Any]], kinds: Sequence[str], most: int = 12) -> st.SearchStrategy[Any]:
    """One commit: rows with kinds, keys drawn from `pool`, so that they meet again in other commits."""
    fresh = [values(kind) for _, kind in of.columns[of.keys :]]

    def made(kind: str, key: Sequence[Any], rest: Sequence[Any]) -> list[Any]:
        return [kind, *key, *rest]

    change = st.builds(made, st.sampled_from(kinds), st.sampled_from([list(key) for key in pool]), st.tuples(*fresh))
    return st.lists(change, min_size=1, max_size=most)
