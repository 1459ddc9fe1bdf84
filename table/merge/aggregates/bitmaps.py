"""Unions of values that each contain a set (roaring bitmaps and sketches), computed key by key.

The library of sketches is an optional extra, `sketches`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from penstock.errors import ConfigError, TableCorrupt
from penstock.table.merge.aggregates import roaring64
from penstock.table.merge.aggregates.function import Inputs


def unite_hll(sketches: list[bytes]) -> bytes:
    """Return the union of HLL sketches."""
    library = _library()
    result, *others = (_read(library.hll_sketch, sketch) for sketch in sketches)
    for other in others:
        # In pairs, as in Java, and with room for both: a union of more, or with room for less, loses most of the values
        # when a sketch with fewer bits follows those with more.
        union = library.hll_union(max(result.lg_config_k, other.lg_config_k))
        union.update(result)
        union.update(other)
        result = union.get_result(library.tgt_hll_type.HLL_4)
    return bytes(result.serialize_compact())


def unite_theta(sketches: list[bytes]) -> bytes:
    """Return the union of theta sketches."""
    library = _library()
    union = library.theta_union()
    for sketch in sketches:
        union.update(_read(library.compact_theta_sketch, sketch))
    return bytes(union.get_result().serialize())


def _library() -> Any:
    try:
        return importlib.import_module("datasketches")
    except ImportError as reason:
        raise ConfigError(
            "aggregating sketches needs the package datasketches", hint="pip install datasketches"
        ) from reason


def _read(kind: Any, sketch: bytes) -> Any:
    try:
        return kind.deserialize(sketch)
    except (RuntimeError, IndexError) as reason:
        raise ValueError(str(reason)) from reason


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
                f"a value cannot be read by {inputs.aggregate.function.name}: {reason}", column=inputs.name
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
