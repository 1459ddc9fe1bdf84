"""UPDATE and DELETE: one query returns the old and the new rows, and one commit writes them with their kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.table.catalog.base import split_name
from penstock.table.handle import Table
from penstock.table.merge.engines.registry import merge_engine, merge_spec
from penstock.table.operations.delete import check_deletable
from penstock.table.operations.write import TableWriter
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.sql.context import SqlContext
from penstock.table.sql.inserts import cast_text, changed_rows, own_name
from penstock.table.sql.row_statements import Assignments, Delete, Update
from penstock.table.sql.text import SqlToken, quoted, tokens_of
from penstock.table.sql.update_rules import check_newest_rows, check_updatable
from penstock.table.values.arrow_types import arrow_schema


@dataclass(slots=True)
class RowChanges:
    """The changes of one statement on their way to the writer.

    A batch has the kind of each change in its first column, then the old values of all columns of the table, then the
    new ones. Old rows of updates are written to tables whose changelog is their input, so that it is complete.
    """

    table: Table
    refuses_older: bool = False
    counts: dict[int, int] = field(default_factory=lambda: dict.fromkeys((INSERT, UPDATE_AFTER, DELETE), 0))

    def write(self, writer: TableWriter, batch: pa.RecordBatch) -> None:
        """Write the changes of a batch."""
        kinds = batch.column(0).to_numpy(zero_copy_only=False)
        width = len(self.table.definition.fields)
        names = [one.name for one in self.table.definition.fields]
        old = pa.RecordBatch.from_arrays(batch.columns[1 : 1 + width], names=names)
        new = pa.RecordBatch.from_arrays(batch.columns[1 + width :], names=names)
        changed = kinds == UPDATE_AFTER
        before, after = old.filter(pa.array(changed)), new.filter(pa.array(changed))
        self._refuse_nulls(before, after)
        if self.refuses_older:
            self._refuse_older(before, after)
        if changed.any() and self.table.definition.typed[CHANGELOG_PRODUCER].copies_input:
            self._write(writer, old, changed, UPDATE_BEFORE)
        for rows, kind in ((old, DELETE), (new, UPDATE_AFTER), (new, INSERT)):
            self._write(writer, rows, kinds == kind, kind)
            self.counts[kind] += int((kinds == kind).sum())

    def _write(self, writer: TableWriter, rows: pa.RecordBatch, chosen: np.ndarray, kind: int) -> None:
        count = int(chosen.sum())
        if count:
            writer.write(rows.filter(pa.array(chosen)), np.full(count, kind, np.int8))

    def _refuse_nulls(self, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        """Refuse to set values to null where null means that the old value stays."""
        if not merge_engine(self.table.definition.typed).null_means_unchanged:
            return
        for name in old.schema.names:
            if pc.any(pc.and_(pc.is_null(new.column(name)), pc.is_valid(old.column(name)))).as_py():
                raise ConfigError(
                    f"the column {name!r} cannot be set to null: in a partial-update table null keeps the old value",
                    table=self.table.name,
                    hint="delete the row and insert it again, if the table allows deletes",
                )

    def _refuse_older(self, old: pa.RecordBatch, new: pa.RecordBatch) -> None:
        """Refuse new rows that the table would ignore, because their sequence field is lower than that of the old."""
        spec = merge_spec(self.table.definition)
        older, same = np.zeros(old.num_rows, np.bool_), np.ones(old.num_rows, np.bool_)
        for name in spec.sequence_fields:
            a, b = old.column(name), new.column(name)
            lower = pc.greater(b, a) if spec.descending else pc.less(b, a)
            lost = pc.and_(pc.is_null(b), pc.is_valid(a))
            older |= same & _mask(pc.or_(pc.fill_null(lower, fill_value=False), lost))
            same &= _mask(pc.fill_null(pc.equal(a, b), fill_value=False)) | _mask(pc.and_(pc.is_null(a), pc.is_null(b)))
        if older.any():
            raise ConfigError(
                "the update would be ignored: it makes rows older by the sequence field of the table",
                table=self.table.name,
                sequence_field=", ".join(spec.sequence_fields),
                key={name: new.column(name)[int(older.argmax())].as_py() for name in self.table.primary_keys},
                hint="DELETE the row and INSERT it again, or set a value that is not older",
            )

    def result(self, snapshot: int | None) -> pa.Table:
        """Return the result of the statement."""
        return changed_rows(self.counts[INSERT], self.counts[UPDATE_AFTER], self.counts[DELETE], snapshot)


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


def write_changes(
    context: SqlContext, table: Table, writer: TableWriter, sql: str, *, refuses_older: bool = False
) -> pa.Table:
    """Write the changes that a query returns, in one commit.

    The writer was opened before anything of the query was read, so that its commit finds the rows of other jobs.
    """
    changes = RowChanges(table, refuses_older)
    for batch in context.session.batches(sql):
        changes.write(writer, batch)
    snapshots = writer.commit() if any(changes.counts.values()) else []
    return changes.result(snapshots[0].id if snapshots else None)


def target_text(context: SqlContext, names: Sequence[str]) -> str:
    """Return the table in quotes, with its database."""
    return ".".join(map(quoted, split_name(context.full_name(names))))


def update(context: SqlContext, statement: Update) -> pa.Table:
    """Run UPDATE."""
    table = context.table(statement.name)
    check_updatable(table, "UPDATE", [name for name, _ in statement.assignments])
    alias = quoted(statement.alias or statement.name[-1])
    old = ", ".join(f"{alias}.{quoted(one.name)}" for one in table.definition.fields)
    new = ", ".join(new_values(context, table, alias, statement.assignments))
    where = f" WHERE {statement.where}" if statement.where else ""
    target = target_text(context, statement.name)
    with table.writer() as writer:
        query = f"SELECT {UPDATE_AFTER}, {old}, {new} FROM {target} AS {alias}{where}"
        return write_changes(context, table, writer, query, refuses_older=True)


def new_values(context: SqlContext, table: Table, alias: str, assignments: Assignments) -> list[str]:
    """Return the SQL of the new value of each column: what is assigned to it, or its old value."""
    fields = table.definition.fields
    assigned: dict[str, str] = {}
    for name, text in assignments:
        own = own_name(table, name)
        if own in assigned:
            raise ConfigError(f"the column {own!r} is set twice", table=table.name)
        assigned[own] = text
    types = context.session.types_of(arrow_schema(fields))
    return [
        cast_text(f"({assigned[one.name]})", one, type_) if one.name in assigned else f"{alias}.{quoted(one.name)}"
        for one, type_ in zip(fields, types, strict=True)
    ]


def delete(context: SqlContext, statement: Delete) -> pa.Table:
    """Run DELETE FROM. Without a condition the table is truncated."""
    table = context.table(statement.name)
    if statement.where is None:
        before = table.latest_snapshot
        count = table.count()
        if before is not None:
            table.truncate()
        latest = table.latest_snapshot
        return changed_rows(deleted=count, snapshot=latest.id if latest and latest != before else None)
    if not table.primary_keys:
        return _delete_appended(table, statement, statement.where)
    check_deletable(table.definition, table.name)
    check_newest_rows(table, "DELETE")
    alias = quoted(statement.alias or statement.name[-1])
    columns = ", ".join(f"{alias}.{quoted(one.name)}" for one in table.definition.fields)
    target = target_text(context, statement.name)
    query = f"SELECT {DELETE}, {columns}, {columns} FROM {target} AS {alias} WHERE {statement.where}"
    with table.writer() as writer:
        return write_changes(context, table, writer, query)


def _delete_appended(table: Table, statement: Delete, where: str) -> pa.Table:
    """Delete rows of a table without a key: files are rewritten, or their rows marked as deleted."""
    if any(token.text.lower() == "select" for token in tokens_of(where)):
        raise ConfigError(
            "the condition of a DELETE from a table without a primary key cannot contain a query",
            table=table.name,
            hint="INSERT OVERWRITE t SELECT * FROM t WHERE NOT ...",
        )
    names = {statement.alias or statement.name[-1]}
    text = "".join(token.text for token in _unqualified(where, names))
    snapshots = table.delete(text)
    return changed_rows(deleted=None if snapshots else 0, snapshot=snapshots[0].id if snapshots else None)


def _unqualified(where: str, names: set[str]) -> list[SqlToken]:
    """Return the tokens without the table's name before a column: `t.a` becomes `a`."""
    tokens = tokens_of(where)
    dropped = {
        number + offset
        for number, token in enumerate(tokens[:-2])
        if token.name in names and tokens[number + 1].text == "."
        for offset in (0, 1)
    }
    return [token for number, token in enumerate(tokens) if number not in dropped]
