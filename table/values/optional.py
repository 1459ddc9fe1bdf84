"""Imports of optional libraries that only some functions need."""

from __future__ import annotations

from typing import Any

from penstock.errors import ConfigError


def duckdb_module() -> Any:
    """Return the duckdb module. Raise ConfigError when it is not installed."""
    try:
        import duckdb
    except ImportError as reason:
        raise ConfigError("duckdb is not installed", hint="pip install duckdb") from reason
    return duckdb


def polars_module() -> Any:
    """Return the polars module. Raise ConfigError when it is not installed."""
    try:
        import polars as pl
    except ImportError as reason:
        raise ConfigError("polars is not installed", hint="pip install polars") from reason
    return pl
