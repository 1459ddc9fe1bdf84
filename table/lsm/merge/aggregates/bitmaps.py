"""rbm32 and rbm64: unions of serialised roaring bitmaps, one key after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from penstock.errors import TableCorrupt
from penstock.table.lsm.merge.inputs import Inputs


def union32(inputs: Inputs) -> pa.Array:
    return _unions(inputs, _union32)


def union64(inputs: Inputs) -> pa.Array:
    return _unions(inputs, _union64)


def _unions(inputs: Inputs, union: Callable[[list[bytes]], bytes]) -> pa.Array:
    counted, values = inputs.valid_adds(), inputs.values()
    results: list[bytes | None] = []
    for start, end in zip(inputs.work.starts.tolist(), inputs.work.ends.tolist(), strict=True):
        bitmaps = [values[row].as_py() for row in np.flatnonzero(counted[start:end]) + start]
        try:
            results.append(union(bitmaps) if len(bitmaps) > 1 else next(iter(bitmaps), None))
        except ValueError as reason:
            raise TableCorrupt("a value is no serialised roaring bitmap", column=inputs.name) from reason
    return pa.array(results, values.type)


def _union32(bitmaps: list[bytes]) -> bytes:
    union = BitMap()
    for bitmap in bitmaps:
        union |= BitMap.deserialize(bitmap)
    union.run_optimize()
    return bytes(union.serialize())


def _union64(bitmaps: list[bytes]) -> bytes:
    union = BitMap64()
    for bitmap in bitmaps:
        union |= BitMap64.deserialize(bitmap)
    union.run_optimize()
    return bytes(union.serialize())
