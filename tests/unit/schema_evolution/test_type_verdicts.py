"""The table of type pairs, pair by pair."""

from __future__ import annotations

import pytest

from penstock.schema_evolution.type_verdicts import Verdict, change_of
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.types import parse_type, type_json

PAIRS = [
    ("INT", "BIGINT", Verdict.WIDEN, "BIGINT"),
    ("BIGINT", "INT", Verdict.KEEP, "BIGINT"),
    ("INT", "INT", Verdict.SAME, "INT"),
    ("FLOAT", "DOUBLE", Verdict.WIDEN, "DOUBLE"),
    ("DOUBLE", "FLOAT", Verdict.KEEP, "DOUBLE"),
    ("VARCHAR(10)", "VARCHAR(20)", Verdict.WIDEN, "VARCHAR(20)"),
    ("VARCHAR(20)", "VARCHAR(10)", Verdict.KEEP, "VARCHAR(20)"),
    ("CHAR(5)", "STRING", Verdict.WIDEN, "STRING"),
    ("STRING", "VARCHAR(10)", Verdict.KEEP, "STRING"),
    ("VARBINARY(4)", "BYTES", Verdict.WIDEN, "BYTES"),
    ("DECIMAL(10, 2)", "DECIMAL(8, 4)", Verdict.WIDEN, "DECIMAL(12, 4)"),
    ("DECIMAL(10, 2)", "DECIMAL(8, 1)", Verdict.KEEP, "DECIMAL(10, 2)"),
    ("DECIMAL(38, 0)", "DECIMAL(38, 10)", Verdict.REFUSE, "DECIMAL(38, 0)"),
    ("TIMESTAMP(3)", "TIMESTAMP(6)", Verdict.WIDEN, "TIMESTAMP(6)"),
    ("TIMESTAMP(6)", "TIMESTAMP(3)", Verdict.KEEP, "TIMESTAMP(6)"),
    ("TIME(0)", "TIME(3)", Verdict.KEEP, "TIME(0)"),
    ("INT", "STRING", Verdict.REFUSE, "INT"),
    ("STRING", "INT", Verdict.REFUSE, "STRING"),
    ("BIGINT", "BOOLEAN", Verdict.REFUSE, "BIGINT"),
    ("DATE", "TIMESTAMP(3)", Verdict.REFUSE, "DATE"),
    ("INT", "DECIMAL(20, 2)", Verdict.REFUSE, "INT"),
]


@pytest.mark.parametrize(("old", "new", "verdict", "after"), PAIRS)
def test_pair(old: str, new: str, verdict: Verdict, after: str) -> None:
    change = change_of(parse_type(old), parse_type(new), TypeMapping())
    assert (change.verdict, type_json(change.type)) == (verdict, after)


LOSSLESS = [
    ("INT", "DECIMAL(20, 2)", "DECIMAL(20, 2)"),
    ("DECIMAL(10, 2)", "BIGINT", "DECIMAL(21, 2)"),
    ("DATE", "TIMESTAMP(3)", "TIMESTAMP(3)"),
    ("INT", "DOUBLE", "DOUBLE"),
]


@pytest.mark.parametrize(("old", "new", "after"), LOSSLESS)
def test_lossless_pairs_are_allowed_by_option(old: str, new: str, after: str) -> None:
    change = change_of(parse_type(old), parse_type(new), TypeMapping(allow_lossless=True))
    assert type_json(change.type) == after
    assert change.verdict is Verdict.WIDEN


TO_TEXT = [
    ("INT", "STRING", Verdict.WIDEN, "STRING"),
    ("INT", "VARCHAR(20)", Verdict.WIDEN, "VARCHAR(20)"),
    ("DATE", "VARCHAR(20)", Verdict.WIDEN, "STRING"),  # Paimon makes no VARCHAR of times
    ("TIMESTAMP(3)", "CHAR(30)", Verdict.WIDEN, "STRING"),
    ("VARCHAR(20)", "INT", Verdict.KEEP, "VARCHAR(20)"),  # rows from before the change
    ("STRING", "TIMESTAMP(3)", Verdict.KEEP, "STRING"),
    ("INT", "BOOLEAN", Verdict.REFUSE, "INT"),
]


@pytest.mark.parametrize(("old", "new", "verdict", "after"), TO_TEXT)
def test_any_type_becomes_text_by_option_and_stays_text(old: str, new: str, verdict: Verdict, after: str) -> None:
    change = change_of(parse_type(old), parse_type(new), TypeMapping(allow_non_string_to_string=True))
    assert (change.verdict, type_json(change.type)) == (verdict, after)


def test_decimals_stay_by_option() -> None:
    change = change_of(parse_type("DECIMAL(10, 2)"), parse_type("DECIMAL(20, 4)"), TypeMapping(decimal_no_change=True))
    assert change.verdict is Verdict.KEEP


def test_nullability_is_that_of_the_table() -> None:
    change = change_of(parse_type("INT NOT NULL"), parse_type("BIGINT"), TypeMapping())
    assert type_json(change.type) == "BIGINT NOT NULL"
