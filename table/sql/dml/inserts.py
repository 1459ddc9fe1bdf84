"""INSERT INTO, INSERT OVERWRITE and CREATE TABLE AS: rows of a query, cast to the columns of a table, in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.table.catalog.base import on_branch, split_name
from penstock.table.errors import RowsUnread
from penstock.table.handle import Table
from penstock.table.meta.snapshot import Base
from penstock.table.operations.changed_files import repeated
from penstock.table.operations.overwrite import OverwriteWriter
from penstock.table.operations.write import TableWriter
from penstock.table.options.partitions import DYNAMIC_PARTITION_OVERWRITE
from penstock.table.sql.dml.store_assignment import assigned_text
from penstock.table.sql.grammar.row_statements import Insert
from penstock.table.sql.grammar.table_statements import CreateTable
from penstock.table.sql.queries.context import SqlContext, done
from penstock.table.values.arrow_types import NO_ID, arrow_schema, from_arrow, with_variants
from penstock.table.values.sql_text import quoted
from penstock.table.values.types import Field

# Of partitions that the query does not see at all, and of those that it replaces.
_COMPACTIONS = 2
_OVERWRITE_MODE = "spark.sql.sources.partitionoverwritemode"


def changed_rows(inserted: int = 0, updated: int = 0, deleted: int | None = 0, snapshot: int | None = None) -> pa.Table:
    """Return the result of a statement that changes rows."""
    numbers = {"inserted": inserted, "updated": updated, "deleted": deleted, "snapshot": snapshot}
    return pa.table({name: pa.array([number], pa.int64()) for name, number in numbers.items()})


def insert(context: SqlContext, statement: Insert) -> pa.Table:
    """Run INSERT, an OVERWRITE of a table with rows of its own again when another job changed them meanwhile."""
    if statement.overwrite:
        database, name = split_name(context.full_name(statement.name))
        name, options = on_branch(name, statement.options)
        if context.session.reads_newest(statement.query, (database, name)):
            own = replace(statement, name=(database, name), options=options)
            return repeated(lambda: _of_itself(context, own))
    return _insert(context, statement)


def _of_itself(context: SqlContext, statement: Insert) -> pa.Table:
    """Overwrite a table with rows of its own. Those that wait for a compaction are compacted before they are read."""
    for _ in range(_COMPACTIONS):
        try:
            return _insert(context, statement, of_itself=True)
        except RowsUnread as waiting:
            partitioned = any(waiting.partitions)
            context.table(statement.name).compact(full=False, partitions=waiting.partitions if partitioned else None)
    return _insert(context, statement, of_itself=True)


def _insert(context: SqlContext, statement: Insert, *, of_itself: bool = False) -> pa.Table:
    table = context.table(statement.name)
    base: Base = None
    if of_itself:
        # It would delete the rows that another job commits after the query has chosen its snapshot.
        newest = table.latest_snapshot
        base = newest or "empty"
        context.session.pin(context.full_name(statement.name), newest)
    # Opened before the query chooses the snapshots that it reads: its commit finds what other jobs wrote since.
    with _writer(context, table, statement, base) as writer:
        if isinstance(writer, OverwriteWriter):
            writer.refuse_unseen_partitions()
        query = _typed_query(context, table, statement)
        rows = 0
        for batch in context.session.prepared_batches(query):
            writer.write(batch)
            rows += batch.num_rows
        # An overwrite without rows can still empty partitions; an insert without rows changes nothing.
        snapshots = writer.commit() if rows or statement.overwrite else []
    return changed_rows(inserted=rows, snapshot=snapshots[0].id if snapshots else None)


def _writer(context: SqlContext, table: Table, statement: Insert, base: Base) -> TableWriter:
    if not statement.overwrite:
        return table.writer(options=statement.options)
    partition = _partition_values(context, table, statement.partition)
    options = dict(statement.options)
    mode = context.options.get(_OVERWRITE_MODE)
    if mode is not None:
        # The option of SET applies unless the statement itself has the table option.
        options.setdefault(DYNAMIC_PARTITION_OVERWRITE.key, str(mode.lower() == "dynamic").lower())
    return table.overwrite(partition or None, options=options, base=base)


def _partition_values(context: SqlContext, table: Table, partition: Mapping[str, str | None]) -> dict[str, object]:
    """Return the values of PARTITION that are fixed."""
    fields = {field.name: field for field in table.definition.fields}
    unknown = [name for name in partition if name not in table.partition_keys]
    if unknown:
        raise ConfigError(
            f"{unknown[0]!r} is not a partition column",
            table=table.name,
            columns=", ".join(table.partition_keys),
            hint="write other columns into the list of columns: INSERT INTO t PARTITION (...) (a, b) ...",
        )
    values = {}
    for name, text in partition.items():
        if text is not None:
            [type_] = context.session.types_of(arrow_schema([fields[name]]))
            _, given = context.session.columns_of(f"SELECT ({text}) AS value")
            value = assigned_text(table.name, f"({text})", fields[name], type_, given.types[0])
            found = context.session.query(f"SELECT {value} AS value")["value"][0]
            # A text is a value here, not the name of a partition: the name of the default partition is null.
            values[name] = found if pa.types.is_string(found.type) and found.is_valid else found.as_py()
    return values


def _typed_query(context: SqlContext, table: Table, statement: Insert) -> str:
    """Return the query, prepared for DuckDB, with the names and types of the table's columns."""
    given, schema = context.session.columns_of(statement.query)
    columns = typed_columns(context, table, statement, given, schema.types)
    # A query may have two columns of the same name, so its columns are numbered and referred to by number.
    aliases = ", ".join(f"c{number}" for number in range(len(given)))
    return f"SELECT {', '.join(columns.values())} FROM ({context.session.prepared(statement.query)}) AS q({aliases})"


