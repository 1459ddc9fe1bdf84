"""The state that the statements of a script share: the catalog, the current database, session options and DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.catalog.base import parse_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.sql.session import Session


@dataclass(slots=True)
class SqlContext:
    """The state of a script between its statements."""

    catalog: Catalog
    session: Session
    database: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def full_name(self, names: Sequence[str]) -> str:
        """Return `database.table` for a name in a statement."""
        if len(names) > 2:
            hint = f"write {'.'.join(names[-2:])}: the warehouse is the only catalog"
            raise ConfigError(f"{'.'.join(names)!r} has more than two parts", hint=hint)
        if len(names) == 2:
            return ".".join(names)
        if self.database is None:
            hint = "write database.table, or USE a database first"
            raise ConfigError(f"{names[0]!r} is not a table's full name", hint=hint)
        return f"{self.database}.{names[0]}"

    def table(self, names: Sequence[str]) -> Table:
        """Open the table that a statement changes."""
        name = self.full_name(names)
        if parse_name(name)[2] is not None:
            raise ConfigError(f"{name} is a system table", hint="system tables can be read, but not changed")
        return self.catalog.table(name)


def done() -> pa.Table:
    """Return the result of a statement that returns no rows."""
    return pa.table({"result": ["OK"]})


def one_column(name: str, values: Sequence[str]) -> pa.Table:
    """Return texts as a table of one column."""
    return pa.table({name: pa.array(values, pa.string())})
