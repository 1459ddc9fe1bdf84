"""UPDATE, DELETE and MERGE of tables without a key: matching rows are removed from their files, new ones appended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER
from penstock.table.files.row_tracking import ROW_ID, ROW_VERSION, is_tracked, with_row_ids
from penstock.table.handle import Table
from penstock.table.operations.changed_files import ChangedFiles, repeated
from penstock.table.operations.placed_rows import FILE, ROW, LocatedRows
from penstock.table.operations.write import TableWriter
from penstock.table.options.checks import check_writable
from penstock.table.options.compaction import WRITE_ONLY
from penstock.table.sql.dml.inserts import changed_rows
from penstock.table.sql.grammar.row_statements import Names
from penstock.table.sql.queries.context import SqlContext
from penstock.table.values.sql_text import quoted

_TARGET, _UNITS, _CHANGES = "_penstock_target", "_penstock_units", "_penstock_changes"


@dataclass(frozen=True, slots=True)
class KeylessChange:
    """A statement that changes rows of a table without a key.

    `query` returns the SQL for its changes, given that for the rows of the table: the kind of each change, the
    `place_columns` of the old row (null for a new one), and all new values. With `once`, no row may be changed by two
    of them, unless both delete it and `deletes_again`.
    """

    context: SqlContext
    table: Table
    names: Names
    query: Callable[[str], str]
    once: bool = False
    deletes_again: bool = False

    def run(self) -> pa.Table:
        """Run the statement on the newest snapshot, in one commit.

        It is run again, up to two times, when another job changed one of the files in the meantime.
        """
        try:
            return repeated(self._attempt)
        finally:
            self.context.session.run(f"DROP TABLE IF EXISTS {_CHANGES}")

    def _attempt(self) -> pa.Table:
        session, store = self.context.session, self.table.scan().store
        with ChangedFiles(store, store.snapshots.latest()) as changed:
            placed = LocatedRows(changed)
            session.register_rows(_TARGET, placed.schema, placed.read)
            # Subqueries and sources that read the table see the rows that are changed.
            session.pin(self.context.full_name(self.names), changed.base)
            # A table, since it is read several times: conditions and values must be evaluated only once.
            columns = len(self.table.definition.fields)
            session.run_cases(f"CREATE OR REPLACE TEMP TABLE {_CHANGES} AS {self.query(_TARGET)}", columns)
            if self.once:
                self._refuse_doubles()
            self._remove(placed)
            counts = self._append(changed)
            snapshots = changed.commit(store.new_commit_user())
            updated = counts[UPDATE_AFTER]
            snapshot = snapshots[0].id if snapshots else None
            return changed_rows(counts[INSERT], updated, changed.removed_rows - updated, snapshot)

    def _refuse_doubles(self) -> None:
        kinds = f" AND kind <> {DELETE}" if self.deletes_again else ""
        found = self.context.session.query(
            f"SELECT * FROM {_CHANGES} WHERE {FILE} IS NOT NULL{kinds}"
            f" QUALIFY count(*) OVER (PARTITION BY {FILE}, {ROW}) > 1 LIMIT 1"
        )
        if found.num_rows:
            raise ConfigError(
                "several source rows would change one row",
                table=self.table.name,
                hint="let the source have one row for each row of the target that ON matches",
            )

    def _remove(self, placed: LocatedRows) -> None:
        session = self.context.session
        session.register(_UNITS, placed.units())
        joined = f"{_CHANGES} c JOIN {_UNITS} u ON c.{FILE} = u.{FILE}"
        with closing(session.batches(f"SELECT u.unit, c.{FILE}, c.{ROW} FROM {joined} ORDER BY ALL")) as places:
            placed.remove(places)

    def _append(self, changed: ChangedFiles) -> dict[int, int]:
        """Write the new rows, and return the number of changes by kind."""
        session = self.context.session
        counted = session.query(f"SELECT kind, count(*) AS n FROM {_CHANGES} GROUP BY kind").to_pylist()
        counts = {INSERT: 0, UPDATE_AFTER: 0} | {row["kind"]: row["n"] for row in counted}
        if not counts[INSERT] + counts[UPDATE_AFTER]:
            return counts
        fields = self.table.definition.fields
        new = ", ".join(f"{new_column(at)} AS {quoted(field.name)}" for at, field in enumerate(fields))
        # A compaction in the same commit could take files away from which rows are removed.
        schema = TableWriter.schema_with(changed.store, {WRITE_ONLY.key: "true"})
        check_writable(schema.options)
        if is_tracked(schema):
            # Changed rows keep their ids; null is the next id, or the version of this commit.
            schema = with_row_ids(schema)
            kept = f"CASE kind WHEN {UPDATE_AFTER} THEN {ROW_ID.name} END AS {ROW_ID.name}"
            new += f", {kept}, NULL::BIGINT AS {ROW_VERSION.name}"
        query = f"SELECT {new} FROM {_CHANGES} WHERE kind <> {DELETE}"
        user = changed.store.new_commit_user()
        with (
            TableWriter(changed.store, schema, user, base=changed.base) as writer,
            closing(session.batches(query)) as batches,
        ):
            for batch in batches:
                writer.write(batch)
            changed.add_rows(writer.prepare())
            writer.forget()
        return counts


def place_columns(table: Table) -> tuple[str, ...]:
    """Return the names of the columns that say which row it is: FILE, ROW, and `_ROW_ID` if the table has row ids."""
    return (FILE, ROW, ROW_ID.name) if is_tracked(table.definition) else (FILE, ROW)


def new_column(at: int) -> str:
    """Return the name of the column with the new values of a column of the table."""
    return f"new_{at}"
