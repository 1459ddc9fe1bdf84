"""Numbers of texts of any length, beside Python's own."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.ingest.database.buffers import with_spare_bytes
from penstock.ingest.database.cells import Cells
from penstock.ingest.mysql.snapshot.digits import magnitudes, signs


@pytest.mark.parametrize("longest", [0, 1, 2, 4, 5, 8, 9, 19])
def test_digits_are_the_numbers_that_python_reads(longest: int) -> None:
    random = Random(longest)
    texts = ["".join(random.choices("0123456789", k=random.randint(0, longest))) for _ in range(200)]
    assert magnitudes(cells(texts)).tolist() == [int(text or "0") for text in texts]
    signed = [f"-{text}" if random.random() < 0.3 else text for text in texts]
    negative, digits = signs(cells(signed))
    assert negative.tolist() == [text.startswith("-") for text in signed]
    assert magnitudes(digits).tolist() == [int(text or "0") for text in texts]


def cells(texts: list[str]) -> Cells:
    """Return the texts as cells, with a digit and a minus around each."""
    encoded = [f"9{text}-" for text in texts]
    ends = np.cumsum([len(text) for text in encoded])
    lengths = np.array([len(text) for text in texts])
    start = ends - lengths - 1
    null = np.zeros(len(texts), np.bool_)
    return Cells(with_spare_bytes("".join(encoded).encode()), start, lengths, null)
