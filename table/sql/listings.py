"""SHOW and DESCRIBE: the content of the catalog, and of the schema of a table, as rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.base import parse_name
from penstock.table.catalog.kept_views import KeptView
from penstock.table.handle import Table
from penstock.table.options.partitions import PARTITION_DEFAULT_NAME
from penstock.table.schema.flink_columns import flink_columns, watermark, without_flink_columns
from penstock.table.schema.type_text import written
from penstock.table.sql.ddl.view_statements import create_statement_of_view
from penstock.table.sql.grammar.statements import Describe, Show
from penstock.table.sql.procedures.procedure_calls import PROCEDURES
from penstock.table.sql.queries.context import SqlContext, one_column
from penstock.table.sql.queries.global_tables import SYSTEM_DATABASE, global_names
from penstock.table.sql.queries.table_partitions import live_partitions
from penstock.table.values.partition_text import listed_text
from penstock.table.values.sql_text import backquoted, literal
from penstock.table.values.types import Field, with_nullability

# A row of DESCRIBE: column, type, nullable, key, default, comment.
_Described: TypeAlias = tuple[str, str, bool | None, str, str | None, str | None]


def show(context: SqlContext, statement: Show) -> pa.Table:
    """Run SHOW."""
    names = statement.name or ()
    match statement.shown:
        case "catalogs":
            return one_column("catalog", _like(context.opened, statement.like))
        case "current catalog":
            return one_column("catalog", [context.current.name])
        case "current database":
            return one_column("database", [context.database] if context.database else [])
        case "databases":
            return one_column("database", _like(context.catalog.databases(), statement.like))
        case "tables":
            return _tables(context, names[0] if names else None, statement.like)
        case "views":
            return one_column("view", _like(_views(context, names[0] if names else None), statement.like))
        case "tags":
            tags = context.table(names).system("tags").column("tag_name").to_pylist()
            return one_column("tag", _like(tags, statement.like))
        case "procedures":
            return one_column("procedure", _like(sorted(PROCEDURES), statement.like))
        case "create":
            name = context.full_name(names)
            if parse_name(name)[2] is not None:
                raise ConfigError(
                    f"{name} is a system table: no statement creates it", hint="DESCRIBE  shows its columns"
                )
            return one_column("statement", [create_statement(name, context.catalog.table(name))])
        case "create view":
            return one_column("statement", [create_statement_of_view(context.catalog.view(context.full_name(names)))])
        case "partitions":
            return one_column("partition", _partitions(context.table(names), statement.partition))
        case "columns":
            columns = context.catalog.table(context.full_name(names)).schema.names
            return one_column("column", _like(columns, statement.like))
    return _properties(context.table(names), statement.key)


def _like(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that match a pattern: `*` or `%` is any text, `_` any character, `|` separates alternatives."""
    if pattern is None:
        return list(names)
    translated = "".join(
        {"%": ".*", "*": ".*", "_": ".", "|": "|"}.get(character, re.escape(character)) for character in pattern
    )
    return [name for name in names if re.fullmatch(translated, name, re.IGNORECASE)]


def _views(context: SqlContext, database: str | None) -> list[str]:
    """Return the temporary views, and those that the catalog keeps in a database."""
    chosen = database or context.database
    databases = [chosen] if chosen else context.catalog.databases()
    kept = [f"{name}.{view}" if chosen is None else view for name in databases for view in context.catalog.views(name)]
    return [*context.session.views, *kept]


def _tables(context: SqlContext, database: str | None, like: str | None) -> pa.Table:
    chosen = database or context.database
    databases = [chosen] if chosen else context.catalog.databases()
    found = [(database, table) for database in databases for table in _like(_table_names(context, database), like)]
    names = ("database", "table")
    return pa.table({name: pa.array([row[place] for row in found], pa.string()) for place, name in enumerate(names)})


def _table_names(context: SqlContext, database: str) -> list[str]:
    if database == SYSTEM_DATABASE and not context.catalog.backend.has_database(database):
        return global_names()
    return context.catalog.tables(database)


def _partitions(table: Table, partition: Mapping[str, str | None] | None) -> list[str]:
    """Return the partitions in the form `dt=2026-01-31/hh=12`."""
    fields, null = Layout.of(table.definition).partition_fields, table.definition.typed[PARTITION_DEFAULT_NAME]
    return sorted(
        "/".join(
            f"{field.name}={listed_text(value, field.type, null)}" for field, value in zip(fields, values, strict=True)
        )
        for values in live_partitions(table, partition)
    )


def _properties(table: Table, key: str | None) -> pa.Table:
    properties = dict(sorted(table.options.items()))
    if table.primary_keys:
        properties["primary-key"] = ",".join(table.primary_keys)
    if key is not None:
        properties = {key: properties[key]} if key in properties else {}
    texts = {"key": list(properties), "value": list(properties.values())}
    return pa.table({name: pa.array(column, pa.string()) for name, column in texts.items()})


