"""A question of the Spark catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError
from penstock.table.catalog.base import parse_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.operations.executor import Executor


@dataclass(frozen=True, slots=True)
class Request:
    """A request: the settings of the catalog, and the arguments of the verb."""

    settings: CatalogSettings
    given: Mapping[str, Any]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Request:
        """Build from JSON."""
        options = dict(given["options"])
        warehouse = options.pop("warehouse", None)
        if warehouse is None:
            raise ConfigError(
                "the catalog has no warehouse", hint="set spark.sql.catalog.NAME.warehouse to a path or a URL"
            )
        return cls(CatalogSettings.of(warehouse, options), given)

    @property
    def catalog(self) -> Catalog:
        """Return the catalog."""
        return self.settings.open()

    @property
    def database(self) -> str:
        """Return the database of the request."""
        return str(self.given["database"])

    @property
    def name(self) -> str:
        """Return the name of the table, perhaps of a branch or a system table."""
        name = f"{self.database}.{self.given['table']}"
        # Names are divided at the first dot, so this would be a table of another database.
        if "." in self.database:
            raise ConfigError(
                f"{name!r} is not a table's name",
                hint="after the catalog a name has two parts, a database without a dot and the table, which is in "
                "backquotes if it has one:  lake.shop.`a.b`",
            )
        return name

    @property
    def base_name(self) -> str:
        """Return the name of the table without branch or system table."""
        return parse_name(self.name)[0]

    @property
    def executor(self) -> Executor | None:
        """Return the executor of a statement's actions: the session's, if it runs jobs for this request."""
        jobs = self.given.get("jobs")
        if jobs is None:
            return None
        from penstock.pipelines.spark_catalog.session_units import SessionUnits

        return SessionUnits(jobs["port"], jobs["token"], jobs["slots"])

    def texts(self, argument: str) -> dict[str, str]:
        """Return an argument that is a mapping of texts."""
        return {str(name): str(text) for name, text in self.given[argument].items()}

    def table(self) -> Table:
        """Open the table or branch that a statement changes."""
        if parse_name(self.name)[2] is not None:
            raise ConfigError(f"{self.name} is a system table", hint="system tables can be read, but not changed")
        return self.catalog.table(self.name)

    def whole_table(self) -> str:
        """Return the name of a table that is dropped or renamed, which is not a part of one."""
        # A branch or a system table has the name of its table, "$", and its own.
        if "$" in self.name:
            hint = "CALL sys.delete_branch drops a branch" if "$branch_" in self.name else None
            raise ConfigError(f"{self.name} is a part of a table, and cannot be dropped or renamed", hint=hint)
        return self.name
