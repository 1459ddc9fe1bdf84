"""A source whose tables can be compared with target tables while both continue to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.ingest.source import Offsets

if TYPE_CHECKING:
    from penstock.formats.change import ChangeBatch, SourceSchema


@dataclass(frozen=True, slots=True)
class ComparisonPoint:
    """A position at which the source can be read again as it was then. `text` is for people."""

    offsets: Offsets
    text: str


class ComparableSource(Protocol):
    """A source that keeps the rows of its tables, and can read them as of a position that a pipeline has reached."""

    def tables(self) -> list[SourceSchema]:
        """Return the captured tables."""
        ...

    def newest(self, reached: Sequence[Offsets]) -> ComparisonPoint | None:
        """Return the newest of these positions, None if nothing was read yet.

        A retryable SourceError if the tables are still being read: they represent no single position then.
        """
        ...

    def rows_at(self, table: SourceSchema, point: ComparisonPoint) -> Iterator[tuple[ChangeBatch, Mapping[str, int]]]:
        """Yield the rows of a table as of the position, and the counts of values that were set to null by rules."""
        ...
