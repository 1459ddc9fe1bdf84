"""Views that a catalog keeps: their queries, in the dialects of the engines that created them, and their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view, with its type as the catalog writes it."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class KeptView:
    """A view `database.view` of a catalog. `dialects` are texts of its query for some engines, by their names."""

    name: str
    query: str
    columns: tuple[ViewColumn, ...]
    comment: str | None = None
    dialects: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def text(self, dialect: str) -> str:
        """Return the query for an engine; as in Paimon, the query as it was written if it has no own text."""
        return self.dialects.get(dialect, self.query)
