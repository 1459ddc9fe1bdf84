"""The four kinds of a row, as numbers in files and as the texts people read."""

from __future__ import annotations

import pyarrow as pa

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
KIND_TEXTS = ("+I", "-U", "+U", "-D")
ROWKIND = "rowkind"


def kind_texts(kinds: pa.Array) -> pa.Array:
    return pa.array(KIND_TEXTS).take(kinds)
