"""The public catalog: databases and tables of a warehouse by name, whatever kind of catalog keeps the names."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from typing import cast

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.storage.environment import Environment
from penstock.table.catalog.base import CatalogBackend, RepairedTable, parse_name, split_name
from penstock.table.catalog.batch_view import BatchView, batch_view
from penstock.table.catalog.kept_views import KeptView
from penstock.table.catalog.missing_tables import missing_database_error, missing_table_hint, view_instead
from penstock.table.catalog.name_changes import drop_table, rename_table
from penstock.table.catalog.named_views import NamedViews
from penstock.table.catalog.registry import open_backend
from penstock.table.catalog.tables_by_path import TablesByPath
from penstock.table.handle import Table
from penstock.table.iceberg.publication import publish_if_enabled
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.option_needs import report_table
from penstock.table.options.definition import PATH
from penstock.table.read.fallback import check_fallback
from penstock.table.schema.changes import SchemaChange, SetOption
from penstock.table.schema.new_schema import ColumnLike, create_schema
from penstock.table.system.tables import SystemTable
from penstock.table.usable import check_name, check_usable
from penstock.table.values.html import rows_html

log = logging.getLogger(__name__)

_FIXED = {"location", "name"}  # of the properties of a database, as DESCRIBE DATABASE shows them


class Catalog:
    """A catalog of the tables in a warehouse.

    `warehouse` is a path or a URL; `options` configure its store, and name the kind of catalog as `metastore` (default:
    `filesystem`, the folders of the warehouse). A store that cannot create a file atomically only if it does not exist
    is refused, by a probe before the first table is created.
    """

    def __init__(
        self,
        warehouse: str | PathLike[str],
        options: Mapping[str, str] | None = None,
        *,
        ambient: Environment | None = None,
        backend: CatalogBackend | None = None,
    ) -> None:
        """Open a catalog. With `backend`, use this open one instead of opening what the options name."""
        if not isinstance(warehouse, str | PathLike):
            raise ConfigError(
                f"a warehouse is a path or a URL, not {warehouse!r}",
                hint="pass it as a text, such as /data/warehouse or s3://bucket/warehouse",
            )
        if warehouse == "":  # a variable of the shell that is not set; the working folder would become the warehouse
            raise ConfigError("the warehouse is empty", hint="name its folder or URL; . is the working folder")
        self.warehouse = str(warehouse)
        self.options = dict(options or {})
        self._ambient = ambient or Environment()
        self._is_reported = False  # that the warehouse is missing: a statement asks for the databases several times
        self.backend = backend or open_backend(self.warehouse, options or {}, self._ambient)
        self._views = NamedViews(self.backend, self.warehouse)

    def with_tables_by_path(self) -> tuple[Catalog, TablesByPath]:
        """Return this catalog for one session, and the tables in other folders that it has for that session only."""
        tables = TablesByPath(self.backend, self.options)
        return Catalog(self.warehouse, self.options, ambient=self._ambient, backend=tables), tables

    def __repr__(self) -> str:
        return f"Catalog({self.warehouse!r})"

    def _repr_html_(self) -> str:
        """Show names only: a warehouse may contain very many tables."""
        rows = [(database, table) for database in self.databases() for table in self.tables(database)]
        return f"<b>{escape(repr(self))}</b>{rows_html(('database', 'table'), rows)}"

    # databases

    def databases(self) -> list[str]:
        """Return the databases of the warehouse; an empty list, with a warning, when the folder does not exist yet."""
        found = self.backend.databases()
        if not found and not self._is_reported and self.backend.is_missing():
            self._is_reported = True
            log.warning(
                "event=warehouse_missing path=%s hint=%s",
                self.warehouse,
                "it is created with its first database, for example by the first run of a pipeline",
            )
        return found

    def create_database(
        self, name: str, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database. ConfigError when the database exists, unless `ignore_if_exists`.

        Not every kind of catalog keeps `properties` of a database.
        """
        check_name(name, "database")
        if self.backend.has_database(name):
            if ignore_if_exists:
                return
            raise ConfigError(
                f"database {name!r} exists already",
                warehouse=self.warehouse,
                hint="use it, or create it only if it does not exist (ignore_if_exists, IF NOT EXISTS)",
            )
        self.backend.create_database(name, properties or {})

    def database_properties(self, name: str) -> dict[str, str]:
        """Return the properties that the catalog keeps for a database."""
        self._check_database(name)
        return self.backend.database_properties(name)

    def alter_database(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Set properties of a database; None removes a property. Not every kind of catalog keeps properties."""
        self._check_database(name)
        if fixed := sorted(_FIXED & changes.keys()):
            raise ConfigError(
                f"the {fixed[0]} of a database cannot be changed",
                database=name,
                hint="create another database, and  ALTER TABLE ... RENAME TO  moves tables to it",
            )
        if changes:
            self.backend.alter_database(name, changes)

    def drop_database(self, name: str, ignore_if_missing: bool = False, cascade: bool = False) -> None:
        """Delete a database. ConfigError when it still contains tables, unless `cascade`."""
        if ignore_if_missing and not self.backend.has_database(name):
            return
        tables = [*self.tables(name), *self.backend.views(name)]
        if tables and not cascade:
            raise ConfigError(
                f"database {name!r} is not empty",
                tables=", ".join(tables),
                hint="drop the tables and views first; CASCADE in SQL, or cascade=True in Python, drops them too",
            )
        self.backend.drop_database(name)

    def _check_database(self, name: str, hint: str | None = None) -> None:
        if not self.backend.has_database(name):
            raise missing_database_error(self.databases(), self.warehouse, name, hint)

    # tables

    def tables(self, database: str) -> list[str]:
        """Return the names of a database's tables."""
        self._check_database(database)
        return self.backend.tables(database)

    def views(self, database: str) -> list[str]:
        """Return the names of the views that the catalog keeps in a database: those of Hive and REST do."""
        self._check_database(database)
        return self.backend.views(database)

    def view(self, name: str) -> KeptView:
        """Return a view `database.view` that the catalog keeps. ConfigError if it has none of this name."""
        return self._views.view(name)

    def create_view(self, view: KeptView, *, replace: bool = False, ignore_if_exists: bool = False) -> None:
        """Create a view that the catalog keeps; `replace` replaces one of its name."""
        self._views.create(view, replace=replace, ignore_if_exists=ignore_if_exists)

    def rename_view(self, name: str, new_name: str) -> None:
        """Give a view that the catalog keeps another name."""
        self._views.rename(name, new_name)

    def drop_view(self, name: str, ignore_if_missing: bool = False) -> None:
        """Delete a view that the catalog keeps."""
        self._views.drop(name, ignore_if_missing=ignore_if_missing)

    def table_exists(self, name: str) -> bool:
        """Return whether the table exists."""
        return self.backend.has_table(name)

    def create_table(
        self,
        name: str,
        schema: pa.Schema | Sequence[ColumnLike],
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        *,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Create a table and return it. ConfigError when the table exists, unless `ignore_if_exists`."""
        database, table = split_name(name)
        check_name(table, "table")
        path = (options or {}).get(PATH.key)
        in_folder = None if path is None else self.backend.schema_at(path)
        self._check_database(database, f"CREATE DATABASE {database} in SQL, or create_database({database!r}) in Python")
        now = self._ambient.now_millis()
        # Without columns, the call means the existing table in the folder.
        first = in_folder if in_folder is not None and len(schema) == 0 else None
        first = first or create_schema(schema, primary_keys, partition_keys, dict(options or {}), comment, now=now)
        check_usable(first, in_folder)
        if self.backend.view(name) is not None:
            raise view_instead(name)
        if self.backend.create_table(name, first):
            report_table(self.store(name).name, first)
        elif not ignore_if_exists:
            raise ConfigError(
                f"table {name!r} exists already",
                warehouse=self.warehouse,
                hint="choose another name, or create it only if it does not exist (ignore_if_exists, IF NOT EXISTS)",
            )
        return self.table(name)

    def table(self, name: str) -> Table:
        """Return the table `db.t`, or one of its branches as `db.t$branch_b`."""
        if parse_name(name)[2] is not None:
            # Users of the typed interface call system_table; for everybody else this method accepts all names.
            return cast(Table, self.system_table(name))
        return Table(self.store(name), just_opened=True)

    def system_table(self, name: str) -> SystemTable:
        """Return a system table: `db.t$snapshots`, `db.t$branch_b$files`."""
        base, branch, system = parse_name(name)
        if system is None:
            raise ConfigError(f"{name!r} names no system table", hint="write it as database.table$snapshots")
        return SystemTable(self._store(base, branch), system)

    def store(self, name: str) -> TableStore:
        """Open the store of a table or branch as it is now. If it is missing, raise TableMissing with similar names."""
        base, branch, _ = parse_name(name)
        return self._store(base, branch)

    def _store(self, base: str, branch: str | None) -> TableStore:
        try:
            return self.backend.open(base, branch)
        except TableMissing as missing:
            if self.backend.view(base) is not None:
                raise view_instead(base) from missing
            missing.hint = missing.hint or missing_table_hint(self.backend, self.warehouse, base, branch)
            raise

    def at(self, batch: int | None = None, pipeline: str | None = None) -> BatchView:
        """Return the tables of a pipeline after one batch: the newest that all tables have, or the given one."""
        return batch_view(self.backend, batch, pipeline)

    def alter_table(self, name: str, changes: Sequence[SchemaChange], ignore_if_missing: bool = False) -> None:
        """Apply schema changes as one new version of the table's schema."""
        if not isinstance(changes, Sequence) or any(not isinstance(change, SchemaChange) for change in changes):
            hint = 'write [AddColumn("c", "INT"), SetOption("bucket", "4")]'
            raise ConfigError("a table is altered by a list of changes", table=name, given=repr(changes), hint=hint)
        try:
            store = self.store(name)
        except TableMissing:
            if ignore_if_missing:
                return
            raise
        given = {change.key: change.value for change in changes if isinstance(change, SetOption)}
        check_fallback(store, given)
        evolved = store.evolve(changes, check_usable)
        publish_if_enabled(store)
        report_table(store.name, evolved, only=given)

    def drop_table(self, name: str, ignore_if_missing: bool = False) -> None:
        """Delete a table with all its files."""
        drop_table(self.backend, self.warehouse, name, ignore_if_missing=ignore_if_missing)

    def rename_table(self, name: str, new_name: str) -> None:
        """Give a table another name. With folders, not atomic in object stores, where every file is copied."""
        rename_table(self.backend, self.warehouse, name, new_name)

    def repair(self, names: str | None = None) -> list[RepairedTable]:
        """Enter the tables of the warehouse in the metastore, and correct the entries that differ, with partitions.

        `names` are databases or tables, separated by commas; default: all databases. ConfigError, after all others are
        repaired, if a table cannot be entered.
        """
        chosen: list[str | None] = [name.strip() for name in (names or "").split(",") if name.strip()]
        repaired = [table for name in chosen or [None] for table in self.backend.repair(name)]
        refused = [table for table in repaired if table.outcome == "refused"]
        if refused:
            raise ConfigError(
                f"{len(refused)} of {len(repaired)} tables could not be repaired: {refused[0].reason}",
                tables=", ".join(table.name for table in refused),
                hint="the other tables are repaired; repair each of these alone to see its reason",
            )
        return repaired
