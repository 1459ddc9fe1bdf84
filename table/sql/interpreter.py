"""SQL over the tables of a warehouse without Spark: statements of Flink's and Spark's dialects, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike

import pyarrow as pa

from penstock.errors import ConfigError, PenstockError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql import definitions
from penstock.table.sql.context import SqlContext, done
from penstock.table.sql.grammar import ScriptPart, read_statement, script_parts
from penstock.table.sql.inserts import create_table_as, insert
from penstock.table.sql.listings import describe, show
from penstock.table.sql.merges import merge
from penstock.table.sql.procedures import call
from penstock.table.sql.row_changes import delete, update
from penstock.table.sql.row_statements import Delete, Insert, Merge, Update
from penstock.table.sql.statements import (
    AlterTable,
    Analyze,
    CallProcedure,
    CreateCatalog,
    CreateDatabase,
    CreateTable,
    Describe,
    DropCatalog,
    DropDatabase,
    DropPartitions,
    DropTable,
    RenameTable,
    SessionOption,
    Show,
    SqlQuery,
    Statement,
    TruncateTable,
    Use,
    View,
)

_FIRST = "default_catalog"
# Session options that SQL acts on, in small letters, with the values that are possible.
_OPTIONS = {
    "spark.sql.sources.partitionoverwritemode": ("static", "dynamic"),
    "execution.runtime-mode": ("batch",),
}
# Options that scripts for Flink and Spark set and that mean nothing here. They are accepted so that such scripts
# run.
_OTHER_ENGINES = ("execution.", "sql-client.", "pipeline.", "parallelism.", "table.", "state.", "rest.", "spark.sql.")


class Interpreter:
    """Runs SQL statements on a warehouse.

    It keeps the current database, session options and temporary views between statements. Each statement reads its
    tables at one snapshot, and writes in one commit.
    """

    def __init__(self, catalog: Catalog | None = None, database: str | None = None) -> None:
        """Begin on a catalog, or without one, for a script that opens it by CREATE CATALOG."""
        self._context = SqlContext()
        if catalog is not None:
            self._context.open(_FIRST, catalog, database)
            self._context.use_catalog(_FIRST)

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    def run(self, script: str) -> Iterator[pa.Table]:
        """Run the statements of a script, and yield the result of each one.

        An error names the line and the column of its statement; what earlier statements did remains.
        """
        for part in script_parts(script):
            try:
                yield self._run(part)
            except PenstockError as error:
                # The grammar knows the exact place; other errors get the place of their statement. The fact
                # `column` may already be the name of a column of the table.
                if "line" not in error.facts:
                    column = "column of the line" if "column" in error.facts else "column"
                    error.facts |= {"line": part.place.line, column: part.place.column}
                raise

    def _run(self, part: ScriptPart) -> pa.Table:
        statement = read_statement(part.text, part.place.line, part.place.column)
        # A script without a warehouse has no catalog, and no DuckDB, before its CREATE CATALOG.
        if self._context.has_catalog:
            self._context.session.begin(part)
        return self._result(statement)

    def _result(self, statement: Statement) -> pa.Table:
        context = self._context
        match statement:
            case SqlQuery():
                return context.session.query(statement.text)
            case View():
                context.session.run_view(statement)
                return done()
            case Insert():
                return insert(context, statement)
            case Update():
                return update(context, statement)
            case Delete():
                return delete(context, statement)
            case Merge():
                return merge(context, statement)
            case CallProcedure():
                return call(context, statement)
            case Show():
                return show(context, statement)
            case Describe():
                return describe(context, statement)
            case Use():
                return self._use(statement)
            case SessionOption():
                return self._set(statement)
            case Analyze():
                context.table(statement.name).analyze(statement.columns)
                return done()
        return self._defined(statement)

    def _defined(self, statement: Statement) -> pa.Table:
        context = self._context
        match statement:
            case CreateCatalog():
                return self._create_catalog(statement)
            case DropCatalog():
                if not (statement.if_exists and statement.name not in context.opened):
                    context.drop_catalog(statement.name)
                return done()
            case CreateDatabase():
                return definitions.create_database(context, statement)
            case DropDatabase():
                return definitions.drop_database(context, statement)
            case CreateTable() if statement.query is not None:
                return create_table_as(context, statement)
            case CreateTable():
                return definitions.create_table(context, statement)
            case DropTable():
                return definitions.drop_table(context, statement)
            case RenameTable():
                return definitions.rename_table(context, statement)
            case AlterTable():
                return definitions.alter_table(context, statement)
            case DropPartitions():
                return definitions.drop_partitions(context, statement)
            case TruncateTable():
                return definitions.truncate_table(context, statement)
        raise AssertionError(statement)

    def _create_catalog(self, statement: CreateCatalog) -> pa.Table:
        if statement.name in self._context.opened:
            if statement.if_not_exists:
                return done()
            raise ConfigError(f"the catalog {statement.name!r} exists already", hint="DROP CATALOG, or another name")
        options = dict(statement.options)
        database = options.pop("default-database", "default")
        catalog = Catalog(options.pop("warehouse"), options)
        catalog.create_database(database, ignore_if_exists=True)  # as Paimon's catalogs of Flink and Spark do
        self._context.open(statement.name, catalog, database)
        return done()

    def _use(self, statement: Use) -> pa.Table:
        context = self._context
        catalog, database = statement.catalog, statement.database
        if catalog is None and database in context.opened and not self._has_database(database):
            catalog, database = database, None  # `USE c` names a catalog in Spark
        current = context.current if catalog is None else context.known(catalog)
        if database is not None:
            current.use(database)
        context.use_catalog(current.name)
        return done()

    def _has_database(self, name: str) -> bool:
        return self._context.has_catalog and self._context.catalog.backend.has_database(name)

    def _set(self, option: SessionOption) -> pa.Table:
        if option.key is None:
            self._context.options.clear()
            return done()
        key = option.key.lower()
        if option.value is None:
            self._context.options.pop(key, None)
            return done()
        possible = _OPTIONS.get(key)
        if possible is None and key.startswith(_OTHER_ENGINES):
            return pa.table({"result": [f"{option.key} has no effect here"]})
        if possible is None:
            hint = "options of one read or write: t /*+ OPTIONS('key' = 'value') */"
            raise ConfigError(f"the session option {option.key!r} is not supported", hint=hint)
        if option.value.lower() not in possible:
            raise ConfigError(
                f"{option.key} = {option.value!r} is not supported here", hint=f"it can be {' or '.join(possible)}"
            )
        self._context.options[key] = option.value.lower()
        return done()


def sql(
    script: str,
    warehouse: str | PathLike[str] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    database: str | None = None,
) -> pa.Table:
    """Run SQL statements on the tables of a warehouse, and return the rows of the last one.

    Without `warehouse`, a script opens one by CREATE CATALOG. `options` are those of the catalog; `database` is the
    database of names without one. A statement that returns no rows returns a table with its result: the number of
    changed rows and the snapshot, or OK.
    """
    with Interpreter(None if warehouse is None else Catalog(warehouse, options), database) as interpreter:
        result = None
        for table in interpreter.run(script):
            result = table
    if result is None:
        raise ConfigError("the SQL contains no statement", hint='penstock.sql("SELECT * FROM db.t", warehouse=...)')
    return result
