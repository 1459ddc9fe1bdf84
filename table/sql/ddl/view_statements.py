"""Statements that create, change and drop views that the catalog keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.catalog.base import split_name
from penstock.table.catalog.kept_views import KeptView, ViewColumn
from penstock.table.schema.type_text import written
from penstock.table.sql.dml.inserts import query_columns
from penstock.table.sql.grammar.mentions import Mention, mentions
from penstock.table.sql.grammar.table_statements import CreateView, DropView, RenameView
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.sql.queries.context import SqlContext, done
from penstock.table.sql.queries.engine_errors import missing_view
from penstock.table.values.sql_text import backquoted, literal

_DIALECT = "duckdb"


def create_view(context: SqlContext, statement: CreateView) -> pa.Table:
    """Run CREATE VIEW or ALTER VIEW ... AS. The columns of the query are found without running it."""
    name = context.full_name(statement.name)
    database, _ = split_name(name)
    former = context.catalog.view(name) if statement.replaces == "existing" else None
    if statement.if_not_exists and context.catalog.backend.view(name) is not None:
        return done()
    for mention in mentions(tokens_of(statement.query)):
        _check_name(context, mention, database)
    names, schema = context.session.columns_of_view(name, statement.query)
    types = [written(column.type) for column in query_columns(schema)]
    columns = _columns(name, statement.columns or [(column, None) for column in names], types)
    options: Mapping[str, str] = statement.options if former is None else former.options
    comment = statement.comment if former is None else former.comment
    view = KeptView(name, statement.query, columns, comment, {_DIALECT: statement.query}, options)
    context.catalog.create_view(view, replace=statement.replaces is not None, ignore_if_exists=statement.if_not_exists)
    return done()


def _check_name(context: SqlContext, mention: Mention, database: str) -> None:
    """Refuse a name that would mean another table, or none, in a statement of another session."""
    name = ".".join(mention.names)
    if context.session.names_view(mention):
        raise ConfigError(f"{name} is a temporary view, which only this session has", hint="write its query instead")
    if context.session.place(mention.names) is None:
        return
    if len(mention.names) == 3:
        hint = f"write {'.'.join(mention.names[1:])}: views read tables of the catalog that keeps them"
        raise ConfigError(f"{name} begins with a name of this session's catalog", hint=hint)
    if len(mention.names) == 1 and context.database != database:
        raise ConfigError(
            f"names without a database mean tables of {database}, the database of the view",
            name=name,
            hint=f"write {context.database}.{name}",
        )


def _columns(view: str, given: Sequence[tuple[str, str | None]], types: Sequence[str]) -> tuple[ViewColumn, ...]:
    if len(given) != len(types):
        names = ", ".join(name for name, _ in given)
        hint = "name each column of the query, in its order"
        raise ConfigError(f"the query has {len(types)} columns, and the view {len(given)}", columns=names, hint=hint)
    seen = set[str]()
    for name, _ in given:
        if name.lower() in seen:
            raise ConfigError(
                f"two columns of the view are named {name!r}",
                view=view,
                hint="rename one by AS, or list the names of the columns",
            )
        seen.add(name.lower())
    return tuple(ViewColumn(name, type_, comment) for (name, comment), type_ in zip(given, types, strict=True))


def rename_view(context: SqlContext, statement: RenameView) -> pa.Table:
    """Run ALTER VIEW ... RENAME TO. A new name without a database stays in the database of the old one."""
    name = context.full_name(statement.name)
    if statement.if_exists and context.catalog.backend.view(name) is None:
        return done()
    new = statement.new_name
    new_name = f"{split_name(name)[0]}.{new[0]}" if len(new) == 1 else context.full_name(new)
    context.catalog.rename_view(name, new_name)
    return done()


def drop_view(context: SqlContext, statement: DropView) -> pa.Table:
    """Run DROP VIEW of a view that the catalog keeps. A name without a database may also miss a temporary view."""
    has_database = len(statement.name) > 1 or context.database is not None
    name = context.full_name(statement.name) if has_database else None
    if len(statement.name) == 1 and (name is None or context.catalog.backend.view(name) is None):
        if statement.if_exists:
            return done()
        is_table = name is not None and context.catalog.table_exists(name)
        raise missing_view(statement.name[0], context.session.views, is_table=is_table)
    if name is not None:
        context.catalog.drop_view(name, statement.if_exists)
    return done()


def create_statement_of_view(view: KeptView) -> str:
    """Return the statement that creates the view."""
    columns = ", ".join(
        backquoted(column.name) + (f" COMMENT {literal(column.comment)}" if column.comment else "")
        for column in view.columns
    )
    text = f"CREATE VIEW {'.'.join(map(backquoted, split_name(view.name)))} ({columns})"
    if view.comment:
        text += f" COMMENT {literal(view.comment)}"
    options = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in sorted(view.options.items()))
    text += f" TBLPROPERTIES ({options})" if options else ""
    return f"{text} AS\n{view.text(_DIALECT)}"
