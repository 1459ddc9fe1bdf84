"""hll_sketch and theta_sketch: unions of Apache DataSketches sketches, computed with its library (extra `sketches`)."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.errors import ConfigError


def unite_hll(sketches: list[bytes]) -> bytes:
    """Return the union of HLL sketches."""
    library = _library()
    parts = [_read(library.hll_sketch, sketch) for sketch in sketches]
    union = library.hll_union(parts[0].lg_config_k)
    for part in parts:
        union.update(part)
    return bytes(union.get_result(library.tgt_hll_type.HLL_4).serialize_compact())


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