def describe(context: SqlContext, statement: Describe) -> pa.Table:
    """Run DESCRIBE."""
    if statement.database:
        properties = context.catalog.database_properties(statement.name[0])
        texts = {"key": ["name", *properties], "value": [statement.name[0], *properties.values()]}
        return pa.table({name: pa.array(column, pa.string()) for name, column in texts.items()})
    name = context.full_name(statement.name)
    if parse_name(name)[2] is not None:
        schema = context.catalog.system_table(name).schema
        fields: list[_Described] = [(field.name, str(field.type), field.nullable, "", None, None) for field in schema]
        return _described(_chosen(name, fields, statement.column))
    if (view := context.catalog.backend.view(name)) is not None:
        return _described_view(view, statement)
    table = context.catalog.table(name)
    keys = dict.fromkeys(table.primary_keys, "PRI")
    keys |= {name: f"{keys[name]}, PAR" if name in keys else "PAR" for name in table.partition_keys}
    columns: list[_Described] = [
        (field.name, _type(field), field.type.nullable, keys.get(field.name, ""), field.default, field.description)
        for field in table.definition.fields
    ]
    shows_details = statement.extended and statement.column is None
    return _described([*_chosen(name, columns, statement.column), *(_details(name, table) if shows_details else ())])


def _described_view(view: KeptView, statement: Describe) -> pa.Table:
    columns: list[_Described] = [(item.name, item.type, True, "", None, item.comment) for item in view.columns]
    if statement.extended and statement.column is None:
        queries = {f"View Text ({dialect})": text for dialect, text in sorted(view.dialects.items())}
        properties = ", ".join(f"{key}={value}" for key, value in sorted(view.options.items()))
        texts = {"View Text": view.query, **queries, "Table Properties": properties}
        details = {"Name": view.name, "Type": "VIEW", "Comment": view.comment, **texts}
        return _described([*columns, *_detail_rows(details)])
    return _described(_chosen(view.name, columns, statement.column))


def _chosen(table: str, columns: Sequence[_Described], column: str | None) -> Sequence[_Described]:
    """Return all columns, or the one that the statement names."""
    if column is None:
        return columns
    found = [entry for entry in columns if entry[0] == column]
    found = found or [entry for entry in columns if entry[0].lower() == column.lower()]
    if not found:
        names = [entry[0] for entry in columns]
        hint = did_you_mean(column, names, f"the columns are {', '.join(names)}")
        raise ConfigError(f"the table has no column {column!r}", table=table, hint=hint)
    return found


def _details(name: str, table: Table) -> Iterator[_Described]:
    """Yield what EXTENDED shows after the columns, in the rows of Spark."""
    details = {
        "Name": name,
        "Comment": table.comment,
        "Location": table.path,
        "Primary Key": ", ".join(table.primary_keys),
        "Partition Columns": ", ".join(table.partition_keys),
        "Table Properties": ", ".join(f"{key}={value}" for key, value in sorted(table.options.items())),
    }
    yield from _detail_rows(details)


def _detail_rows(details: Mapping[str, object]) -> Iterator[_Described]:
    yield "", "", None, "", "", ""
    yield "# Detailed Table Information", "", None, "", "", ""
    for key, text in details.items():
        if text:
            yield key, str(text), None, "", "", ""


def _described(columns: Sequence[_Described]) -> pa.Table:
    names, types, nullable, key, defaults, comments = zip(*columns, strict=True)
    if None in nullable:  # rows of EXTENDED that are no columns: a boolean would be shown as NULL there
        nullable = tuple("" if value is None else str(value).lower() for value in nullable)
    return pa.table(
        {
            "column": pa.array(names, pa.string()),
            "type": pa.array(types, pa.string()),
            "nullable": pa.array(nullable),
            "key": pa.array(key, pa.string()),
            "default": pa.array(defaults, pa.string()),
            "comment": pa.array(comments, pa.string()),
        }
    )


def create_statement(name: str, table: Table) -> str:
    """Return the statement that creates the table, in Flink SQL, which Paimon supports."""
    lines = [_column(field) for field in table.definition.fields]
    names = [field.name for field in table.definition.fields]
    for column in flink_columns(table.options, names):
        comment = f" COMMENT {literal(column.comment)}" if column.comment else ""
        lines.insert(column.place, f"{backquoted(column.name)} {column.described}{comment}")
    if (marked := watermark(table.options)) is not None:
        lines.append(f"WATERMARK FOR {backquoted(marked[0])} AS {marked[1]}")
    if table.primary_keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(backquoted, table.primary_keys))}) NOT ENFORCED")
    text = f"CREATE TABLE {'.'.join(map(backquoted, name.split('.', 1)))} (\n  " + ",\n  ".join(lines) + "\n)"
    if table.comment:
        text += f" COMMENT {literal(table.comment)}"
    if table.partition_keys:
        text += f" PARTITIONED BY ({', '.join(map(backquoted, table.partition_keys))})"
    own = without_flink_columns(table.options, names)
    options = ",\n  ".join(f"{literal(key)} = {literal(value)}" for key, value in sorted(own.items()))
    return f"{text} WITH (\n  {options}\n)" if options else text


def _column(field: Field) -> str:
    text = f"{backquoted(field.name)} {_type(field)}{'' if field.type.nullable else ' NOT NULL'}"
    if field.default is not None:
        text += f" DEFAULT {literal(field.default)}"
    return f"{text} COMMENT {literal(field.description)}" if field.description else text


def _type(field: Field) -> str:
    return written(with_nullability(field.type, nullable=True))
