"""Statements that create, change and drop databases and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.catalog.path_tables import create_table as create_table_at_path
from penstock.table.catalog.path_tables import open_table
from penstock.table.handle import Table
from penstock.table.meta.store import TableMissing
from penstock.table.schema.changes import (
    ResetOption,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from penstock.table.schema.flink_columns import (
    flink_columns,
    watermark,
    watermark_options,
    without_flink_columns,
)
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_changes import type_changes
from penstock.table.schema.type_text import read_type, written
from penstock.table.sql.grammar.session_statements import View
from penstock.table.sql.grammar.statements import AlterDatabase, CreateDatabase, DropDatabase
from penstock.table.sql.grammar.table_statements import (
    AlterTable,
    CreateTable,
    DropPartitions,
    DropTable,
    DropWatermark,
    ModifyColumn,
    RenameTable,
    SetWatermark,
    TruncateTable,
)
from penstock.table.sql.queries.context import SqlContext, done
from penstock.table.sql.queries.global_tables import SYSTEM_DATABASE
from penstock.table.sql.queries.table_partitions import check_droppable
from penstock.table.values.arrow_types import NO_ID
from penstock.table.values.sql_text import quoted
from penstock.table.values.types import Field, with_nullability


def create_database(context: SqlContext, statement: CreateDatabase) -> pa.Table:
    """Run CREATE DATABASE."""
    if statement.name == SYSTEM_DATABASE:
        hint = "choose another name: sys.catalog_options and sys.all_table_options are tables of every catalog"
        raise ConfigError(f"the database {SYSTEM_DATABASE} cannot be created", hint=hint)
    context.catalog.create_database(statement.name, statement.if_not_exists, statement.properties)
    return done()


def alter_database(context: SqlContext, statement: AlterDatabase) -> pa.Table:
    """Run ALTER DATABASE, or COMMENT ON DATABASE."""
    context.catalog.alter_database(statement.name, statement.changes)
    return done()


def drop_database(context: SqlContext, statement: DropDatabase) -> pa.Table:
    """Run DROP DATABASE."""
    context.catalog.drop_database(statement.name, statement.if_exists, statement.cascade)
    return done()


def create_table(context: SqlContext, statement: CreateTable) -> pa.Table:
    """Run CREATE TABLE with columns, or LIKE another table."""
    columns, keys, partitions = statement.columns, statement.keys, statement.partitions
    options, comment = dict(statement.options), statement.comment
    if statement.like is not None:
        like = context.table(statement.like).definition
        columns = tuple(copied_column(column) for column in like.fields)
        keys, partitions, comment = like.primary_keys, like.partition_keys, comment or like.comment
        options = _options_like(like, statement.like_options) | options
    context.catalog.create_table(
        context.full_name(statement.name),
        columns,
        keys,
        partitions,
        options,
        comment,
        ignore_if_exists=statement.if_not_exists,
    )
    return done()


def _options_like(schema: TableSchema, kinds: frozenset[str]) -> dict[str, str]:
    """Return the options of another table without its path, and without those kinds that are not copied."""
    names = [field.name for field in schema.fields]
    own = without_flink_columns(schema.options, names)
    copied = without_flink_columns(
        schema.options, names, columns="generated" not in kinds, watermarks="watermarks" not in kinds
    )
    return {key: value for key, value in copied.items() if key != "path" and (key not in own or "options" in kinds)}


def add_table(context: SqlContext, statement: CreateTable, path: str) -> pa.Table:
    """Make the table in a folder known to the session; it is created there if the statement says so."""
    name, options = context.full_name(statement.name), dict(statement.options)
    if context.catalog.table_exists(name):
        if statement.if_not_exists:
            return done()
        raise ConfigError(
            f"table {name!r} exists already",
            warehouse=context.catalog.warehouse,
            hint="use it, drop it first, or write CREATE TABLE IF NOT EXISTS or CREATE OR REPLACE TABLE",
        )
    creates = options.pop("auto-create", "false").lower() == "true"
    try:
        table = open_table(path, context.catalog.options)
    except TableMissing as missing:
        if not (creates and statement.columns):
            missing.hint = "name its columns, and set 'auto-create' = 'true' to create it"
            raise
        described = {"primary_keys": statement.keys, "partition_keys": statement.partitions}
        create_table_at_path(
            path, statement.columns, context.catalog.options, **described, options=options, comment=statement.comment
        )
    else:
        _check_described(statement, options, table)
    context.current.by_path.add(name, path)
    return done()


def _check_described(statement: CreateTable, options: Mapping[str, str], table: Table) -> None:
    """Refuse a description that differs from the table."""
    wanted = [(column.name, written(with_nullability(column.type, nullable=True))) for column in statement.columns]
    found = [(field.name, written(with_nullability(field.type, nullable=True))) for field in table.definition.fields]
    if wanted and wanted != found:
        columns = ", ".join(" ".join(column) for column in found)
        raise ConfigError("the table has other columns", table=table.name, columns=columns, hint="leave them out")
    for aspect, given, own in (
        ("primary key", statement.keys, table.primary_keys),
        ("partition columns", statement.partitions, table.partition_keys),
    ):
        if given and tuple(given) != tuple(own):
            raise ConfigError(
                f"the table has another {aspect}",
                table=table.name,
                found=", ".join(own),
                hint="leave the clause out, or write it as the table has it",
            )
    others = [key for key, value in options.items() if table.options.get(key) != value]
    if others:
        raise ConfigError(
            f"the table has another value of {others[0]!r}",
            table=table.name,
            value=table.options.get(others[0]),
            hint="leave it out here; ALTER TABLE t SET (...) changes it",
        )


def copied_column(column: Field) -> Field:
    """Return the column without its field id and without the ids of its members."""
    # By way of the text of the type, in which members have no ids.
    return Field(NO_ID, column.name, read_type(written(column.type)), column.description, column.default)


def drop_table(context: SqlContext, statement: DropTable) -> pa.Table:
    """Run DROP TABLE. A temporary table of files or made-up rows is a view of the session.

    Raise ConfigError if the name is that of a temporary table and of a table in the catalog: either may be meant.
    """
    (*database, name) = statement.name
    if not database and name.lower() in context.session.views:
        if not statement.temporary and context.session.place((name,)) is not None:
            raise ConfigError(
                f"{name} is a temporary table or view, which hides a table of the catalog",
                hint=f"DROP TEMPORARY TABLE {name} or DROP TEMPORARY VIEW {name} first; or name the table with its "
                f"database: DROP TABLE db.{name}",
            )
        context.session.run_view(View(name, f"DROP VIEW {quoted(name)}", dropped=True))
        return done()
    full = _plain_name(context, statement.name)
    if statement.temporary and context.current.by_path.path_of(full) is None:
        if statement.if_exists:
            return done()
        is_table = context.catalog.table_exists(full)
        raise ConfigError(
            f"there is no temporary table {name}",
            hint="DROP TABLE deletes the table of the catalog with its rows"
            if is_table
            else "SHOW VIEWS lists the temporary ones; DROP TEMPORARY TABLE IF EXISTS ignores it",
        )
    context.catalog.drop_table(full, statement.if_exists)
    return done()


def rename_table(context: SqlContext, statement: RenameTable) -> pa.Table:
    """Run ALTER TABLE ... RENAME TO. A new name without a database stays in the database of the old one."""
    name = _plain_name(context, statement.name)
    if statement.if_exists and not context.catalog.table_exists(name):
        return done()
    new = statement.new_name
    new_name = f"{name.partition('.')[0]}.{new[0]}" if len(new) == 1 else context.full_name(new)
    context.catalog.rename_table(name, new_name)
    return done()


def _plain_name(context: SqlContext, names: tuple[str, ...]) -> str:
    name = context.full_name(names)
    if "$" in name:
        hint = "CALL sys.delete_branch drops a branch" if "$branch_" in name else None
        raise ConfigError(f"{name} is a part of a table, and cannot be dropped or renamed", hint=hint)
    return name


def alter_table(context: SqlContext, statement: AlterTable) -> pa.Table:
    """Run ALTER TABLE, as one new version of the schema."""
    name = context.full_name(statement.name)
    if statement.if_exists and not context.catalog.table_exists(name):
        return done()
    schema = context.table(statement.name).definition
    changes: list[SchemaChange] = []
    for change in statement.changes:
        match change:
            case ModifyColumn():
                changes += _modified(change, schema)
            case SetWatermark():
                changes += _watermarked(change, schema)
            case DropWatermark():
                changes += _unmarked(schema)
            case _:
                changes.append(change)
    context.catalog.alter_table(name, changes)
    return done()


def _watermarked(change: SetWatermark, schema: TableSchema) -> Iterator[SchemaChange]:
    """Yield the options of a watermark, which Flink uses."""
    if change.adds == (watermark(schema.options) is not None):
        raise ConfigError(
            "the table has a watermark already" if change.adds else "the table has no watermark",
            hint="MODIFY WATERMARK changes it" if change.adds else "ADD WATERMARK FOR c AS ...",
        )
    types = {field.name: written(with_nullability(field.type, nullable=True)) for field in schema.fields}
    computed = [column.name for column in flink_columns(schema.options, [*types])]
    if change.column not in types and change.column not in computed:
        names = ", ".join((*types, *computed))
        raise ConfigError(f"the table has no column {change.column!r}", hint=f"the columns are {names}")
    if not change.adds:
        yield from _unmarked(schema)
    for key, text in watermark_options(change.column, change.expression, types.get(change.column)).items():
        yield SetOption(key, text)


def _unmarked(schema: TableSchema) -> Iterator[SchemaChange]:
    """Yield the changes that remove the watermark."""
    if watermark(schema.options) is None:
        raise ConfigError("the table has no watermark", hint="SHOW CREATE TABLE shows what it has")
    for key in watermark_options("", "", ""):
        yield ResetOption(key, if_exists=True)


def _modified(column: ModifyColumn, schema: TableSchema) -> Iterator[SchemaChange]:
    """Yield the changes that make the column as MODIFY describes it."""
    name = column.name[0] if len(column.name) == 1 else column.name
    now = next((field for field in schema.fields if field.name == name), None)
    if isinstance(name, str) and now is None:
        names = ", ".join(field.name for field in schema.fields)
        raise ConfigError(f"the table has no column {name!r}", hint=f"the columns are {names}")
    if now is not None:
        # MODIFY describes the whole column, so a column without NOT NULL becomes nullable. Key columns cannot become
        # it, and are refused if the statement says NULL.
        nullable = column.type.nullable and (column.says_null or name not in schema.primary_keys)
        wanted = with_nullability(column.type, nullable)
        yield from type_changes((now.name,), now.type, wanted)
    else:
        # Type and nullability are different changes. A member is not looked up here, so both are made.
        yield UpdateColumnType(name, written(with_nullability(column.type, nullable=True)), keep_nullability=True)
        yield UpdateColumnNullability(name, column.type.nullable)
    if column.comment is not None:
        yield UpdateColumnComment(name, column.comment)
    if column.default is not None:
        yield UpdateColumnDefault(name, column.default)
    if column.first or column.after is not None:
        if not isinstance(name, str):
            raise ConfigError(
                f"the member {'.'.join(name)!r} of a column cannot be moved",
                hint="move the column that contains it, or leave FIRST or AFTER out",
            )
        yield UpdateColumnPosition(name, first=column.first, after=column.after)


def drop_partitions(context: SqlContext, statement: DropPartitions) -> pa.Table:
    """Run ALTER TABLE ... DROP PARTITION or TRUNCATE TABLE ... PARTITION."""
    table = context.table(statement.name)
    check_droppable(table, statement.partitions, must_exist=statement.must_exist)
    table.drop_partitions(statement.partitions)
    return done()


def truncate_table(context: SqlContext, statement: TruncateTable) -> pa.Table:
    """Run TRUNCATE TABLE."""
    context.table(statement.name).truncate()
    return done()
