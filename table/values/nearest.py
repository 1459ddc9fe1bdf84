"""Names that nobody knows, told with the nearest that somebody does."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from penstock.errors import ConfigError


def no_column(unknown: Sequence[str], names: Iterable[str], table: str | None = None, **facts: object) -> ConfigError:
    known = list(names)
    near = difflib.get_close_matches(str(unknown[0]), known, 1)
    return ConfigError(
        f"the table has no column {', '.join(map(repr, unknown))}",
        table=table,
        columns=", ".join(known),
        hint=f"did you mean {near[0]}?" if near else None,
        **facts,
    )
