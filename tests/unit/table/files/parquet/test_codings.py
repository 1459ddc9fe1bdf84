"""Which columns of a Parquet file get a dictionary or are compressed, by the values of its first row group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.table.files.encoding import Encoding
from penstock.table.files.parquet.codings import SAMPLE_ROWS, codings_of
from penstock.table.values.types import Field, parse_type

BIGINT, STRING = parse_type("BIGINT"), parse_type("STRING")
ROWS = 40_000
RANDOM = np.random.default_rng(1)
COLUMNS = {
    "some_texts": ("STRING", RANDOM.integers(0, 1_500, ROWS).astype(str)),
    "some_floats": ("DOUBLE", RANDOM.integers(0, 1_500, ROWS) / 7),
    "some_integers": ("BIGINT", RANDOM.integers(0, 1_500, ROWS)),
    "few_integers": ("BIGINT", RANDOM.integers(0, 100, ROWS)),
    "many_texts": ("STRING", RANDOM.integers(0, 10_000, ROWS).astype(str)),
    # Three neighbouring rows each, as lines of an order.
    "repeated_near": ("STRING", (np.arange(ROWS) // 3).astype(str)),
    "changing_slowly": ("STRING", (np.arange(ROWS) // 200).astype(str)),
}
FIELDS = tuple(Field(place, name, parse_type(kind)) for place, (name, (kind, _)) in enumerate(COLUMNS.items()))


@pytest.mark.parametrize("rows", [ROWS, SAMPLE_ROWS])
def test_texts_and_floats_get_a_dictionary_for_more_values_than_integers(rows: int) -> None:
    group = pa.table({name: values[:rows] for name, (_, values) in COLUMNS.items()})
    codings = codings_of(group.slice(0, SAMPLE_ROWS), FIELDS, Encoding(), group)
    expected = ["some_texts", "some_floats", "few_integers", "changing_slowly"]
    # Of 5,000 rows, those apart from each other are the first ones.
    assert codings.dictionary == (expected if rows == ROWS else [*expected[:3], "repeated_near", expected[3]])


def test_fewer_rows_than_a_sample_get_none() -> None:
    group = pa.table({name: values[: SAMPLE_ROWS - 1] for name, (_, values) in COLUMNS.items()})
    assert codings_of(group, FIELDS, Encoding(), group).dictionary is False
    assert codings_of(group, FIELDS, Encoding(dictionary=True), group).dictionary is True


FLOATS = {
    "random": RANDOM.random(ROWS),
    "random_real": RANDOM.random(ROWS).astype(np.float32),
    "random_or_null": pa.array(RANDOM.random(ROWS), mask=RANDOM.random(ROWS) < 0.3),
    "two_digits": RANDOM.integers(0, 1 << 30, ROWS) / 100,
    # No value of the sample repeats.
    "repeated_far_away": np.tile(RANDOM.random(6_000), 7)[:ROWS],
    "random_at_first": np.append(RANDOM.random(10_000), np.arange(ROWS - 10_000) / 4),
    "random_but_at_the_end": np.append(RANDOM.random(ROWS - 5_000), np.arange(5_000) / 4),
    "sorted": np.sort(RANDOM.random(ROWS)) + 50,  # a ninth of each value repeats that of its neighbour
    "only_null": pa.nulls(ROWS, pa.float64()),
}
KINDS = {name: "FLOAT" if name == "random_real" else "DOUBLE" for name in FLOATS}
FLOAT_FIELDS = tuple(Field(place, name, parse_type(KINDS[name])) for place, name in enumerate(FLOATS))


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "brotli"])
def test_random_floats_are_not_compressed(codec: str) -> None:
    group = pa.table(FLOATS)
    codings = codings_of(group.slice(0, SAMPLE_ROWS), FLOAT_FIELDS, Encoding(codec=codec), group)
    assert isinstance(codings.codecs, dict)
    plain = {name for name, used in codings.codecs.items() if used == "none"}
    random = {"random", "random_real", "random_or_null"}
    # gzip looks back 32 kB, and these values repeat after 48. snappy and lz4 find no repetitions of few bytes.
    others = {"gzip": {"repeated_far_away"}, "snappy": {"sorted"}, "lz4": {"sorted"}}
    assert plain == random | others.get(codec, set())
    assert set(codings.codecs) == set(FLOATS)


def test_floats_with_a_dictionary_by_option_are_compressed() -> None:
    group = pa.table(FLOATS)
    codings = codings_of(group.slice(0, SAMPLE_ROWS), FLOAT_FIELDS, Encoding(dictionary=True), group)
    assert (codings.codecs, codings.levels) == ("zstd", 1)


def test_few_random_floats_are_compressed_as_others() -> None:
    group = pa.table(FLOATS).slice(0, SAMPLE_ROWS - 1)
    assert codings_of(group, FLOAT_FIELDS, Encoding(), group).codecs == "zstd"


@pytest.mark.parametrize("dictionary", [False, None])
def test_floats_that_are_null_in_the_sample_are_compressed(dictionary: bool | None) -> None:
    group = pa.table({name: values for name, values in FLOATS.items() if name in {"random", "only_null"}})
    fields = tuple(field for field in FLOAT_FIELDS if field.name in group.column_names)
    codings = codings_of(group.slice(0, SAMPLE_ROWS), fields, Encoding(dictionary=dictionary), group)
    assert codings.codecs == {"random": "none", "only_null": "zstd"}


@pytest.mark.parametrize(
    ("codec", "rows", "plain"), [("zstd", 1_023, True), ("zstd", 1_024, False), ("lz4", 500, False)]
)
def test_deltas_of_small_files_are_not_compressed(codec: str, rows: int, plain: bool) -> None:
    columns = {"numbers": RANDOM.integers(0, 1 << 40, rows), "texts": RANDOM.integers(0, 1 << 40, rows).astype(str)}
    fields = tuple(Field(place, *kind) for place, kind in enumerate([("numbers", BIGINT), ("texts", STRING)]))
    group = pa.table(columns)
    codings = codings_of(group, fields, Encoding(codec=codec), group)
    assert codings.encodings == {"numbers": "DELTA_BINARY_PACKED"}
    assert codings.codecs == ({"numbers": "none", "texts": codec} if plain else codec)
