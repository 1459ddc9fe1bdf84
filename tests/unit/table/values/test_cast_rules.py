"""The types in which a value keeps its hash."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.table.schema.type_text import read_type
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.cast_rules import has_same_hashes
from penstock.table.values.hashing import hash_rows

TIME = dt.datetime(2026, 5, 6, 7, 8, 9, 123_000)
VALUES: dict[str, tuple[object, ...]] = {
    "CHAR(2)": ("ab",),
    "CHAR(30)": ("ab",),
    "VARCHAR(2)": ("ab",),
    "STRING": ("ab",),
    "BINARY(3)": (b"abc",),
    "VARBINARY(2)": (b"ab",),
    "BYTES": (b"ab", b"abc"),
    "DECIMAL(4, 2)": (Decimal("-1.25"),),
    "DECIMAL(18, 2)": (Decimal("-1.25"),),
    "DECIMAL(19, 2)": (Decimal("-1.25"),),
    "DECIMAL(38, 2)": (Decimal("-1.25"),),
    "DECIMAL(18, 4)": (Decimal("-1.2500"),),
    "TIMESTAMP(0)": (TIME.replace(microsecond=0),),
    "TIMESTAMP(3)": (TIME.replace(microsecond=0),),
    "TIMESTAMP(4)": (TIME,),
    "TIMESTAMP(9)": (TIME,),
    "TIMESTAMP_LTZ(3)": (TIME,),
    "INT": (-5,),
    "BIGINT": (-5,),
}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(VALUES, VALUES)))
def test_values_keep_their_hash_in_types_of_the_same_form(source: str, target: str) -> None:
    types = read_type(source), read_type(target)
    if has_same_hashes(*types):
        for value in VALUES[source]:
            first, second = (hash_rows([pa.array([value], to_arrow(type_))], [type_])[0] for type_ in types)
            assert first == second


@pytest.mark.parametrize(
    ("source", "target", "same"),
    [
        ("CHAR(2)", "STRING", True),
        ("STRING", "VARCHAR(9)", False),
        ("BINARY(3)", "BYTES", True),
        ("BINARY(3)", "BINARY(4)", False),
        ("DECIMAL(4, 2)", "DECIMAL(18, 2)", True),
        ("DECIMAL(18, 2)", "DECIMAL(19, 2)", False),
        ("DECIMAL(4, 2)", "DECIMAL(18, 4)", False),
        ("TIMESTAMP(0)", "TIMESTAMP(3)", True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", False),
        ("TIMESTAMP(6)", "TIMESTAMP(9)", True),
        ("INT NOT NULL", "INT", True),
        ("INT", "BIGINT", False),
    ],
)
def test_wider_types_of_the_same_form_keep_hashes(source: str, target: str, same: bool) -> None:
    assert has_same_hashes(read_type(source), read_type(target)) is same
