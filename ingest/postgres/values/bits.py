"""BIT and BIT VARYING: the bytes of the server are aligned to the left, those of a table to the right."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.ingest.database.buffers import at_every_byte, booleans, slices

if TYPE_CHECKING:
    from penstock.ingest.postgres.types import PgType
    from penstock.ingest.postgres.values.cells import Cells


def bit_fields(cells: Cells, kind: PgType, _oddities: Counter[str]) -> pa.Array:
    """Return booleans for one bit, else bytes. Each distinct value is shifted once."""
    if kind.size == 1:
        bits = at_every_byte(cells.data, ">i4")[cells.start]
        return booleans((cells.data[cells.start + 4] >= 0x80) & (bits > 0), cells.null)
    encoded = slices(pa.binary(), cells.data, cells.start, cells.length, cells.null).dictionary_encode()
    values = [_aligned(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(values, pa.binary()).take(encoded.indices)


def _aligned(value: bytes) -> bytes:
    bits = int.from_bytes(value[:4], "big")
    content = value[4:]
    number = int.from_bytes(content, "big") >> (8 * len(content) - bits)
    return number.to_bytes((bits + 7) // 8, "big")


def bits_of_text(digits: str) -> bytes:
    """Return the bytes of binary digits as the server prints them."""
    return int(digits or "0", 2).to_bytes((len(digits) + 7) // 8, "big")
