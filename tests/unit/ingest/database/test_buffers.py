"""Arrow arrays of values whose bytes come from buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DecodeError
from penstock.ingest.database.buffers import of_offsets


def test_values_of_two_gib_are_refused_and_never_wrapped() -> None:
    content, null = np.zeros(1, np.uint8), np.zeros(2, np.bool_)
    with pytest.raises(DecodeError, match="2 values of a column have 2147483648 bytes"):
        of_offsets(pa.binary(), content, np.array([0, 1, 1 << 31]), null)
    assert of_offsets(pa.binary(), content, np.array([0, 1, 1]), null).to_pylist() == [b"\0", b""]
