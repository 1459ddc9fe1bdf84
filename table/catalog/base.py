"""The contract that every kind of catalog fulfils, and the forms of a table's name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.catalog.kept_views import KeptView
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arguments import as_text

_BRANCH = "branch_"


@dataclass(frozen=True, slots=True)
class RepairedTable:
    """A table that a repair compared with its entry in the metastore: `added`, `updated`, `unchanged` or `refused`."""

    name: str
    outcome: str
    reason: str = ""


class CatalogBackend(ABC):
    """A place that keeps the names of databases and tables: a folder, a metastore, a database or a server.

    `Catalog` implements for all kinds what they have in common: the checks of arguments and schemas, the names of
    branches and system tables, hints and logs. A kind implements the methods below, which may assume that names are
    valid. Table names have the form `database.table`.

    The stores that it opens carry a `TableCommits`, through which snapshots and schema changes are committed: a kind
    that locks its tables, or whose server commits, supplies its own. A process opens a kind once and uses it from
    several threads. It is never pickled; tasks open their own from `CatalogSettings`.
    """

    @property
    @abstractmethod
    def longest_name(self) -> int:
        """Return the maximum length, in bytes, of the name of a partition's folder."""

    @property
    def owns_versions(self) -> bool:
        """Return whether a server has the snapshots of tables, so that they are not made by copying files."""
        return False

    @property
    def places_by_name(self) -> bool:
        """Return whether the folder of a table follows from its name, also after it was dropped and created again."""
        return False

    def is_missing(self) -> bool:
        """Return whether there is no catalog at this place. A service that answers is one, even without databases."""
        return False

    @abstractmethod
    def check(self) -> str:
        """Check that tables can be created, and return a sentence about what was found.

        Raise an OSError or a ConfigError if they cannot.
        """

    @abstractmethod
    def databases(self) -> list[str]:
        """Return the names of the databases in order."""

    @abstractmethod
    def has_database(self, database: str) -> bool:
        """Return whether the database exists."""

    @abstractmethod
    def create_database(self, database: str, properties: Mapping[str, str]) -> None:
        """Create a database that did not exist a moment ago."""

    @abstractmethod
    def database_properties(self, database: str) -> dict[str, str]:
        """Return the properties of a database that exists."""

    def alter_database(self, database: str, changes: Mapping[str, str | None]) -> None:
        """Set properties of a database that exists; None removes one, if it is there.

        A kind overrides this if it keeps properties of databases.
        """
        raise ConfigError(
            "this kind of catalog keeps no properties of databases",
            database=database,
            properties=", ".join(sorted(changes)),
            hint="leave them out, or use a catalog with metastore = hive, jdbc or rest",
        )

    @abstractmethod
    def drop_database(self, database: str) -> None:
        """Delete a database with the tables that are in it."""

    @abstractmethod
    def tables(self, database: str) -> list[str]:
        """Return the names, without the database, of the tables of a database that exists, in order."""

    def audit(self, name: str) -> Mapping[str, object]:
        """Return what the catalog keeps about a table besides its schema, if it does.

        `owner`, `createdAt`, `createdBy`, `updatedAt`, `updatedBy`, with times in milliseconds.
        """
        return {}

    def possible_tables(self, database: str) -> list[str]:
        """Return names that include all tables of the database; an empty list if it does not exist.

        A kind overrides this if `tables` sends a request for each table, while the names cost one request.
        """
        return self.tables(database) if self.has_database(database) else []

    def views(self, database: str) -> list[str]:
        """Return the names, without the database, of the views of a database that exists, in order.

        A kind overrides this and the methods of views below if it keeps views.
        """
        return []

    def view(self, name: str) -> KeptView | None:
        """Return a view; None if the catalog has no view of this name."""
        return None

    def create_view(self, view: KeptView) -> bool:
        """Create a view in a database that exists. Return False, with nothing changed, if it exists."""
        raise keeps_no_views(view.name)

    def replace_view(self, view: KeptView) -> None:
        """Replace a view that exists."""
        raise keeps_no_views(view.name)

    def rename_view(self, name: str, new_name: str) -> None:
        """Rename a view that exists; no table and no view has the new name."""
        raise keeps_no_views(name)

    def drop_view(self, name: str) -> None:
        """Delete a view that exists."""
        raise keeps_no_views(name)

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Return whether the table exists."""

    @abstractmethod
    def open(self, name: str, branch: str | None) -> TableStore:
        """Open a table as it is now, or one of its branches. Raise TableMissing if it does not exist."""

    @abstractmethod
    def create_table(self, name: str, schema: TableSchema) -> bool:
        """Create a table with its first schema version, and its database if that does not exist.

        Return False, with nothing changed, if the table exists, also if another process was faster.
        """

    def schema_at(self, path: str) -> TableSchema | None:
        """Return the schema of the table in a folder that the option `path` of a new table names; None without one.

        A kind overrides this if its tables may be in any folder. Its `create_table` then obeys the option `path`.
        """
        raise ConfigError(
            "this kind of catalog chooses the folders of its tables",
            path=path,
            hint="remove LOCATION or the option path; or use a catalog with metastore=hive; or make the table with "
            "penstock.create_table(path, ...), and open it with open_table(path)",
            paimon_message="does not support specifying the table path when creating a table",
        )

    def keeps_files(self, name: str) -> bool:
        """Return whether the table's files stay when it is dropped."""
        return False

    @abstractmethod
    def drop_table(self, name: str) -> None:
        """Delete a table that exists, with its files unless the catalog keeps them."""

    @abstractmethod
    def rename_table(self, name: str, new_name: str) -> None:
        """Give a table that exists a name that does not exist, perhaps in another database."""

    def repair(self, name: str | None) -> list[RepairedTable]:
        """Correct the catalog's entries of a table, a database or all databases by the table files.

        A kind overrides this if it keeps a copy of the content of the files.
        """
        raise ConfigError(
            "this kind of catalog has no entries that can differ from the tables", hint="repair is for metastore=hive"
        )


