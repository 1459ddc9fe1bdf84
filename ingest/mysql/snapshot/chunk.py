"""A chunk of a table's snapshot: a range of keys, and the cursor from which the next chunks are planned."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

from penstock.errors import ConfigError
from penstock.ingest.mysql.server.catalog import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

Literals = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """The size of chunks: `rows` rows or about `bytes`.

    Even cuts are used if the key is neither too sparse nor too dense.
    """

    rows: int = 50_000
    bytes: int = 64 << 20
    even_from: float = 0.05
    even_to: float = 1000.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows with a key in (lower, upper]; None means no bound. Bounds are SQL literals, one per key column.

    The last chunk of a table ends at the greatest key at the time of planning, so that it cannot grow while it waits:
    rows inserted after it arrive through the binlog. Where a chunk must be complete as of a position (`read_exact`),
    its `open_end` form is used, which includes all later keys.
    """

    database: str
    table: str
    number: int
    key: tuple[str, ...] = ()
    lower: Literals | None = None
    upper: Literals | None = None
    is_last: bool = False

    @property
    def open_end(self) -> Chunk:
        """The chunk without its upper bound if it is the last one of its table."""
        return replace(self, upper=None) if self.is_last else self

    @property
    def condition(self) -> str:
        """The WHERE clause of the chunk; comparisons are spelled out, because row constructors do not use the index."""
        parts = []
        if self.lower is not None:
            parts.append(key_condition(self.key, self.lower, ">", ">"))
        if self.upper is not None:
            parts.append(key_condition(self.key, self.upper, "<", "<="))
        return " AND ".join(parts) or "TRUE"


@dataclass(frozen=True, slots=True)
class ChunkCursor:
    """The progress of cutting one table; a few literals, whatever the table's size.

    `step` is the key distance of even cuts, or the number of rows of walked ones; `rows` is the requested size of a
    chunk. `done` is true once the last chunk was returned.
    """

    database: str
    table: str
    key: tuple[str, ...]
    way: Literal["even", "walk", "whole"]
    step: int
    number: int = 0
    lower: Literals | None = None
    limit: Literals | None = None
    estimate: int = 0
    done: bool = False
    rows: int = 0

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> ChunkCursor:
        try:
            known = {name: tuple(part) if isinstance(part, list) else part for name, part in value.items()}
            return cls(**known)  # type: ignore[arg-type]
        except TypeError as error:
            raise ConfigError("not a chunk cursor", value=dict(value)) from error


def key_condition(key: tuple[str, ...], bound: Literals, strictly: str, last: str) -> str:
    """Return a condition like `(a > 1 OR (a = 1 AND b > 2))`, which uses the index; `(a, b) > (1, 2)` does not.

    The bound of the first column is repeated in front, so that every optimizer recognizes the range.
    """
    names = [quoted(name) for name in key]
    if len(names) == 1:
        return f"{names[0]} {last} {bound[0]}"
    terms = []
    for place, name in enumerate(names):
        equal = [f"{names[before]} = {bound[before]}" for before in range(place)]
        sign = last if place == len(names) - 1 else strictly
        terms.append("(" + " AND ".join([*equal, f"{name} {sign} {bound[place]}"]) + ")")
    return f"{names[0]} {strictly}= {bound[0]} AND ({' OR '.join(terms)})"
