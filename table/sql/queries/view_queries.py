"""Views that the catalog keeps, in a DuckDB connection: their queries run on the tables that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.meta.store import TableMissing
from penstock.table.values.optional import duckdb_module
from penstock.table.values.sql_text import quoted

_DIALECT = "duckdb"
_OTHER_DIALECT = (
    "its query is in the dialect of the engine that created it: write the query into the statement, in DuckDB's SQL; "
    "or run the statement with --engine spark, if the view is Spark's"
)


class ViewQueries:
    """The views of a catalog for one session. They are created in DuckDB when a statement names them."""

    def __init__(self, catalog: Catalog, connection: Any) -> None:
        self._catalog, self._connection = catalog, connection
        self._error = duckdb_module().Error
        self._entered: list[str] = []

    @contextmanager
    def entered(self, name: str) -> Iterator[str]:
        """Return the query of a view. ConfigError if this happens inside of the same view."""
        if name in self._entered:
            path = " > ".join([*self._entered, name])
            raise ConfigError(f"the view {name} reads itself", views=path, hint=f"DROP VIEW {name}, or correct it")
        with self.creating(name):
            try:
                yield self._catalog.view(name).text(_DIALECT)
            except TableMissing as missing:
                missing.facts.setdefault("view", name)
                raise

    @contextmanager
    def creating(self, name: str) -> Iterator[None]:
        """Refuse queries that read this view, which may exist."""
        self._entered.append(name)
        try:
            yield
        finally:
            self._entered.pop()

    def create(self, place: tuple[str, str], prepare: Callable[[str], str]) -> None:
        """Create a view in DuckDB. `prepare` registers the tables of its query, and returns it for DuckDB."""
        view = self._catalog.view(".".join(place))
        columns = ", ".join(quoted(column.name) for column in view.columns)
        name = ".".join(map(quoted, place))
        with self.entered(view.name) as query:
            prepared = prepare(query)
            try:
                self._connection.execute(
                    f"CREATE SCHEMA IF NOT EXISTS {quoted(place[0])}; "
                    f"CREATE OR REPLACE VIEW {name} ({columns}) AS {prepared}"
                )
            except self._error as reason:
                raise ConfigError(
                    f"DuckDB cannot run the query of the view {view.name}: {reason}",
                    view=view.name,
                    query=" ".join(query.split()),
                    hint=_OTHER_DIALECT,
                ) from reason
