"""CREATE OR REPLACE TABLE and REPLACE TABLE: the new table is made beside the old one, and then takes its name."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.catalog.replacement import name_beside, state_of, take_name
from penstock.table.meta.store import TableMissing
from penstock.table.sql.ddl.definitions import create_table
from penstock.table.sql.dml.inserts import create_table_as
from penstock.table.sql.grammar.table_statements import CreateTable
from penstock.table.sql.queries.context import SqlContext


def replace_table(context: SqlContext, statement: CreateTable) -> pa.Table:
    """Replace a table, with its history, by a new one; the query may read the old one.

    Until the new table is complete, the old one is unchanged.
    """
    name = context.full_name(statement.name)
    new = replace(statement, replaces=None)
    if not context.catalog.table_exists(name):
        if statement.replaces == "existing":
            raise TableMissing(f"there is no table {name}", hint="CREATE OR REPLACE TABLE creates it")
        return _created(context, new)
    if context.current.by_path.path_of(name) is not None:
        raise ConfigError(f"{name} is in another folder, and is not replaced", hint="INSERT OVERWRITE it")
    other = name_beside(name, "new", context.table(statement.name).store.ambient)
    since = state_of(context.catalog, name)
    result = _created(context, replace(new, name=tuple(other.split(".", 1))))
    take_name(context.catalog, other, name, since)
    return result


def _created(context: SqlContext, statement: CreateTable) -> pa.Table:
    return create_table(context, statement) if statement.query is None else create_table_as(context, statement)
