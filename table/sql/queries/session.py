"""Queries of SQL on the tables of a warehouse, by DuckDB, which pushes columns and filters down into scans."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.table.catalog.base import split_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.meta.snapshot import Snapshot
from penstock.table.read.lazy_dataset import Rows
from penstock.table.sql.grammar.lookup_clauses import refuse_lookup_hints
from penstock.table.sql.grammar.mentions import Mention, common_names, mentions
from penstock.table.sql.grammar.scripts import ScriptPart
from penstock.table.sql.grammar.session_statements import View
from penstock.table.sql.grammar.tokens import SqlToken, duck_text, tokens_of
from penstock.table.sql.queries.computed_columns import computed_hint
from penstock.table.sql.queries.engine_errors import (
    engine_error,
    missing_table,
    missing_view,
    no_information_schema,
    unknown_name,
    view_of_itself,
)
from penstock.table.sql.queries.interruption import interruptible
from penstock.table.sql.queries.newest_partitions import newest_partition, newest_partitions
from penstock.table.sql.queries.session_tables import SessionTables
from penstock.table.sql.queries.table_rows import TableRows
from penstock.table.sql.queries.temporary_views import TemporaryView, TemporaryViews
from penstock.table.sql.queries.variant_reads import refuse_members, variant_columns
from penstock.table.sql.queries.view_queries import ViewQueries
from penstock.table.values.optional import duckdb_module
from penstock.table.values.sql_text import quoted

_FEW_COLUMNS = 200


class Session:
    """A DuckDB session in which the warehouse's tables can be queried by name.

    A table has the rows of its newest snapshot when it is first mentioned; views persist until the session ends.
    """

    def __init__(
        self,
        catalog: Catalog,
        database: str | None = None,
        catalog_name: str | None = None,
        read_options: Mapping[str, str] | None = None,
    ) -> None:
        """Open a session with a default database.

        `read_options` are those of the session for reads of its tables; they may change between statements.
        """
        self._catalog = catalog
        self._duckdb = duckdb_module()
        self._connection = self._duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        # Names that are no tables would be looked for among the variables of this module.
        self._connection.execute("SET python_enable_replacements = false")
        # DuckDB's own returns `memory`, the name of its database: the warehouse's databases are its schemas.
        self._connection.execute("CREATE TEMP MACRO current_database() AS current_schema()")
        self._rows = TableRows(catalog, catalog_name or "", {} if read_options is None else read_options)
        self._view_queries = ViewQueries(catalog, self._connection)
        self._tables = SessionTables(catalog, catalog_name, self._rows, self._connection, self._create_kept_view)
        self._statement: ScriptPart | None = None
        self._views = TemporaryViews()
        if database is not None:
            self.use(database)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the session, with its views."""
        self._connection.close()

    def query(self, sql: str) -> pa.Table:
        """Return the rows of one statement. ConfigError with DuckDB's message when DuckDB rejects it."""
        prepared = self.prepared(sql)
        with self._errors_of(sql):
            rows: pa.Table = interruptible(self._connection, lambda: self._connection.sql(prepared).to_arrow_table())
            return rows

    def begin(self, statement: ScriptPart) -> None:
        """Begin a statement: it reads the tables at their newest snapshots, and its errors name their place."""
        self._statement, self._rows.failure = statement, None
        self._tables.forget()

    def run_view(self, view: View) -> None:
        """Create or drop a temporary view, which hides a table of its name.

        Its tables are read at the newest snapshot of each statement.
        """
        if view.dropped and view.must_exist and view.name not in self._views:
            raise missing_view(view.name, self.views, is_table=self.place((view.name,)) is not None)
        if view.unless_exists and view.name in self._views:
            return
        # Before the view hides a table of its name.
        reads = self.reads_tables(tokens_of(view.text))
        if view.dropped:
            self.run(view.text)
            self._views.remove(view.name)
            return
        variants = self._create_view(view)
        # Statements that name the view register its tables again. Datasets with options stay registered.
        self._views.add(view.name, TemporaryView(reads, self._tables.known, variants))
        self._tables.keep_options()

    def _create_view(self, view: View) -> set[str]:
        """Create or replace a view, and return the names of its VARIANT columns.

        ConfigError for one that would read itself: the former view remains.
        """
        prepared = self.prepared(view.text)
        with self._errors_of(view.text), self._whole_or_not():
            self._connection.execute(prepared)
            # DuckDB creates a view that reads itself, and refuses to describe it. Only DuckDB knows: the views that it
            # reads may have been replaced, and a common table expression may have its name.
            try:
                return variant_columns(self._connection, quoted(view.name))
            except self._duckdb.BinderException as reason:
                raise view_of_itself(view.name, reason) from reason

    def _create_kept_view(self, place: tuple[str, str]) -> None:
        with self._names_of_kept_view(place[0]):
            self._view_queries.create(place, self.prepared)

    @contextmanager
    def _names_of_kept_view(self, database: str) -> Iterator[None]:
        """Read names as the query of a kept view means them: in its database, and without the script's views."""
        outside, self._tables.database = self._tables.database, database
        try:
            with self._views.hidden():
                yield
        finally:
            self._tables.database = outside

    @contextmanager
    def _whole_or_not(self) -> Iterator[None]:
        self._connection.begin()
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def read_options(self, place: tuple[str, str]) -> dict[str, str]:
        """Return the options that the session sets for reads of a table, given as its database and its name."""
        return self._rows.session_reads(place)

    @property
    def views(self) -> list[str]:
        """Return the names of the temporary views."""
        return self._views.names

    def names_view(self, mention: Mention) -> bool:
        """Return whether a name is a temporary view."""
        return len(mention.names) == 1 and mention.names[0] in self._views

    def reads_tables(self, tokens: Sequence[SqlToken]) -> bool:
        """Return whether a query names a table of the warehouse, or a temporary view that does."""
        return any(
            self._views[mention.names[0]].reads_tables
            if self.names_view(mention)
            else self.place(mention.names) is not None
            for mention in mentions(tokens)
        )

    def reads_newest(self, sql: str, place: tuple[str, str]) -> bool:
        """Return whether a query reads the newest rows of a table or of its branch, also by a view or system table."""
        tokens = tokens_of(sql)
        named = [found for mention in mentions(tokens) if (found := self.place(mention.names)) is not None]
        if any(self._tables.is_view(found) and self._view_reads_newest(found, place) for found in named):
            return True
        reads = [(found, mention.options) for mention in mentions(tokens) if (found := self.place(mention.names))]
        reads += [(found, {}) for view in self._views.named_in(tokens) for found in view.places]
        return any(self._rows.reads_newest(place, found, given) for found, given in reads)

    def _view_reads_newest(self, view: tuple[str, str], place: tuple[str, str]) -> bool:
        with self._names_of_kept_view(view[0]), self._view_queries.entered(".".join(view)) as query:
            return self.reads_newest(query, place)

    def use(self, database: str) -> None:
        """Make a database the default."""
        self._tables.database = database
        self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(database)}; USE {quoted(database)}")

    def types_of(self, schema: pa.Schema) -> list[str]:
        """Return the names of DuckDB's types for the columns of a table."""
        return [str(type_) for type_ in self._connection.from_arrow(schema.empty_table()).types]

    def columns_of(self, sql: str) -> tuple[list[str], pa.Schema]:
        """Return the names and Arrow types of a query's columns, without running it."""
        prepared = self.prepared(sql)
        with self._errors_of(sql):
            rows = self._connection.sql(f"SELECT * FROM ({prepared}) LIMIT 0").to_arrow_table()
            return list(self._connection.sql(prepared).columns), rows.schema

    def columns_of_view(self, view: str, sql: str) -> tuple[list[str], pa.Schema]:
        """Return the columns of the query of a view to create, `database.view`, which must not read itself."""
        with self._names_of_kept_view(split_name(view)[0]), self._view_queries.creating(view):
            return self.columns_of(sql)

    def bound(self, threads: int | None, folder: str) -> None:
        """Limit the threads (None: one per core), and name the folder that DuckDB writes to when memory is short."""
        if threads is not None:
            self._connection.execute(f"SET threads = {threads}")
        self._connection.execute("SET temp_directory = '{}'".format(folder.replace("'", "''")))

    def run(self, sql: str) -> None:
        """Run a statement for its effect inside this session, such as creating a view or a temporary table."""
        prepared = self.prepared(sql)
        with self._errors_of(sql):
            interruptible(self._connection, lambda: self._connection.execute(prepared))

    def run_cases(self, sql: str, columns: int) -> None:
        """Run a statement that decides by one condition about the values of so many columns.

        DuckDB repeats what it derives from the condition in each column, in a time that grows with their square.
        """
        if columns <= _FEW_COLUMNS:
            self.run(sql)
            return
        self._connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        try:
            self.run(sql)
        finally:
            self._connection.execute("RESET disabled_optimizers")

    def batches(self, sql: str) -> Generator[pa.RecordBatch]:
        """Yield the rows of a statement, batch by batch."""
        return self.prepared_batches(self.prepared(sql))

    def prepared_batches(self, prepared: str) -> Generator[pa.RecordBatch]:
        """Yield the rows of a statement that is in DuckDB's dialect, batch by batch."""
        try:
            begin = partial(self._connection.sql(prepared).to_arrow_reader, 65536)
            # Closed at once: the connection begins no other query while a result is open.
            with interruptible(self._connection, begin, pa.RecordBatchReader.close) as reader:
                while (batch := interruptible(self._connection, partial(next, reader, None))) is not None:
                    yield batch
        except (self._duckdb.Error, pa.ArrowException, OSError) as reason:
            raise self._refused(prepared, reason) from reason

    def register(self, name: str, rows: pa.Table) -> None:
        """Make an Arrow table available under a name."""
        self._connection.register(name, rows)

    def register_rows(self, name: str, schema: pa.Schema, rows: Rows) -> None:
        """Make rows that are read when a query asks for them available under a name."""
        self._connection.register(name, self._rows.dataset(schema, rows))

    def pin(self, name: str, snapshot: Snapshot | None) -> None:
        """Read a table (`database.table`) at a snapshot in the current statement."""
        self._tables.pin(split_name(name), snapshot)

    def prepared(self, sql: str) -> str:
        """Return the statement in DuckDB's dialect, after registering every table it mentions."""
        tokens = tokens_of(newest_partitions(sql.strip().rstrip(";"), self._newest_partition))
        refuse_lookup_hints(tokens)
        self._know_tables_of_views(tokens)
        parts: list[str] = []
        done, common = 0, common_names(tokens)
        for mention in mentions(tokens):
            place = self.place(mention.names)
            short = mention.names[0].lower() if len(mention.names) == 1 and not mention.options else None
            if place is None and mention.names[0].lower() == "information_schema":
                raise no_information_schema()
            if place is None and (mention.is_call or self._is_surely_missing(mention, common)):
                raise missing_table(self._catalog, ".".join(mention.names), sql, self._statement)
            if place is None or (short is not None and short in self._views):
                continue
            if short in common:
                # DuckDB decides whether the name is the table or the common table expression there.
                self._tables.know_once(place)
                continue
            parts.append(duck_text(tokens[done : mention.start]))
            parts.append(self._tables.named(place, mention, tokens))
            done = mention.end
        if self._tables.variants:
            refuse_members(tokens, self._tables.variants)
        return "".join(parts) + duck_text(tokens[done:])

    def _is_surely_missing(self, mention: Mention, common: Collection[str]) -> bool:
        """Return whether an unknown name is a table's in a form that DuckDB cannot parse, and would not report."""
        # `FOR VERSION AS OF` and hints belong to tables; `default` is a keyword of DuckDB.
        name = mention.names[0].lower()
        travels = mention.options and len(mention.names) == 1 and name not in common and not self.names_view(mention)
        return bool(travels) or (len(mention.names) > 1 and (bool(mention.options) or name == "default"))

    def place(self, names: Sequence[str]) -> tuple[str, str] | None:
        """Return (database, table) when such a table exists; the table's name includes its `$` parts."""
        return self._tables.place(names)

    def _newest_partition(self, name: str) -> str | None:
        place = self.place(name.split("."))
        if place is None:
            raise missing_table(self._catalog, name, name, self._statement)
        return newest_partition(self._catalog.table(".".join(place)))

    def _know_tables_of_views(self, tokens: Sequence[SqlToken]) -> None:
        """Register the tables that the views in a statement read. It does not name them itself."""
        for view in self._views.named_in(tokens):
            self._tables.variants.update(view.variants)
            for place in view.places:
                if self.place(place) is not None:
                    self._tables.know_once(place)

    @contextmanager
    def _errors_of(self, sql: str) -> Iterator[None]:
        try:
            yield
        except self._duckdb.Error as reason:
            raise self._refused(sql, reason) from reason

    def _refused(self, sql: str, reason: Exception) -> PenstockError | OSError:
        """Return the error for a statement that DuckDB refused, or while it read a table."""
        if self._rows.failure is not None:
            return self._rows.failure
        if isinstance(reason, self._duckdb.CatalogException):
            unknown = (
                ".".join(mention.names)
                for mention in mentions(tokens_of(sql))
                if self.place(mention.names) is None and not self.names_view(mention)
            )
            # DuckDB names the table alone, or with its schema.
            if (name := next((full for full in unknown if full.rpartition(".")[2] in str(reason)), None)) is not None:
                return missing_table(self._catalog, name, sql, self._statement)
        error = engine_error(self._statement, sql, reason)
        places = (self.place(mention.names) for mention in mentions(tokens_of(sql)))
        computed = computed_hint(self._catalog, filter(None, places), unknown_name(str(reason)))
        error.hint = computed or error.hint
        return error
