"""SQL over the tables of a warehouse without Spark: statements of Flink's and Spark's dialects, one after the other."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice
from os import PathLike
from threading import Event

import pyarrow as pa

from penstock.errors import ConfigError, PenstockError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.ddl import definitions, view_statements
from penstock.table.sql.ddl.connector_tables import create_connector_table
from penstock.table.sql.ddl.replacements import replace_table
from penstock.table.sql.ddl.tag_statements import alter_tag
from penstock.table.sql.dml.inserts import create_table_as, insert
from penstock.table.sql.dml.merges import merge
from penstock.table.sql.dml.update_and_delete import delete, update
from penstock.table.sql.grammar.row_statements import Delete, Insert, Merge, Update
from penstock.table.sql.grammar.scripts import ScriptPart, script_parts
from penstock.table.sql.grammar.session_statements import (
    CreateCatalog,
    DropCatalog,
    SessionOption,
    StatementSet,
    StatementSetEnd,
    Use,
    View,
)
from penstock.table.sql.grammar.statement_grammar import read_statement
from penstock.table.sql.grammar.statements import (
    AlterDatabase,
    CallProcedure,
    CreateDatabase,
    Describe,
    DropDatabase,
    Show,
    SqlQuery,
    Statement,
)
from penstock.table.sql.grammar.table_statements import (
    AlterTable,
    Analyze,
    CreateTable,
    CreateTag,
    CreateView,
    DeleteTag,
    DropPartitions,
    DropTable,
    DropView,
    RenameTable,
    RenameTag,
    RenameView,
    TruncateTable,
)
from penstock.table.sql.listings import describe, show
from penstock.table.sql.procedures.procedure_calls import call
from penstock.table.sql.queries.context import SqlContext, done
from penstock.table.sql.session_options import set_option
from penstock.table.sql.streams.script_streams import Streams
from penstock.table.sql.word_completion import Completions, completions

_FIRST = "default_catalog"


class Interpreter:
    """Runs SQL statements on a warehouse.

    It keeps the current database, session options and temporary views between statements. Each statement reads its
    tables at one snapshot, and writes in one commit.
    """

    def __init__(
        self,
        catalog: Catalog | None = None,
        database: str | None = None,
        *,
        until_caught_up: bool = False,
        stop: Event | None = None,
    ) -> None:
        """Begin on a catalog, or without one, for a script that opens it by CREATE CATALOG.

        Streams run until `stop`, or with `until_caught_up` until they have processed the changes that exist at their
        start.
        """
        self._context = SqlContext()
        self._streams = Streams(self._context, until_caught_up, stop or Event())
        if catalog is not None:
            self._context.open(_FIRST, catalog, database)
            self._context.use_catalog(_FIRST)

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    @property
    def is_streaming(self) -> bool:
        """Return whether streams are running."""
        return self._streams.are_running

    @property
    def database(self) -> str | None:
        """Return the current database."""
        return self._context.database if self._context.has_catalog else None

    def completions(self, text: str) -> Completions:
        """Return the words that may be typed next."""
        return completions(self._context, text)

    def run(self, script: str, *, ends: bool = True) -> Generator[pa.Table, None, None]:
        """Run the statements of a script, and yield the result of each one.

        Streams run together after the last statement. An error names the line and the column of its statement; what
        earlier statements did remains. If the script does not end here, a statement set may go on in the next call.
        """
        parts = list(script_parts(script))
        for number, part in enumerate(parts):
            try:
                yield from self._run(part, islice(parts, number + 1, None) if ends else None)
            except PenstockError as error:
                # The grammar knows the exact place; other errors get the place of their statement.
                part.locate(error)
                raise
        yield from self._streams.run(ends=ends)

    def last_result(self, script: str) -> pa.Table | None:
        """Run a script, and return the rows of its last statement."""
        return self._streams.last_of(self.run(script))

    def _run(self, part: ScriptPart, following: Iterable[ScriptPart] | None = None) -> Iterator[pa.Table]:
        """Run a statement; `following` are those after it, or None if statements of later calls may follow."""
        statement = read_statement(part.text, part.place.line, part.place.column)
        # A script without a warehouse has no catalog, and no DuckDB, before its CREATE CATALOG.
        if self._context.has_catalog:
            self._context.session.begin(part)
        if isinstance(statement, StatementSet):
            self._streams.open_set(part, following)
            if statement.place is not None:
                yield from self._run(ScriptPart(statement.first, statement.place))
        elif isinstance(statement, StatementSetEnd):
            yield from self._streams.close_set()
        elif self._streams.reads(statement):
            yield from self._streams.add(part, statement)
        else:
            self._streams.check(part, statement)
            yield self._result(statement)

    def _result(self, statement: Statement) -> pa.Table:
        context = self._context
        match statement:
            case SqlQuery():
                return context.session.query(statement.text)
            case View() if statement.or_kept and statement.name.lower() not in context.session.views:
                return view_statements.drop_view(context, DropView((statement.name,), not statement.must_exist))
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
                return set_option(context, statement)
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
            case AlterDatabase():
                return definitions.alter_database(context, statement)
            case DropDatabase():
                return definitions.drop_database(context, statement)
            case CreateTable() if statement.connector is not None:
                return create_connector_table(context, statement)
            case CreateTable() if statement.replaces is not None:
                return replace_table(context, statement)
            case CreateTable() if statement.path is not None:
                return definitions.add_table(context, statement, statement.path)
            case CreateTable() if statement.query is not None:
                return create_table_as(context, statement)
            case CreateTable():
                return definitions.create_table(context, statement)
            case DropTable():
                return definitions.drop_table(context, statement)
            case CreateView():
                return view_statements.create_view(context, statement)
            case RenameView():
                return view_statements.rename_view(context, statement)
            case DropView():
                return view_statements.drop_view(context, statement)
            case RenameTable():
                return definitions.rename_table(context, statement)
            case AlterTable():
                return definitions.alter_table(context, statement)
            case CreateTag() | DeleteTag() | RenameTag():
                alter_tag(context.table(statement.name), statement)
                return done()
            case DropPartitions():
                return definitions.drop_partitions(context, statement)
            case TruncateTable():
                return definitions.truncate_table(context, statement)
        raise AssertionError(statement)

    def _create_catalog(self, statement: CreateCatalog) -> pa.Table:
        if statement.name in self._context.opened:
            if statement.if_not_exists:
                return done()
            raise ConfigError(
                f"the catalog {statement.name!r} exists already", hint="DROP CATALOG first, or choose another name"
            )
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


def sql(
    script: str,
    warehouse: str | PathLike[str] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    database: str | None = None,
    until_caught_up: bool = False,
) -> pa.Table:
    """Run SQL statements on the tables of a warehouse, and return the rows of the last one.

    Without `warehouse`, a script opens one by CREATE CATALOG. `options` open the catalog; `database` is the database of
    names without one. Streams run until they are interrupted, or with `until_caught_up` until they have processed the
    changes that exist at their start. A statement that returns no rows returns a table with its result: the number of
    changed rows and the snapshot, or OK.
    """
    catalog = None if warehouse is None else Catalog(warehouse, options)
    with Interpreter(catalog, database, until_caught_up=until_caught_up) as interpreter:
        result = interpreter.last_result(script)
    if result is None:
        raise ConfigError("the SQL contains no statement", hint='penstock.sql("SELECT * FROM db.t", warehouse=...)')
    return result
