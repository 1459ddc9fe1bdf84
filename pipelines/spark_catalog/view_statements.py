"""Views that the catalog keeps, for Spark: their queries, which Spark runs, and statements that change them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pyspark.sql.types import StructType

from penstock.errors import ConfigError
from penstock.pipelines.spark_catalog.column_types import described_columns, new_column, table_options
from penstock.pipelines.spark_catalog.request import Request
from penstock.table.catalog.kept_views import KeptView, ViewColumn
from penstock.table.catalog.missing_tables import view_instead
from penstock.table.schema.type_text import read_type, written
from penstock.table.sql.grammar.mentions import common_names, mentions
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.sql.queries.global_tables import SYSTEM_DATABASE
from penstock.table.values.sql_text import backquoted
from penstock.table.values.types import Field, with_nullability

_DIALECT = "spark"


def views(request: Request) -> list[str]:
    """Return the names of the views of a database."""
    return [] if request.database == SYSTEM_DATABASE else request.catalog.views(request.database)


def view(request: Request) -> dict[str, Any] | None:
    """Return the description of a view; None if the catalog has no view of this name."""
    found = request.catalog.backend.view(request.name) if "$" not in request.name else None
    if found is None:
        return None
    comment = {"comment": found.comment} if found.comment else {}
    return {
        "query": _query(found),
        "schema": described_columns(_fields(found)).json(),
        "properties": {**found.options, **comment},
    }


def _query(found: KeptView) -> str:
    """Return the query with the columns of the view: Spark looks for their names in the result, and not for places."""
    columns = ", ".join(backquoted(column.name) for column in found.columns)
    # The text may end with a comment.
    return f"SELECT * FROM (\n{found.text(_DIALECT).strip().rstrip(';')}\n) AS query_of_view({columns})"


def _fields(found: KeptView) -> tuple[Field, ...]:
    return tuple(
        Field(number, column.name, read_type(column.type), column.comment)
        for number, column in enumerate(found.columns)
    )


def refuse_view_of(request: Request) -> None:
    """Refuse a view in the place of a table; its name may be that of a system table or a branch."""
    if request.catalog.backend.view(request.base_name) is not None:
        raise view_instead(request.base_name)


def drop_view(request: Request) -> bool:
    """Run DROP VIEW; return whether the view existed."""
    if view(request) is None:
        return False
    request.catalog.drop_view(request.name)
    return True


def create_view(request: Request) -> None:
    """Run CREATE VIEW."""
    request.catalog.create_view(_given(request))


def replace_view(request: Request) -> None:
    """Run CREATE OR REPLACE VIEW of a view that exists, or ALTER VIEW: Spark describes the whole view again."""
    former = request.catalog.view(request.name)
    view = _given(request, former)
    request.catalog.create_view(view, replace=True)


def rename_view(request: Request) -> None:
    """Run ALTER VIEW ... RENAME TO."""
    request.catalog.rename_view(request.name, f"{request.given['new_database']}.{request.given['new_table']}")


def _given(request: Request, former: KeptView | None = None) -> KeptView:
    properties, query = request.texts("properties"), str(request.given["query"])
    comment, options = properties.get("comment"), table_options(properties)
    if former is not None and query == _query(former):  # only properties change
        return replace(former, comment=comment, options=options)
    _check_names(request, query)
    schema = StructType.fromJson(json.loads(request.given["schema"]))
    fields = [new_column(field) for field in schema.fields]
    columns = tuple(ViewColumn(field.name, _type(field), field.description) for field in fields)
    return KeptView(request.name, query, columns, comment, {_DIALECT: query}, options)


def _type(field: Field) -> str:
    return written(with_nullability(field.type, nullable=True))


def _check_names(request: Request, query: str) -> None:
    """Refuse names that mean tables of the session's database: later they would be those of the view's."""
    parts = 1
    if request.given["current_database"] != request.database:
        parts = 2
    if not request.given["of_this_catalog"]:
        parts = 3
    tokens = tokens_of(query)
    common = common_names(tokens)
    for mention in mentions(tokens):
        is_call = mention.is_call or "".join(token.text for token in tokens[mention.end :]).lstrip().startswith("(")
        if len(mention.names) < parts and not is_call and mention.names[0].lower() not in common:
            raise ConfigError(
                f"names without a database mean tables of {request.database}, the database of the view",
                name=".".join(mention.names),
                hint="write the catalog, the database and the table, or USE the database of the view first",
            )
