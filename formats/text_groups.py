"""Messages grouped by the texts of some of their members, such as the names of their database and table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.formats.change import Int64s


def text_groups(columns: Sequence[pa.Array | None]) -> Iterator[tuple[tuple[str | None, ...], Int64s]]:
    """Yield the different rows of texts, and the places of each in ascending order.

    A column is None if no message has the member: its text is then null. One column at least is given.
    """
    codes, values = None, list[list[str | None]]()
    for column in columns:
        if column is None:
            values.append([None])
            continue
        encoded = column.dictionary_encode(null_encoding="encode")
        values.append(encoded.dictionary.to_pylist())
        indices = np.asarray(encoded.indices).astype(np.int64)
        codes = indices if codes is None else codes * len(values[-1]) + indices
    assert codes is not None
    if math.prod(map(len, values)) <= 1 << 16:
        codes = codes.astype(np.uint16)  # NumPy sorts 16-bit integers ten times as fast
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    for places in np.split(order, np.flatnonzero(np.diff(sorted_codes)) + 1):
        if len(places):
            yield _texts(int(codes[places[0]]), values), places


def _texts(code: int, values: Sequence[Sequence[str | None]]) -> tuple[str | None, ...]:
    found = list[str | None]()
    for choices in reversed(values):
        code, place = divmod(code, len(choices))
        found.append(choices[place])
    return tuple(reversed(found))
