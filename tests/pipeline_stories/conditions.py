"""The conditions, projections and masks that stories use, each with its meaning in Python."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from tests.pipeline_stories.story import Row

Condition = Callable[[Row], bool]  # whether it is true: null is not
Cell = Callable[[Row], str | None]

CONDITIONS: Mapping[str, Condition] = {
    "p <> 'c'": lambda row: row.get("p") is not None and row["p"] != "c",
    "v is not null": lambda row: row.get("v") is not None,
    "cast(n as INT) >= 0": lambda row: row.get("n") is not None and int(row["n"] or 0) >= 0,
    "p in ('a', 'b') or n is null": lambda row: row.get("p") in {"a", "b"} or row.get("n") is None,
}
EXPECTED: Mapping[str, Condition] = {
    "n is not null": lambda row: row.get("n") is not None,
    "coalesce(v, '') <> 'bad'": lambda row: row.get("v") != "bad",
    "cast(n as INT) > -3": lambda row: row.get("n") is not None and int(row["n"] or 0) > -3,
}


def _joined(*parts: str | None) -> str | None:
    return None if None in parts else "".join(part or "" for part in parts)


# The columns that a projection computes; `*` keeps all others.
PROJECTIONS: Mapping[str, Mapping[str, Cell]] = {
    "*, concat(p, '!') as pp": {"pp": lambda row: _joined(row.get("p"), "!")},
    "*, coalesce(v, '-') as v": {"v": lambda row: "-" if row.get("v") is None else row["v"]},
}
MASKS: Mapping[str, Callable[[str], str | None]] = {
    "sha256": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    # A text too short to hide anything is hidden completely.
    "keep-first(1)": lambda text: text[: len(text) > 1] + "*" * (len(text) - (len(text) > 1)),
    "null": lambda text: None,
}


def masked(mask: str, text: str | None) -> Any:
    return None if text is None else MASKS[mask](text)
