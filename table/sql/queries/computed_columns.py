"""The hint for a query that names a column which Flink computes: the expression of the column."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.table.catalog.catalog import Catalog
from penstock.table.schema.flink_columns import flink_columns


def computed_hint(catalog: Catalog, places: Iterable[tuple[str, str]], name: str | None) -> str | None:
    """Return the expression of a column that one of these tables has for Flink; None if none has it."""
    for database, table in places if name is not None else ():
        if "$" in table:
            continue
        opened = catalog.table(f"{database}.{table}")
        for column in flink_columns(opened.options, [field.name for field in opened.definition.fields]):
            if column.name.lower() == str(name).lower() and column.expression is not None:
                return f"Flink computes the column {column.name}: write its expression, {column.expression}"
    return None
