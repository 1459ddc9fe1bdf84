"""Values without quotation marks, held to the grammar of JSON numbers."""

from __future__ import annotations

import re
from itertools import product
from random import Random

import numpy as np
import pytest

from penstock.formats.layouts.plain_values import plain_values

pytestmark = pytest.mark.slow

_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
WORDS = (b"null", b"true", b"false")


def is_accepted(value: bytes) -> bool:
    number = _NUMBER.fullmatch(value) is not None and value != b"-0" and len(value) <= 64
    return number or value in WORDS


def random_values(count: int) -> list[bytes]:
    random = Random(5)
    values = []
    for _ in range(count):
        size = random.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 17, 20, 63, 64, 65])
        value = bytearray(random.choice(b"0123456789") for _ in range(size))
        for _ in range(random.choice([0, 0, 0, 1, 1, 2])):
            value[random.randrange(size)] = random.choice(b".-0.-/:\x80\xffA,nx")
        if random.random() < 0.2:
            value[0] = ord("-")
        values.append(bytes(value))
    return values


def damaged_words() -> list[bytes]:
    return [
        word[:at] + bytes([byte]) + word[at + 1 :] for word in WORDS for at in range(4) for byte in b"nultruefas1.-"
    ]


def test_accepted_values_are_those_of_the_grammar() -> None:
    short = [bytes(value) for size in range(1, 6) for value in product(b"019.-e", repeat=size)]
    values = [*short, *random_values(30_000), *WORDS, *damaged_words(), b"nullx", b"tru", b"falsee"]
    text = b",".join(values) + b"\n" * 24
    data = np.frombuffer(text, np.uint8)
    sizes = np.array([len(value) for value in values])
    words = np.ndarray((len(text) - 7,), "<u8", data, 0, (1,))
    accepted, nulls = plain_values(data, words, np.cumsum(sizes + 1) - sizes - 1, sizes)
    wrong = np.flatnonzero(accepted != np.array([is_accepted(value) for value in values]))
    assert [values[place] for place in wrong.tolist()] == []
    assert nulls.tolist() == [place for place, value in enumerate(values) if value == b"null"]