def split_name(name: str) -> tuple[str, str]:
    """Split `database.table` into its two parts; ConfigError for any other form."""
    database, dot, table = as_text(name, "the name of a table").partition(".")
    if not dot or not database or not table:
        raise ConfigError(f"{name!r} is not a table's name", hint="write it as database.table")
    return database, table


def parse_name(name: str) -> tuple[str, str | None, str | None]:
    """Split a name into table, branch and system table.

    The forms are `db.t`, `db.t$snapshots`, `db.t$branch_b` and `db.t$branch_b$snapshots`.
    """
    base, *rest = as_text(name, "the name of a table").split("$")
    branch = rest.pop(0).removeprefix(_BRANCH) if rest and rest[0].startswith(_BRANCH) else None
    if len(rest) > 1:
        raise ConfigError(f"{name!r} is not a table's name", hint="write it as database.table$branch_b$system")
    return base, branch, rest[0] if rest else None


def on_branch(name: str, options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the name with the branch that the option `branch` names, and the other options.

    ConfigError if the name has another branch already.
    """
    remaining = dict(options)
    named = remaining.pop("branch", None)
    if named is None:
        return name, remaining
    base, branch, system = parse_name(name)
    if branch is not None and branch != named:
        raise ConfigError(
            f"both branch {branch!r} and branch {named!r} are named",
            table=name,
            hint="name the branch once, in the name of the table or in the option",
        )
    parts = [base, *([f"{_BRANCH}{named}"] if named != "main" else []), *([system] if system else [])]
    return "$".join(parts), remaining


def not_paimon(name: str, kind: object, **server: str) -> TableMissing:
    """Return the error for a table of another kind, such as one of Hive; `server` is the catalog that keeps it."""
    hint = "read it with the engine that created it"
    return TableMissing("the table is not a Paimon table", table=name, type=kind, **server, hint=hint)


def keeps_no_views(name: str) -> ConfigError:
    """Return the error for a change of views in a catalog that has tables only."""
    return ConfigError(
        "this kind of catalog keeps no views",
        view=name,
        hint="CREATE TEMPORARY VIEW lasts as long as the session; catalogs with metastore = hive or rest keep views",
    )
