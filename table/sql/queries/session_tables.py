"""The tables of a warehouse in a DuckDB connection: registered when a statement names them, for that statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.table.catalog.base import parse_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.meta.snapshot import Snapshot
from penstock.table.read.lazy_dataset import LazyDataset
from penstock.table.sql.grammar.mentions import Mention, has_alias
from penstock.table.sql.grammar.tokens import SqlToken
from penstock.table.sql.queries.engine_errors import refuse_alike
from penstock.table.sql.queries.global_tables import is_global
from penstock.table.sql.queries.table_rows import TableRows
from penstock.table.sql.queries.variant_reads import has_variant, refuse_json_of_variants, variant_columns
from penstock.table.values.sql_text import quoted


class SessionTables:
    """The tables that the current statement of a session has named, as views of the connection."""

    def __init__(
        self,
        catalog: Catalog,
        catalog_name: str | None,
        rows: TableRows,
        connection: Any,
        create_view: Callable[[tuple[str, str]], None],
    ) -> None:
        """Begin without tables. `create_view` makes a view of the catalog one of the connection."""
        self._create_view = create_view
        self.database: str | None = None  # of names without one
        self._catalog, self._catalog_name, self._rows, self._connection = catalog, catalog_name, rows, connection
        self._known: set[tuple[str, str]] = set()
        self._tables: dict[str, frozenset[str]] = {}
        self._views: dict[str, frozenset[str]] = {}
        self._travels, self._refuses_json = 0, False
        self.variants: set[str] = set()  # names of VARIANT columns of the statement, in lower case
        self._travelled: list[str] = []

    @property
    def known(self) -> frozenset[tuple[str, str]]:
        """Return the registered tables, without those that have options."""
        return frozenset(self._known)

    def forget(self) -> None:
        """Remove all tables. Each is registered again, at its newest snapshot, when a statement or a view names it."""
        self._tables.clear()
        self._views.clear()
        self.variants.clear()
        for database, table in self._known:
            self._connection.execute(f"DROP VIEW IF EXISTS {quoted(database)}.{quoted(table)}")
        self._known.clear()
        for name in self._travelled:
            self._connection.unregister(name)
        self._travelled.clear()

    def keep_options(self) -> None:
        """Keep the tables with options that this statement has named, for a view that reads them."""
        self._travelled.clear()

    def place(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Return (database, table) when such a table or view exists; a table's name includes its `$` parts."""
        if len(names) == 3 and names[0] == self._catalog_name:
            names = names[1:]
        if len(names) == 1 and self.database is not None:
            names = (self.database, names[0])
        if len(names) != 2:
            return None
        database, table = names
        if database not in self._tables:
            known = database in self._catalog.databases()
            self._tables[database] = frozenset(self._catalog.tables(database) if known else ())
        if is_global((database, table)):
            return database, table
        exists = parse_name(table)[0] in self._tables[database] or self.is_view((database, table))
        return (database, table) if exists else None

    def is_view(self, place: tuple[str, str]) -> bool:
        """Return whether the catalog keeps a view of this name. It is asked only for names that are no tables."""
        database, name = place
        if "$" in name or name in self._tables.get(database, ()):
            return False
        if database not in self._views:
            known = self._catalog.backend.has_database(database)
            self._views[database] = frozenset(self._catalog.views(database) if known else ())
        return name in self._views[database]

    def named(self, place: tuple[str, str], mention: Mention, tokens: Sequence[SqlToken]) -> str:
        """Return the text that names a table in DuckDB, after registering it with the options of its mention."""
        if mention.options:
            self._travels += 1
            name = f"travel_{self._travels}"
            self._register(name, self._rows.of(place, mention.options))
            self._travelled.append(name)
            return name if has_alias(tokens, mention.end) else f"{name} AS {quoted(place[1])}"
        self.know_once(place)
        # Without an alias: the statement may qualify columns by the table, and by its database too.
        return ".".join(map(quoted, place))

    def know_once(self, place: tuple[str, str]) -> None:
        """Register a table unless it is registered."""
        if place not in self._known:
            self.know(place)

    def pin(self, place: tuple[str, str], snapshot: Snapshot | None) -> None:
        """Register a table at a snapshot, and its system tables again when they are named: they must not be older."""
        database, table = place
        self._known -= {found for found in self._known if found[0] == database and found[1].startswith(f"{table}$")}
        self.know(place, snapshot)

    def know(self, place: tuple[str, str], snapshot: Snapshot | None = None) -> None:
        """Register a table at its newest snapshot, or at this one."""
        database, table = place
        refuse_alike(place, self._known)
        if self.is_view(place):
            self._create_view(place)
            self.variants |= variant_columns(self._connection, f"{quoted(database)}.{quoted(table)}")
            self._known.add(place)
            return
        # A dataset is registered under a name without a schema. The view makes it available as `database.table`.
        raw = f"rows of {database}.{table}"
        self._register(raw, self._rows.of(place, {}, snapshot))
        self._connection.execute(
            f"CREATE SCHEMA IF NOT EXISTS {quoted(database)};"
            f"CREATE OR REPLACE VIEW {quoted(database)}.{quoted(table)} AS SELECT * FROM {quoted(raw)}"
        )
        self._known.add(place)

    def _register(self, name: str, rows: pa.Table | LazyDataset) -> None:
        self._connection.register(name, rows)
        variants = {field.name.lower() for field in rows.schema if has_variant(field.type)}
        if variants and not self._refuses_json:
            # Not in each session: it is a detour in every call.
            refuse_json_of_variants(self._connection)
            self._refuses_json = True
        self.variants |= variants
