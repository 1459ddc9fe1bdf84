"""The four row kinds, as the numbers in data files and as the texts shown to users."""

from __future__ import annotations

import pyarrow as pa

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
KIND_TEXTS = ("+I", "-U", "+U", "-D")
ROWKIND = "rowkind"


def kind_texts(kinds: pa.Array) -> pa.Array:
    """Return the text of every row kind."""
    return pa.array(KIND_TEXTS).take(kinds)
