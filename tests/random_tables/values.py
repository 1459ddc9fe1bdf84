"""Random values of a type: few, so that rows meet, with those at which readers have failed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa

INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
PLAIN = ("BOOLEAN", *INTEGERS, "FLOAT", "DOUBLE", "DATE", "STRING", "CHAR(5)", "VARCHAR(40)", "BYTES", "BINARY(3)")
DECIMALS = ("DECIMAL(5, 2)", "DECIMAL(9, 0)", "DECIMAL(18, 4)", "DECIMAL(38, 10)")
TIMES = tuple(f"TIMESTAMP({digits})" for digits in (0, 3, 6, 9))
LOCAL_TIMES = tuple(f"TIMESTAMP({digits}) WITH LOCAL TIME ZONE" for digits in (0, 3, 6))
CLOCKS = ("TIME(0)", "TIME(3)")
NESTED = (
    "ROW<a INT, b STRING>",
    "ROW<a DECIMAL(9, 2), n ROW<x TIMESTAMP(3), y BIGINT>>",
    "ARRAY<INT>",
    "ARRAY<STRING>",
    "MAP<STRING, INT>",
)
KEYS = (
    "INT",
    "BIGINT",
    "STRING",
    "DATE",
    "DECIMAL(9, 0)",
    "DECIMAL(38, 10)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "VARCHAR(40)",
)
PARTITIONS = ("INT", "STRING", "DATE", "BOOLEAN", "SMALLINT", "TIMESTAMP(0)")
# Texts as they stand around the places at which statistics are cut: 16 letters.
WORDS = ("", " ", "a", "A", "ab", "a%b", "a_b", "it's", "é", "数据", "\x01", "zzzz", "\U0001f469\u200d")
LONG = ("sixteen-bytes-16", "sixteen-bytes-16x", "sixteen-bytes-16y", "sixteen-bytes-1", "\U0010ffff" * 18)
FLOATS = (0.0, -0.0, 1.5, -1.5, 0.1, 1e30, float("nan"), float("inf"), float("-inf"))
BYTES = (b"", b"\x00", b"\x00\x00", b"a", b"\xff", b"\xff" * 20, b"ab", b"abc")
_SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def array(choice: random.Random, type_: pa.DataType, length: int, nulls: float, longest: int = 0) -> pa.Array:
    """Return random values of an Arrow type, so many of them null; texts and bytes are cut to their longest."""
    make = _maker(type_)
    found = [None if choice.random() < nulls else make(choice) for _ in range(length)]
    if longest and not pa.types.is_decimal(type_):
        found = [value[:longest] if isinstance(value, str | bytes) else value for value in found]
    return pa.array(found, type_)


def _maker(type_: pa.DataType) -> Callable[[random.Random], object]:
    if pa.types.is_struct(type_):
        inner = [(field.name, _maker(field.type)) for field in type_]
        return lambda choice: {name: _or_null(choice, make) for name, make in inner}
    if pa.types.is_list(type_):
        of_item = _maker(type_.value_type)
        return lambda choice: [_or_null(choice, of_item) for _ in range(choice.randrange(3))]
    if pa.types.is_map(type_):
        of_value = _maker(type_.item_type)
        return lambda choice: [
            (key, _or_null(choice, of_value)) for key in choice.sample(["k", "l", "m"], choice.randrange(3))
        ]
    return _plain(type_)


def _or_null(choice: random.Random, make: Callable[[random.Random], object]) -> object:
    return None if choice.random() < 0.2 else make(choice)


def _plain(type_: pa.DataType) -> Callable[[random.Random], object]:
    if pa.types.is_boolean(type_):
        return lambda choice: choice.random() < 0.5
    if pa.types.is_integer(type_):
        most = 2 ** (type_.bit_width - 1)
        return lambda choice: choice.choice([-most, most - 1, 0, -1, *range(1, 12)])
    if pa.types.is_floating(type_):
        return lambda choice: choice.choice([*FLOATS, *map(float, range(5))])
    if pa.types.is_decimal(type_):
        return _decimals(type_)
    if pa.types.is_date(type_):
        return lambda choice: choice.choice([0, -1, 20_000, 20_001, 20_002, -719_162, 2_932_896])
    if pa.types.is_string(type_):
        return lambda choice: choice.choice([*WORDS, *LONG, *(f"w{n}" for n in range(6))])
    if pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return lambda choice: choice.choice(BYTES)
    if pa.types.is_time(type_):
        return lambda choice: choice.choice([0, 1, 43_200 * _SECONDS[type_.unit], 86_400 * _SECONDS[type_.unit] - 1])
    assert pa.types.is_timestamp(type_), type_
    return _moments(_SECONDS[type_.unit])


def _decimals(type_: pa.DataType) -> Callable[[random.Random], object]:
    from decimal import Decimal

    most = 10**type_.precision - 1

    def one(choice: random.Random) -> Decimal:
        whole = choice.choice([0, 1, -1, most, -most, *(n * 10**type_.scale // 2 for n in range(-4, 9))])
        digits = tuple(map(int, str(abs(whole))))
        return Decimal((int(whole < 0), digits, -type_.scale))

    return one


def _moments(second: int) -> Callable[[random.Random], object]:
    day = 86_400 * second
    # ORC cannot hold fractions of the last second before 1970.
    fixed = [0, -second, 1, 20_000 * day, 20_000 * day + 1, 20_000 * day + second // 2, -7_000 * day]
    return lambda choice: choice.choice([*fixed, *(20_000 * day + n * day // 4 for n in range(6))])
