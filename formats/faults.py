"""Values that do not fit: the rows of a batch that have one, and why.

The messages of such rows are rejected as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from penstock.errors import DecodeError
from penstock.formats.change import BAD_VALUE, Int64s


class Faults:
    """The numbers of faulty rows of one batch, each with its first reason, and messages that are bad as a whole."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}
        self.messages: dict[int, DecodeError] = {}

    def add(self, rows: Iterable[int], reason: str) -> None:
        """Mark rows as faulty; the first reason of a row is kept."""
        for row in rows:
            self.reasons.setdefault(int(row), reason)

    def bad_messages(self, message_of_row: Int64s) -> dict[int, DecodeError]:
        """Return the messages to reject, by number, each with its first reason."""
        bad = dict(self.messages)
        for row, reason in sorted(self.reasons.items()):
            bad.setdefault(int(message_of_row[row]), DecodeError(reason, reason=BAD_VALUE))
        return dict(sorted(bad.items()))

    def __bool__(self) -> bool:
        return bool(self.reasons or self.messages)


def map_distinct(
    column: pa.Array, convert: Callable[[str], object], kind: pa.DataType, problem: str, faults: Faults
) -> pa.Array:
    """Apply `convert` to each distinct value.

    If it raises ValueError, the value becomes null and its rows are faulty.
    """
    encoded = column.dictionary_encode()
    values: list[object] = []
    wrong: dict[int, str] = {}
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            values.append(convert(text))
        except ValueError as error:
            values.append(None)
            wrong[number] = f"{problem}: {error}"
    # Usually empty. Only faulty values are searched for in the rows.
    for number, reason in wrong.items():
        rows = np.flatnonzero(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False) == number)
        faults.add(rows, reason)
    return pa.array(values, kind).take(encoded.indices)
