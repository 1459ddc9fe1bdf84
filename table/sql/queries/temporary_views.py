"""The temporary views of a session, and the tables that they read. DuckDB keeps the views themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.table.sql.grammar.tokens import SqlToken


@dataclass(frozen=True, slots=True)
class TemporaryView:
    """A temporary view: whether it reads tables of the warehouse, which ones, and its VARIANT columns."""

    reads_tables: bool
    places: frozenset[tuple[str, str]]
    variants: Collection[str]


class TemporaryViews:
    """The temporary views of a session, by their names in any case."""

    def __init__(self) -> None:
        self._views: dict[str, TemporaryView] = {}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._views

    def __getitem__(self, name: str) -> TemporaryView:
        return self._views[name.lower()]

    @property
    def names(self) -> list[str]:
        """Return the names of the views, in lower case."""
        return sorted(self._views)

    def add(self, name: str, view: TemporaryView) -> None:
        """Add a view, or replace the one of its name, whose tables are still registered for later statements."""
        name = name.lower()
        former = self._views[name].places if name in self._views else frozenset()
        self._views[name] = TemporaryView(view.reads_tables, former | view.places, view.variants)

    def remove(self, name: str) -> None:
        """Remove a view, if it exists."""
        self._views.pop(name.lower(), None)

    def named_in(self, tokens: Sequence[SqlToken]) -> list[TemporaryView]:
        """Return the views whose names are among the words of a statement."""
        names = {(token.name or "").lower() for token in tokens}
        return [view for name, view in self._views.items() if name in names]

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Have no views for a while."""
        views, self._views = self._views, {}
        try:
            yield
        finally:
            self._views = views
