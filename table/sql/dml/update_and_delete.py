"""UPDATE and DELETE: one query returns the old and the new rows, and one commit writes them with their kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER
from penstock.table.catalog.base import split_name
from penstock.table.handle import Table
from penstock.table.operations.changed_files import repeated
from penstock.table.operations.delete import check_deletable
from penstock.table.operations.row_changes import RowChanges
from penstock.table.operations.waiting_rows import compact_waiting_rows
from penstock.table.operations.write import TableWriter
from penstock.table.sql.dml.assigned_values import assigned_values
from penstock.table.sql.dml.inserts import changed_rows
from penstock.table.sql.dml.keyless_changes import KeylessChange, new_column, place_columns
from penstock.table.sql.dml.store_assignment import assigned_text
from penstock.table.sql.dml.update_rules import check_newest_rows, check_updatable
from penstock.table.sql.grammar.row_statements import Assignments, Delete, Update
from penstock.table.sql.grammar.tokens import SqlToken, tokens_of
from penstock.table.sql.queries.context import SqlContext
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.sql_text import quoted

_ASKED = "_penstock_asked"


def write_changes(
    context: SqlContext, table: Table, writer: TableWriter, sql: str, *, refuses_older: bool = False
) -> pa.Table:
    """Write the changes that a query returns, in one commit.

    The writer was opened before anything of the query was read, so that its commit finds the rows of other jobs.
    """
    changes = RowChanges(table.definition, table.name, refuses_older=refuses_older)
    for batch in context.session.batches(sql):
        changes.write(writer, batch)
    snapshots = writer.commit() if any(changes.counts.values()) else []
    counts = changes.counts
    snapshot = snapshots[0].id if snapshots else None
    return changed_rows(counts[INSERT], counts[UPDATE_AFTER], counts[DELETE], snapshot)


def changing_writer(table: Table) -> TableWriter:
    """Return the writer of rows that are computed from those of the table, which are read afterwards."""
    return table.writer(base=table.refresh().latest_snapshot or "empty")


def target_text(context: SqlContext, names: Sequence[str]) -> str:
    """Return the table in quotes, with its database, which the statement reads at its newest snapshot.

    Its writer must be open already: a commit in between would be neither read nor found as a conflict.
    """
    # The options of the session may name an older one, whose rows would come back.
    context.session.pin(context.full_name(names), context.table(names).latest_snapshot)
    return own_text(context, names)


def own_text(context: SqlContext, names: Sequence[str]) -> str:
    """Return the table in quotes, with its database."""
    return ".".join(map(quoted, split_name(context.full_name(names))))


def update(context: SqlContext, statement: Update) -> pa.Table:
    """Run UPDATE, again when another job committed to the same buckets."""
    return repeated(lambda: _update(context, statement))


def _update(context: SqlContext, statement: Update) -> pa.Table:
    table = context.table(statement.name)
    check_updatable(table, "UPDATE", [path[0] for path, _ in statement.assignments])
    alias = quoted(statement.alias or statement.name[-1])
    old = ", ".join(f"{alias}.{quoted(field.name)}" for field in table.definition.fields)
    where = f" WHERE {statement.where}" if statement.where else ""
    if not table.primary_keys:
        return _replace(context, table, statement, where)
    compact_waiting_rows(table.scan().store, _pruning(context, table, alias, statement.where))
    with changing_writer(table) as writer:
        target = target_text(context, statement.name)
        new = new_values(context, table, f"{target} AS {alias}{where}", alias, statement.assignments)
        # The kind, all old values and all new values: RowChanges reads the columns by their position.
        query = f"SELECT {UPDATE_AFTER}, {old}, {', '.join(new)} FROM {target} AS {alias}{where}"
        return write_changes(context, table, writer, query, refuses_older=True)


def _pruning(context: SqlContext, table: Table, alias: str, where: str | None) -> pc.Expression | None:
    """Return an expression that holds for all rows that match a condition, or None if it is not known."""
    # A query in a condition could read much, only to learn what the condition asks for.
    if where is None or any(token.text.lower() == "select" for token in tokens_of(where)):
        return None
    asked = list[pc.Expression | None]()

    def rows(_: Sequence[str] | None, condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        asked.append(condition)
        return iter(())

    context.session.register_rows(_ASKED, arrow_schema(table.definition.fields), rows)
    context.session.query(f"SELECT 1 FROM {_ASKED} AS {alias} WHERE {where}")
    return asked[0] if len(asked) == 1 else None


def _replace(context: SqlContext, table: Table, statement: Update | Delete, where: str) -> pa.Table:
    """Change or delete rows of a table without a key; a DELETE has no new values."""
    kind = UPDATE_AFTER if isinstance(statement, Update) else DELETE
    alias = quoted(statement.alias or statement.name[-1])
    places = ", ".join(f"{alias}.{name}" for name in place_columns(table))

    def query(rows: str) -> str:
        shown = f"{own_text(context, statement.name)} AS {alias}{where}"
        # Bound against the table, since the rows have columns of their own, such as _ROW_ID, which the statement
        # cannot name.
        if isinstance(statement, Update):
            new = new_values(context, table, shown, alias, statement.assignments)
        else:
            new = []
            context.session.columns_of(f"SELECT 1 FROM {shown}")
        values = "".join(f", {text} AS {new_column(at)}" for at, text in enumerate(new))
        return f"SELECT {kind} AS kind, {places}{values} FROM {rows} AS {alias}{where}"

    return KeylessChange(context, table, statement.name, query).run()


def new_values(context: SqlContext, table: Table, rows: str, alias: str, assignments: Assignments) -> list[str]:
    """Return the SQL of the new value of each column: the assigned value, or the old one."""
    fields = table.definition.fields
    assigned = assigned_values(table, alias, assignments)
    types = context.session.types_of(arrow_schema(fields))
    _, schema = context.session.columns_of(f"SELECT {', '.join(f'({text})' for text in assigned.values())} FROM {rows}")
    given = dict(zip(assigned, schema.types, strict=True))
    return [
        assigned_text(table.name, f"({assigned[field.name]})", field, type_, given[field.name])
        if field.name in assigned
        else f"{alias}.{quoted(field.name)}"
        for field, type_ in zip(fields, types, strict=True)
    ]


def delete(context: SqlContext, statement: Delete) -> pa.Table:
    """Run DELETE FROM. Without a condition the table is truncated."""
    table = context.table(statement.name)
    if statement.where is None:
        before = table.latest_snapshot
        count = table.count()
        # Truncating deletes files and not rows, so every merge engine allows it.
        if before is not None:
            table.truncate()
        latest = table.latest_snapshot
        return changed_rows(deleted=count, snapshot=latest.id if latest and latest != before else None)
    if not table.primary_keys:
        return _delete_appended(context, table, statement, statement.where)
    return repeated(lambda: _delete_keys(context, statement, statement.where or ""))


def _delete_keys(context: SqlContext, statement: Delete, where: str) -> pa.Table:
    table = context.table(statement.name)
    check_deletable(table.definition, table.name)
    check_newest_rows(table, "DELETE")
    alias = quoted(statement.alias or statement.name[-1])
    columns = ", ".join(f"{alias}.{quoted(field.name)}" for field in table.definition.fields)
    compact_waiting_rows(table.scan().store, _pruning(context, table, alias, where))
    with changing_writer(table) as writer:
        target = target_text(context, statement.name)
        query = f"SELECT {DELETE}, {columns}, {columns} FROM {target} AS {alias} WHERE {where}"
        return write_changes(context, table, writer, query)


def _delete_appended(context: SqlContext, table: Table, statement: Delete, where: str) -> pa.Table:
    """Delete rows of a table without a key: files are rewritten, or their rows marked as deleted."""
    check_newest_rows(table, "DELETE")
    # Other conditions are evaluated file by file, where no other table can be queried.
    if any(token.text.lower() == "select" for token in tokens_of(where)):
        return _replace(context, table, statement, f" WHERE {where}")
    names = {statement.alias or statement.name[-1]}
    text = "".join(token.text for token in _unqualified(where, names))
    snapshots = table.delete(text)
    # Files are rewritten or marked without counting their rows, so the number is not known.
    return changed_rows(deleted=None if snapshots else 0, snapshot=snapshots[0].id if snapshots else None)


def _unqualified(where: str, names: set[str]) -> list[SqlToken]:
    """Return the tokens without the table's name before a column: `t.a` becomes `a`."""
    tokens = tokens_of(where)
    # Conditions of a scan are evaluated on rows that have no table name.
    dropped = {
        number + offset
        for number, token in enumerate(tokens[:-2])
        if token.name in names and tokens[number + 1].text == "."
        for offset in (0, 1)
    }
    return [token for number, token in enumerate(tokens) if number not in dropped]
