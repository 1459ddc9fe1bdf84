"""Errors for unknown names that suggest the most similar known name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.errors import ConfigError, did_you_mean


def no_column(unknown: Sequence[str], names: Iterable[str], table: str | None = None, **facts: object) -> ConfigError:
    """Return the error for columns that the table does not have."""
    known = list(names)
    return ConfigError(
        f"the table has no column {', '.join(map(repr, unknown))}",
        table=table,
        columns=", ".join(known),
        hint=did_you_mean(str(unknown[0]), known),
        **facts,
    )