def typed_columns(
    context: SqlContext, table: Table, statement: Insert, given: Sequence[str], given_types: Sequence[pa.DataType]
) -> dict[str, str]:
    """Return the SQL for each column that is written, by its name.

    `given` are the names of the query's columns. The SQL refers to them as `q.c0`, `q.c1` and so on.
    """
    fixed = {name: text for name, text in statement.partition.items() if text is not None}
    # Only for its checks; the values become columns of the query below.
    _partition_values(context, table, fixed)
    names = target_names(table, statement, given, fixed)
    sources = {name: f"q.c{number}" for number, name in enumerate(names)}
    type_of = dict(zip(names, given_types, strict=True))
    sources |= {name: f"({text})" for name, text in fixed.items()}
    fields = [field for field in table.definition.fields if field.name in sources]
    types = context.session.types_of(arrow_schema(fields))
    return {
        field.name: f"{assigned_text(table.name, sources[field.name], field, type_, type_of.get(field.name))}"
        f" AS {quoted(field.name)}"
        for field, type_ in zip(fields, types, strict=True)
    }


def target_names(table: Table, statement: Insert, given: Sequence[str], fixed: Mapping[str, str]) -> list[str]:
    """Return the columns of the table that the columns of the query are written to."""
    names = [field.name for field in table.definition.fields]
    if statement.by_name:
        targets = [own_name(table, name) for name in given]
    elif statement.columns is not None:
        targets = [own_name(table, name) for name in statement.columns]
    else:
        # Flink and Spark expect the columns of PARTITION without a value at the end.
        free = [name for name in statement.partition if name not in fixed]
        targets = [name for name in names if name not in statement.partition] + free
    doubled = [name for name in targets if targets.count(name) > 1 or name in fixed]
    if doubled:
        raise ConfigError(
            f"the column {doubled[0]!r} is written twice",
            table=table.name,
            hint="name the column once, in the list or in PARTITION",
        )
    if len(targets) != len(given):
        raise ConfigError(
            f"{len(given)} values are inserted into {len(targets)} columns",
            table=table.name,
            columns=", ".join(targets),
            hint="INSERT INTO t (a, b) names the columns",
        )
    return targets


def own_name(table: Table, name: str) -> str:
    """Return the table's column for a name in a statement, which may differ in case."""
    names = [field.name for field in table.definition.fields]
    if name in names:
        return name
    alike = [candidate for candidate in names if candidate.lower() == name.lower()]
    if len(alike) != 1:
        raise ConfigError(
            f"the table has no column {name!r}",
            table=table.name,
            columns=", ".join(names),
            hint=did_you_mean(name, names, "name a column of the table"),
        )
    return alike[0]


def create_table_as(context: SqlContext, statement: CreateTable) -> pa.Table:
    """Run CREATE TABLE AS. A table whose rows cannot be written is dropped again."""
    name, query = context.full_name(statement.name), statement.query or ""
    if statement.if_not_exists and context.catalog.table_exists(name):
        return done()
    _, schema = context.session.columns_of(query)
    columns = tuple(query_columns(schema))
    context.catalog.create_table(
        name, columns, statement.keys, statement.partitions, dict(statement.options), statement.comment
    )
    written = False
    try:
        result = insert(context, Insert(tuple(name.split(".", 1)), query))
        written = True
        return result
    finally:
        if not written:
            context.catalog.drop_table(name)


def query_columns(schema: pa.Schema) -> Iterator[Field]:
    """Yield the columns of a query, in the types that a table of its rows has."""
    for field in schema:
        if pa.types.is_null(field.type):
            raise ConfigError(f"the column {field.name!r} has no type", hint=f"CAST(... AS VARCHAR) AS {field.name}")
        yield Field(NO_ID, field.name, from_arrow(with_variants(field.type), nullable=True))
