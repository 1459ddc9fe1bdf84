"""Cells of rows of a result: where they are, and their content with and without what was fetched with their lengths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingest.database.buffers import with_spare_bytes
from penstock.ingest.mysql.snapshot.text_rows import RowBlock

VALUES = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=245, max_size=300))


def sent(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    return (bytes([size]) if size < 251 else b"\xfc" + size.to_bytes(2, "little")) + value


@pytest.mark.parametrize("before", [0, 3, 4])
@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=1, max_size=5)))
def test_cells_are_those_of_the_rows(before: int, rows: list[list[bytes | None]]) -> None:
    packets = [b"".join(map(sent, row)) for row in rows]
    end = np.cumsum([before + len(packet) for packet in packets])
    start = end - np.array(list(map(len, packets)))
    block = RowBlock(with_spare_bytes(b"".join(bytes(before) + packet for packet in packets)), start, end, len(rows[0]))
    for place, column in enumerate(block.cells()):
        for cells in (column, replace(column, view=None)):
            assert cells.values(pa.binary()).to_pylist() == [row[place] for row in rows]
