"""Unions of values that each contain a set (roaring bitmaps and sketches), computed key by key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from penstock.errors import TableCorrupt
from penstock.table.merge.aggregates import roaring64
from penstock.table.merge.aggregates.function import Inputs
from penstock.table.merge.aggregates.sketches import unite_hll, unite_theta


def unions(inputs: Inputs) -> pa.Array:
    """Return the union of each key's values. A single value stays byte for byte the same."""
    union = _UNIONS[inputs.aggregate.function.name]
    counted, values = inputs.valid_adds(), inputs.values()
    results: list[bytes | None] = []
    for start, end in zip(inputs.work.starts.tolist(), inputs.work.ends.tolist(), strict=True):
        sets = [values[row].as_py() for row in np.flatnonzero(counted[start:end]) + start]
        try:
            results.append(union(sets) if len(sets) > 1 else next(iter(sets), None))
        except ValueError as reason:
            raise TableCorrupt(
                f"a value cannot be read by {inputs.aggregate.function.name} reads: {reason}", column=inputs.name
            ) from reason
    return pa.array(results, values.type)


def _unite_bitmaps(bitmaps: list[bytes]) -> bytes:
    union = BitMap()
    for bitmap in bitmaps:
        union |= BitMap.deserialize(bitmap)
    union.run_optimize()
    return bytes(union.serialize())


_UNIONS: dict[str, Callable[[list[bytes]], bytes]] = {
    "rbm32": _unite_bitmaps,
    "rbm64": roaring64.union,
    "hll_sketch": unite_hll,
    "theta_sketch": unite_theta,
}
