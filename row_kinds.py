"""The four row kinds of a change, as numbers in memory and in data files, and as the texts shown to users."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
KIND_TEXTS = ("+I", "-U", "+U", "-D")  # by number
ROWKIND = "rowkind"  # the name of the column that shows the texts

RowKinds: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]


def kind_texts(kinds: pa.Array) -> pa.Array:
    """Return the text of every row kind."""
    return pa.array(KIND_TEXTS).take(kinds)


def is_retract(kinds: RowKinds) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which rows undo an earlier row: -U and -D. Both are the odd numbers, unlike +I and +U."""
    return (kinds & 1).view(np.bool_)
