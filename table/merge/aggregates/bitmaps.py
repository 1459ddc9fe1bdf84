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
    """Return the union of HLL sketches, which Java unites in pairs, with the bits of the later one at most."""
    library = _library()
    result, *others = (_read(library.hll_sketch, sketch) for sketch in sketches)
    for other in others:
        if other.lg_config_k < result.lg_config_k and _has_single_values(other) and not _has_single_values(result):
            # The library would lose most of these values, because it has room for fewer bits than the result.
            both = _union(library, result.lg_config_k, result, other)
            result = _union(library, other.lg_config_k, both)
        else:
            result = _union(library, other.lg_config_k, other, result)
    return bytes(result.serialize_compact())


def _union(library: Any, bits: int, *sketches: Any) -> Any:
    union = library.hll_union(bits)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result(library.tgt_hll_type.HLL_4)


def _has_single_values(sketch: Any) -> bool:
    """Return whether it still lists its values: the first byte is the size of the header, 10 for a table of bits."""
    return int(sketch.serialize_compact()[0]) < 10


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
