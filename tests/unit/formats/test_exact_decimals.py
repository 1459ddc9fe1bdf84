"""Casts to decimals: each result is the number that was given, or there is none."""

from __future__ import annotations

import random
from decimal import Context, Decimal

import pyarrow as pa
import pytest

from penstock.formats.exact_decimals import decimals_of_texts, rescaled

EXACT = Context(prec=200)
KINDS = [(38, 18), (38, 0), (38, 10), (38, 38), (20, 5), (19, 9), (10, 2), (3, 3)]


def number(dice: random.Random) -> str:
    digits = str(dice.randrange(10 ** dice.randint(1, 38)))
    place = dice.randint(0, len(digits))
    fraction = digits[place:] + "0" * dice.choice([0, 0, 1, 20])
    return f"{dice.choice(['', '-'])}{digits[:place] or '0'}{'0' * dice.choice([0, 0, 5, 20])}.{fraction}".rstrip(".")


def fits(value: Decimal, kind: pa.Decimal128Type) -> bool:
    whole = value.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
    return whole == value and (whole == 0 or whole.adjusted() + 1 + kind.scale <= kind.precision)


@pytest.mark.parametrize(("precision", "scale"), KINDS)
def test_a_text_is_its_number_or_an_error(precision: int, scale: int) -> None:
    kind, dice, accepted = pa.decimal128(precision, scale), random.Random(scale), 0
    for _ in range(2000):
        text = number(dice)
        try:
            (value,) = decimals_of_texts(pa.array([text]), kind).to_pylist()
        except pa.ArrowInvalid:
            assert not fits(Decimal(text), kind) or len(text) + scale > 76, text
        else:
            assert value == Decimal(text), text
            accepted += 1
    assert accepted


@pytest.mark.parametrize(("precision", "scale"), KINDS)
def test_a_decimal_of_another_type_is_the_same_number_or_an_error(precision: int, scale: int) -> None:
    kind, dice, accepted = pa.decimal128(precision, scale), random.Random(scale), 0
    for _ in range(2000):
        given = pa.decimal128(*dice.choice(KINDS))
        value = Decimal(number(dice))
        if not fits(value, given):
            continue
        column = pa.array([value.quantize(Decimal(1).scaleb(-given.scale), context=EXACT)], given)
        try:
            (found,) = rescaled(column, kind).to_pylist()
        except pa.ArrowInvalid:
            assert not fits(value, kind), value
        else:
            assert found == value
            accepted += 1
    assert accepted
