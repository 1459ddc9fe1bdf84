"""Which columns of a Parquet file get a dictionary, by the values of its first row group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.table.files.encoding import Encoding
from penstock.table.files.parquet.codings import SAMPLE_ROWS, codings_of
from penstock.table.values.types import Field, parse_type

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
