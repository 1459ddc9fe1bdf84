"""Hashes and buckets equal Java's."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from penstock.errors import ConfigError
from penstock.table.values.binary_row import encode_row
from penstock.table.values.hashing import bucket_of, bucket_rows, hash_row, hash_rows, mod_bucket_of
from penstock.table.values.internal import from_internal
from penstock.table.values.types import BIGINT, INT, STRING, parse_type
from tests.unit.table.values.samples import VECTORS, vector_rows
from tests.unit.table.values.test_binary_row import ELEVEN, JAVA_ROWS, TABLES, in_arrow_range

SIXTEEN_INT = [9, 1, 0, 10, 11, 4, 4, 5, 13, 9, 5, 14]
SIXTEEN_STRING = [10, 1, 13, 11, 8, 8, 9, 15, 6, 2, 10, 8]
SIXTEEN_BIGINT = [6, 9, 3, 5, 0, 6, 2, 12, 11, 6, 8, 4]


def scalar_hash(row: bytes) -> int:
    """Murmur3 in plain integers."""
    mask, state = 0xFFFFFFFF, 42
    for i in range(0, len(row), 4):
        k = int.from_bytes(row[i : i + 4], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) * 0x1B873593 & mask
        state = state ^ k
        state = ((state << 13 | state >> 19) * 5 + 0xE6546B64) & mask
    state ^= len(row)
    state = (state ^ state >> 16) * 0x85EBCA6B & mask
    state = (state ^ state >> 13) * 0xC2B2AE35 & mask
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


@pytest.mark.slow
@pytest.mark.parametrize("group", VECTORS, ids=lambda g: f"{g['function']} {'+'.join(g['types'])}")
def test_recorded_hashes_and_buckets(group: dict[str, Any]) -> None:
    types, rows = vector_rows(group)
    for vector, row in zip(group["vectors"], rows, strict=True):
        assert hash_row(encode_row(row, types)[4:]) == vector["hash"]
    kept = [(v, row) for v, row in zip(group["vectors"], rows, strict=True) if in_arrow_range(row, types)]
    columns = [
        from_internal(list(column), type_)
        for column, type_ in zip(zip(*(row for _, row in kept), strict=True), types, strict=True)
    ]
    assert hash_rows(columns, types).tolist() == [vector["hash"] for vector, _ in kept]
    for buckets in kept[0][0]["bucket"]:
        expected = [vector["bucket"][buckets] for vector, _ in kept]
        assert bucket_rows(columns, types, int(buckets), group["function"]).tolist() == expected


@pytest.mark.parametrize(
    ("types", "values", "expected"),
    [
        ([], (), -1670924195),
        (["STRING"], ("20240514",), -1422800034),
        (["STRING"], ("abcdefg",), -1431907323),
        (["INT", "DATE"], (7, 19849), 504367767),
        (["INT"], (0,), -300363099),
        (["INT"], (1,), 1465514398),
        (ELEVEN, JAVA_ROWS[-1][1], -1095050475),
    ],
    ids=lambda v: str(v)[:30],
)
def test_hashes_of_the_reference_rows(types: list[Any], values: tuple[object, ...], expected: int) -> None:
    parsed = [parse_type(text) for text in types]
    assert hash_row(encode_row(values, parsed)[4:]) == expected


@pytest.mark.parametrize("count", [1, 16, 17])
def test_few_rows_and_many_rows_of_a_length_have_the_same_hashes(count: int) -> None:
    texts = [f"{number:03}" * 50 for number in range(count)]
    expected = [scalar_hash(encode_row((text,), [STRING])[4:]) for text in texts]
    assert hash_rows([pa.array(texts)], [STRING]).tolist() == expected


def test_keys_of_a_megabyte_are_hashed_in_little_time() -> None:
    """A call of numpy for each word of few rows took three seconds a key."""
    texts = pa.array([letter * (1 << 20) for letter in "abcd"])
    begin = time.process_time()
    hash_rows([texts, pa.array(range(4), pa.int32())], [STRING, INT])
    assert time.process_time() - begin < 2


def test_buckets_of_three_key_types() -> None:
    ints = pa.array([i * i - 20 for i in range(12)], pa.int32())
    longs = pa.array([i * 3000000001 - 5 for i in range(12)], pa.int64())
    texts = pa.array(["key" + "x" * i for i in range(12)])
    assert bucket_rows([ints], [INT], 16).tolist() == SIXTEEN_INT
    assert bucket_rows([longs], [BIGINT], 16).tolist() == SIXTEEN_BIGINT
    assert bucket_rows([texts], [STRING], 16).tolist() == SIXTEEN_STRING


@pytest.mark.slow
@given(TABLES)
def test_columns_hash_as_their_rows_do(table: tuple[Any, Any]) -> None:
    types, rows = table
    columns = [from_internal(list(column), type_) for column, type_ in zip(zip(*rows, strict=True), types, strict=True)]
    expected = [scalar_hash(encode_row(row, types)[4:]) for row in rows]
    assert hash_rows(columns, types).tolist() == expected


def test_many_chunks_of_mixed_lengths_hash_as_rows_do() -> None:
    texts = ["x" * (i % 37) + "文" * (i % 3) for i in range(70_000)]
    column = pa.chunked_array([texts[:50_000], texts[50_000:]])
    hashes = hash_rows([column], [STRING])
    for i in [*range(40), 32_767, 32_768, 69_999]:
        assert hashes[i] == scalar_hash(encode_row((texts[i],), [STRING])[4:])


def test_other_encodings_of_a_column_hash_alike() -> None:
    texts = pa.array(["a", "longer than seven", None, "a"])
    expected = hash_rows([texts], [STRING]).tolist()
    assert hash_rows([texts.dictionary_encode()], [STRING]).tolist() == expected
    assert hash_rows([texts.cast(pa.large_string())], [STRING]).tolist() == expected
    money = pa.array([Decimal("1.50"), None], pa.decimal128(5, 2))
    assert len(hash_rows([money], [parse_type("DECIMAL(5, 2)")])) == 2


def test_bucket_of_the_smallest_hash_is_not_negative() -> None:
    assert bucket_of(np.array([-(2**31), -1, 0], np.int32), 7).tolist() == [2, 1, 0]


def test_mod_is_java_s_floor_mod() -> None:
    assert mod_bucket_of(pa.array([-7, -1, 12, None], pa.int32()), INT, 5).tolist() == [3, 4, 2, 0]
    with pytest.raises(ConfigError, match="INT or BIGINT"):
        mod_bucket_of(pa.array(["a"]), STRING, 5)


def test_unknown_bucket_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="hive"):
        bucket_rows([pa.array([1], pa.int32())], [INT], 4, "hive")
