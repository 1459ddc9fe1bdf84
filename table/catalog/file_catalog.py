"""The file system catalog: databases are folders of the warehouse, tables are folders with a schema in them."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from html import escape
from os import PathLike
from typing import Any, cast

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.storage.base import Storage
from penstock.storage.catalog_options import check_names
from penstock.storage.environment import Ambient
from penstock.storage.open import open_storage, probe
from penstock.table.dynamic_buckets.local_caches import forget_table
from penstock.table.handle import Table
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.schema.changes import SchemaChange, SetOption
from penstock.table.schema.new_schema import ColumnLike, create_schema
from penstock.table.schema.option_checks import report
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.system.handle import SystemTable
from penstock.table.usable import check_name, check_usable
from penstock.table.values.html import rows_html
from penstock.table.values.names import path_step

log = logging.getLogger(__name__)

_SUFFIX = ".db"
_BRANCH = "branch_"


class Catalog:
    """A catalog in a warehouse folder.

    `warehouse` is a path or a URL; `options` configure its store. A store that cannot create a file atomically only if
    it does not exist is refused, by a probe before the first table is created.
    """

    def __init__(
        self,
        warehouse: str | PathLike[str],
        options: Mapping[str, str] | None = None,
        *,
        ambient: Ambient | None = None,
    ) -> None:
        if not isinstance(warehouse, str | PathLike):
            raise ConfigError(f"a warehouse is a path or a URL, not {warehouse!r}")
        self.warehouse = str(warehouse)
        check_names(options or {})
        self._storage, self._root = open_storage(self.warehouse, options or {})
        self._root = self._root.rstrip("/")
        self._ambient = ambient or Ambient()
        self._probed = False

    def __repr__(self) -> str:
        return f"Catalog({self.warehouse!r})"

    def _repr_html_(self) -> str:
        """Show names only: a warehouse may contain very many tables."""
        rows = [(database, table) for database in self.databases() for table in self.tables(database)]
        return f"<b>{escape(repr(self))}</b>{rows_html(('database', 'table'), rows)}"

    @property
    def storage(self) -> Storage:
        """Return the store of the warehouse."""
        return self._storage

    @property
    def root(self) -> str:
        """Return the warehouse's path within its store."""
        return self._root

    # databases

    def databases(self) -> list[str]:
        """Return the databases of the warehouse; an empty list, with a warning, when the folder does not exist yet."""
        names = [entry.name for entry in self._storage.list(self._root) if entry.is_dir]
        if not names and not self._storage.exists(self._root):
            log.warning("event=warehouse_missing path=%s hint=%s", self.warehouse, "the first database makes it")
        return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Create a database folder. ConfigError when the database exists, unless `ignore_if_exists`."""
        check_name(name, "database")
        if self._storage.exists(self._database_path(name)):
            if ignore_if_exists:
                return
            raise ConfigError(f"database {name!r} exists already", warehouse=self.warehouse)
        self._probe()
        self._storage.mkdirs(self._database_path(name))

    def drop_database(self, name: str, ignore_if_missing: bool = False, cascade: bool = False) -> None:
        """Delete a database. ConfigError when it still contains tables, unless `cascade`."""
        if not self._storage.exists(self._database_path(name)):
            if ignore_if_missing:
                return
            raise ConfigError(f"there is no database {name!r}", warehouse=self.warehouse)
        tables = self.tables(name)
        if tables and not cascade:
            raise ConfigError(
                f"database {name!r} is not empty",
                tables=", ".join(tables),
                hint="drop the tables first, or pass cascade=True",
            )
        self._storage.delete_tree(self._database_path(name))
        for table in tables:
            forget_table(self.table_path(f"{name}.{table}"))

    # tables

    def tables(self, database: str) -> list[str]:
        """Return the names of a database's tables: its folders that contain a schema."""
        path = self._database_path(database)
        if not self._storage.exists(path):
            raise ConfigError(f"there is no database {database!r}", warehouse=self.warehouse)
        return sorted(
            entry.name
            for entry in self._storage.list(path)
            if entry.is_dir and SchemaFiles(self._storage, f"{path}/{entry.name}").ids()
        )

    def table_exists(self, name: str) -> bool:
        """Return whether the table's folder contains a schema."""
        return bool(SchemaFiles(self._storage, self.table_path(name)).ids())

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
        if options and "path" in options:
            raise ConfigError(
                "a warehouse folder holds its tables at its own paths",
                hint="make a table elsewhere with penstock.create_table(path, ...), and open it with open_table(path)",
            )
        if not self._storage.exists(self._database_path(database)):
            raise ConfigError(
                f"there is no database {database!r}",
                warehouse=self.warehouse,
                hint=f"create_database({database!r}) first",
            )
        self._probe()
        made = create_table_at(
            self._storage, self.table_path(name), schema, primary_keys, partition_keys, options, comment, self._ambient
        )
        if not made and not ignore_if_exists:
            raise ConfigError(f"table {name!r} exists already", warehouse=self.warehouse)
        return self.table(name)

    def table(self, name: str) -> Table:
        """Return the table `db.t`, or one of its branches as `db.t$branch_b`."""
        base, branch, system = parse_name(name)
        if system is not None:
            # Users of the typed interface call system_table; for everybody else this method accepts all names.
            return cast(Table, self.system_table(name))
        return Table(self._store(base, branch))

    def system_table(self, name: str) -> SystemTable:
        """Return a system table: `db.t$snapshots`, `db.t$branch_b$files`."""
        base, branch, system = parse_name(name)
        if system is None:
            raise ConfigError(f"{name!r} names no system table", hint="write it as database.table$snapshots")
        return SystemTable(self._store(base, branch), system)

    def _store(self, base: str, branch: str | None) -> TableStore:
        try:
            return TableStore.open(self._storage, self.table_path(base), branch, self._ambient)
        except TableMissing as missing:
            database, table = split_name(base)
            beside = [entry.name for entry in self._storage.list(self._database_path(database)) if entry.is_dir]
            near = difflib.get_close_matches(table, beside, 1)
            if near and near[0] != table:
                missing.hint = f"did you mean {database}.{near[0]}?"
            elif not self._storage.list(self._root):
                missing.hint = f"there is nothing at {self.warehouse}: is the warehouse's path right?"
            raise

    def alter_table(self, name: str, changes: Sequence[SchemaChange], ignore_if_missing: bool = False) -> None:
        """Apply schema changes as one new version of the table's schema."""
        base, branch, _ = parse_name(name)
        if not isinstance(changes, Sequence) or any(not isinstance(one, SchemaChange) for one in changes):
            hint = 'write [AddColumn("c", "INT"), SetOption("bucket", "4")]'
            raise ConfigError("a table is altered by a list of changes", table=name, given=repr(changes), hint=hint)
        try:
            store = self._store(base, branch)
        except TableMissing:
            if ignore_if_missing:
                return
            raise
        evolved = store.evolve(changes, check_usable)
        given = {change.key for change in changes if isinstance(change, SetOption)}
        report(store.name, {key: evolved.options[key] for key in given & evolved.options.keys()})

    def drop_table(self, name: str, ignore_if_missing: bool = False) -> None:
        """Delete a table with all its files."""
        if not self.table_exists(name):
            if ignore_if_missing:
                return
            raise TableMissing(f"there is no table {name!r}", warehouse=self.warehouse)
        self._storage.delete_tree(self.table_path(name))
        forget_table(self.table_path(name))

    def rename_table(self, name: str, new_name: str) -> None:
        """Move the table's folder. Not atomic in object stores, where every file is copied."""
        if not self.table_exists(name):
            raise TableMissing(f"there is no table {name!r}", warehouse=self.warehouse)
        database, table = split_name(new_name)
        check_name(table, "table")
        if self.table_exists(new_name):
            raise ConfigError(f"table {new_name!r} exists already", warehouse=self.warehouse)
        if not self._storage.exists(self._database_path(database)):
            raise ConfigError(f"there is no database {database!r}", warehouse=self.warehouse)
        self._storage.rename_tree(self.table_path(name), self.table_path(new_name))
        forget_table(self.table_path(name))

    def table_path(self, name: str) -> str:
        """Return the path of a table's folder within the store, whether or not the table exists."""
        database, table = split_name(name)
        return f"{self._database_path(database)}/{path_step(table, 'table')}"

    def _database_path(self, database: str) -> str:
        return f"{self._root}/{path_step(database, 'database')}{_SUFFIX}"

    def _probe(self) -> None:
        if not self._probed:
            probe(self._storage, self._root)
            self._probed = True


