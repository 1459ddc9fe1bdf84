"""Decimals of every declared size: the value that was sent, or null and counted if the type has no room for it."""

from __future__ import annotations

import random
import struct
from collections import Counter
from decimal import Decimal, localcontext

import pytest

from penstock.ingest.postgres.relation import PgType
from penstock.ingest.postgres.values.binary import binary_column
from tests.unit.ingest.postgres.values.test_binary import cells, numeric


def fitting(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """Return the value if the type has room for all its digits."""
    with localcontext() as context:
        context.prec = 200
        units = value.scaleb(scale)
        return value if units == units.to_integral_value() and abs(units) < 10**precision else None


def some_numbers(chance: random.Random, precision: int, scale: int) -> list[str | None]:
    """Return numbers around the edges of the type: with as many digits as it has, and with a few more."""
    found: list[str | None] = ["0", None]
    for _ in range(60):
        whole, part = chance.randint(0, precision - scale + 1), chance.randint(0, scale + 1)
        digits = "".join(chance.choices("0123456789", k=whole)) or "0"
        if chance.random() < 0.5:
            digits = chance.choice("19") + chance.choice("09") * max(whole - 1, 0)
        fraction = "".join(chance.choices(chance.choice(("0123456789", "09")), k=part))
        found.append(f"{chance.choice(('', '-'))}{digits}{'.' if part else ''}{fraction}")
    return found


@pytest.mark.parametrize("precision", range(1, 39))
def test_numbers_of_every_declared_size(precision: int) -> None:
    for scale in range(precision + 1):
        sent = some_numbers(random.Random(100 * precision + scale), precision, scale)
        wanted = [None if value is None else fitting(Decimal(value), precision, scale) for value in sent]
        odd: Counter[str] = Counter()
        found = binary_column(
            cells([None if value is None else numeric(value) for value in sent]),
            PgType("numeric", precision, scale),
            odd,
        )
        found.validate(full=True)
        assert found.to_pylist() == wanted
        assert odd["number-too-large"] == wanted.count(None) - 1


@pytest.mark.parametrize("kind", [PgType("numeric", 12, 2), PgType("numeric", 30, 2)])
def test_damaged_numbers_are_refused(kind: PgType) -> None:
    for damaged in (struct.pack(">hhHhH", 1, 0, 0, 0, 10_000), struct.pack(">hhHhh", 1, 0, 0, 0, -1)):
        with pytest.raises(ValueError, match="more than four digits"):
            binary_column(cells([numeric("1"), damaged]), kind, Counter())
    with pytest.raises(ValueError, match="more or fewer groups"):
        binary_column(cells([struct.pack(">hhHhh", 2, 0, 0, 0, 1)]), kind, Counter())
