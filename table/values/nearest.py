"""Errors for unknown names that suggest the most similar known name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from penstock.errors import ConfigError


def no_column(unknown: Sequence[str], names: Iterable[str], table: str | None = None, **facts: object) -> ConfigError:
    """Return the error for columns that the table does not have."""
    known = list(names)
    near = difflib.get_close_matches(str(unknown[0]), known, 1)
    return ConfigError(
        f"the table has no column {', '.join(map(repr, unknown))}",
        table=table,
        columns=", ".join(known),
        hint=f"did you mean {near[0]}?" if near else None,
        **facts,
    )