def create_table_at(
    storage: Storage,
    path: str,
    schema: pa.Schema | Sequence[ColumnLike],
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    options: Mapping[str, str] | None,
    comment: str | None,
    ambient: Ambient,
) -> bool:
    """Create a table; return False, and do nothing, when one exists at `path` already."""
    files = SchemaFiles(storage, path)
    first = create_schema(schema, primary_keys, partition_keys, dict(options or {}), comment, now=ambient.now_millis())
    check_usable(first)
    made = not files.ids() and files.create(first)
    if made:
        report(TableStore.open(storage, path).name, first.options)
    return made


def open_table(path: str, options: Mapping[str, str] | None = None, *, branch: str | None = None) -> Table:
    """Open the table in the folder `path`, whatever catalog it belongs to."""
    storage, root = open_storage(str(path), options or {})
    return Table(TableStore.open(storage, root.rstrip("/"), branch))


def create_table(path: str, schema: Any, storage_options: Mapping[str, str] | None = None, **described: Any) -> Table:
    """Create a table in a separate folder, outside of any warehouse; `described` as in Catalog.create_table."""
    storage, root = open_storage(str(path), storage_options or {})
    probe(storage, root.rstrip("/"))
    made = create_table_at(
        storage,
        root.rstrip("/"),
        schema,
        described.get("primary_keys", ()),
        described.get("partition_keys", ()),
        described.get("options"),
        described.get("comment"),
        Ambient(),
    )
    if not made:
        raise ConfigError("a table stands there already", path=path)
    return open_table(path, storage_options)


def split_name(name: str) -> tuple[str, str]:
    """Split `database.table` into its two parts; ConfigError for any other form."""
    database, dot, table = name.partition(".")
    if not dot or not database or not table:
        raise ConfigError(f"{name!r} is not a table's name", hint="write it as database.table")
    return database, table


def parse_name(name: str) -> tuple[str, str | None, str | None]:
    """Split a name into table, branch and system table.

    The forms are `db.t`, `db.t$snapshots`, `db.t$branch_b` and `db.t$branch_b$snapshots`.
    """
    base, *rest = name.split("$")
    branch = rest.pop(0).removeprefix(_BRANCH) if rest and rest[0].startswith(_BRANCH) else None
    if len(rest) > 1:
        raise ConfigError(f"{name!r} is not a table's name", hint="write it as database.table$branch_b$system")
    return base, branch, rest[0] if rest else None
