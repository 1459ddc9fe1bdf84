"""Views that the catalog keeps, for Spark: their queries, which Spark runs, and DROP VIEW."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.errors import ConfigError
from penstock.pipelines.spark_catalog.column_types import described_columns
from penstock.pipelines.spark_catalog.request import Request
from penstock.table.catalog.kept_views import KeptView
from penstock.table.catalog.missing_tables import view_instead
from penstock.table.schema.type_text import read_type
from penstock.table.sql.queries.global_tables import SYSTEM_DATABASE
from penstock.table.values.sql_text import backquoted
from penstock.table.values.types import Field

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


def refuse_view(request: Request) -> NoReturn:
    """Refuse to create, replace or rename a view."""
    raise ConfigError(
        "views of the catalog are read, and not created or changed",
        view=request.name,
        hint="CREATE TEMPORARY VIEW lasts as long as the session; the engine that created a view can change it",
    )
