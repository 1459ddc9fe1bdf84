"""MERGE INTO: one join of target and source decides which clause applies to each row; one commit writes the changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER
from penstock.table.handle import Table
from penstock.table.operations.changed_files import repeated
from penstock.table.operations.delete import check_deletable
from penstock.table.operations.waiting_rows import compact_waiting_rows
from penstock.table.sql.dml.assigned_values import assigned_values
from penstock.table.sql.dml.keyless_changes import KeylessChange, new_column, place_columns
from penstock.table.sql.dml.store_assignment import assigned_text
from penstock.table.sql.dml.update_and_delete import changing_writer, own_text, target_text, write_changes
from penstock.table.sql.dml.update_rules import check_distinct_names, check_updatable
from penstock.table.sql.grammar.inner_queries import inside_queries
from penstock.table.sql.grammar.row_statements import Assignments, Merge, MergeClause
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.sql.queries.context import SqlContext
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.sql_text import quoted

_KINDS = {"update": UPDATE_AFTER, "delete": DELETE, "insert": INSERT}
# The markers are true in the rows of their side, and null where an outer join found no partner. Columns of the
# tables would not do: they may be null themselves.
_THERE = {
    "matched": "_in_target AND _in_source",
    "not matched": "_in_target IS NULL",
    "not matched by source": "_in_source IS NULL",
}
_CHANGES = "_penstock_merge"


def merge(context: SqlContext, statement: Merge) -> pa.Table:
    """Run MERGE INTO, again when another job committed to the same buckets."""
    return repeated(lambda: _merge(context, statement))


def _merge(context: SqlContext, statement: Merge) -> pa.Table:
    table = context.table(statement.name)
    _check(table, statement)
    if not table.primary_keys:
        deletes_again = _only_deletes(statement)
        query = partial(_changes_query, context, table, statement)
        return KeylessChange(context, table, statement.name, query, once=True, deletes_again=deletes_again).run()
    compact_waiting_rows(table.scan().store)
    with changing_writer(table) as writer:
        changes = _changes_query(context, table, statement, target_text(context, statement.name))
        # A table and not a view, because it is read twice, and the join is the expensive part.
        columns = len(table.definition.fields)
        context.session.run_cases(f"CREATE OR REPLACE TEMP TABLE {_CHANGES} AS {changes}", columns)
        try:
            _refuse_doubles(context, table, statement)
            distinct = "DISTINCT " if _only_deletes(statement) else ""
            return write_changes(context, table, writer, f"SELECT {distinct}* FROM {_CHANGES}")
        finally:
            context.session.run(f"DROP TABLE IF EXISTS {_CHANGES}")


def _changes_query(context: SqlContext, table: Table, statement: Merge, rows: str) -> str:
    """Return the query for the changes, given the SQL for the rows of the table."""
    names, schema = context.session.columns_of(f"SELECT * FROM {_source_text(statement)}")
    return _Join(context, table, statement, dict(zip(names, schema.types, strict=True)), rows).query()


def _source_text(statement: Merge) -> str:
    return f"{statement.source} AS {quoted(statement.source_alias)}"


def _check(table: Table, statement: Merge) -> None:
    assigned = [
        path[0] for clause in statement.clauses if clause.action == "update" for path, _ in clause.assignments or ()
    ]
    check_updatable(table, "MERGE INTO", assigned)
    alias = statement.alias or statement.name[-1]
    check_distinct_names(alias, statement.source_alias, table, "MERGE INTO t AS x USING ... AS y ON x.id = y.id")
    if table.primary_keys and any(clause.action == "delete" for clause in statement.clauses):
        check_deletable(table.definition, table.name)


def _only_deletes(statement: Merge) -> bool:
    """Return whether several source rows may match one row, because all they can do is delete it."""
    matched = [clause for clause in statement.clauses if clause.rows == "matched"]
    return len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None


def _refuse_doubles(context: SqlContext, table: Table, statement: Merge) -> None:
    # By the new keys: an inserted row has no old ones, and no clause changes a key.
    keys = [new_column(at) for at, field in enumerate(table.definition.fields) if field.name in table.primary_keys]
    listed = ", ".join(keys)
    kinds = f" WHERE kind <> {DELETE}" if _only_deletes(statement) else ""
    query = f"SELECT {listed} FROM {_CHANGES}{kinds} GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
    doubled = context.session.query(query)
    if doubled.num_rows:
        raise ConfigError(
            "several source rows would change one row",
            table=table.name,
            key=dict(zip(table.primary_keys, doubled.to_pylist()[0].values(), strict=True)),
            hint="let the source have one row for each key",
        )


@dataclass(frozen=True, slots=True)
class _Join:
    """The SQL of a merge."""

    context: SqlContext
    table: Table
    statement: Merge
    source_columns: Mapping[str, pa.DataType]
    rows: str

    def query(self) -> str:
        """Return the query for the kind of each changed row, with its old and new values."""
        fields = self.table.definition.fields
        types = self.context.session.types_of(arrow_schema(fields))
        clauses = self.statement.clauses
        # CASE evaluates its conditions in order, so the first clause that applies to a row decides, as SQL demands.
        numbers = " ".join(f"WHEN {self._holds(clause)} THEN {at}" for at, clause in enumerate(clauses))
        # DuckDB does not let an expression refer to another one that contains a query.
        has_query = any(token.text.lower() == "select" for token in tokens_of(numbers))
        decided = f"CASE {numbers} END" if has_query else "clause"
        if has_query:
            self._check_repeatable(numbers)
        kinds = " ".join(f"WHEN {at} THEN {_KINDS[clause.action]}" for at, clause in enumerate(clauses))
        old = {f"old_{at}": f"{self._target}.{quoted(field.name)}" for at, field in enumerate(fields)}
        if not self.table.primary_keys:
            old = {name: f"{self._target}.{name}" for name in place_columns(self.table)}
        read = {text: name for name, text in old.items()}
        inner, outer = self._new_values(types, decided, read)
        columns = ", ".join((*(f"{text} AS {name}" for text, name in read.items()), *inner))
        # In an inner query, so that the clause of a row is decided once, and all columns refer to its number.
        rows = f"SELECT CASE {numbers} END AS clause, {columns} FROM {self._joined(self.rows)}"
        names = ", ".join((*old, *outer))
        return f"SELECT CASE clause {kinds} END AS kind, {names} FROM ({rows}) WHERE clause IS NOT NULL"

    def _check_repeatable(self, conditions: str) -> None:
        """Raise ConfigError if conditions with queries call a function like random(): each column decides again."""
        tokens = [token for token in tokens_of(conditions) if token.kind != "blank"]
        called = {(token.name or "").lower() for token, after in pairwise(tokens) if after.text == "("}
        changing = (
            "SELECT DISTINCT function_name AS name FROM duckdb_functions() "
            "WHERE stability = 'VOLATILE' AND function_name <> 'error'"  # which has no value
        )
        for name in self.context.session.query(changing)["name"].to_pylist() if called else ():
            if name in called:
                raise ConfigError(
                    f"conditions with a query cannot call {name}(), which has another value each time",
                    table=self.table.name,
                    hint=f"call it in the source: USING (SELECT *, {name}() AS x FROM ...) AS s",
                )

    def _plain(self) -> set[str]:
        """Return the SQL of all columns, and of null: values that no clause computes."""
        own = {f"{self._target}.{quoted(field.name)}" for field in self.table.definition.fields}
        return own | {f"{self._source}.{quoted(name)}" for name in self.source_columns} | {"NULL"}

    def _types(self, values: Sequence[Mapping[str, str]]) -> dict[str, pa.DataType]:
        """Return the types of the values of clauses by their SQL, without those of the target's own columns."""
        plain = self._plain()
        computed = {text: None for of_clause in values for text in of_clause.values() if text not in plain}
        # The rows have columns of their own, such as _ROW_ID, which conditions and values cannot name.
        rows = self._joined(own_text(self.context, self.statement.name))
        conditions = [f"({self._holds(clause)})" for clause in self.statement.clauses]
        _, schema = self.context.session.columns_of(f"SELECT {', '.join((*computed, *conditions))} FROM {rows}")
        given = {f"{self._source}.{quoted(name)}": type_ for name, type_ in self.source_columns.items()}
        return given | dict(zip(computed, schema.types, strict=False))

    def _new_values(self, types: Sequence[str], decided: str, read: dict[str, str]) -> tuple[list[str], list[str]]:
        """Return the SQL of the new columns in the inner query, which decides the clause of a row, and in the outer.

        `decided` is the number of a row's clause in the inner query. `read` are the names of what the inner query reads
        for the outer one; values that no clause computes are added to it.
        """
        values, plain = [self._values(clause) for clause in self.statement.clauses], self._plain()
        given = self._types(values)
        inner, outer = list[str](), list[str]()
        for at, (field, type_) in enumerate(zip(self.table.definition.fields, types, strict=True)):
            texts = [of_clause[field.name] for of_clause in values]
            types_of_texts = [given.get(text) for text in texts]
            is_plain = plain.issuperset(texts)
            if is_plain:
                # The time for which DuckDB plans expressions beside a join grows with the square of their number.
                texts = [read.setdefault(text, f"read_{len(read)}") if text != "NULL" else text for text in texts]
            stored = [
                assigned_text(self.table.name, text, field, type_, of_text)
                for text, of_text in zip(texts, types_of_texts, strict=True)
            ]
            cases = " ".join(f"WHEN {number} THEN {text}" for number, text in enumerate(stored))
            if not is_plain:
                inner.append(f"CASE {decided} {cases} END AS {new_column(at)}")
                outer.append(new_column(at))
            elif len(set(texts)) == 1:  # casts fail in changed rows only: the filter on clauses comes first
                outer.append(f"{stored[0]} AS {new_column(at)}")
            else:
                outer.append(f"CASE clause {cases} END AS {new_column(at)}")
        return inner, outer

    def _joined(self, rows: str) -> str:
        changed = {clause.rows for clause in self.statement.clauses}
        missing, alone = "not matched" in changed, "not matched by source" in changed
        # Rows that no clause can apply to are left out by the join itself.
        kind = "FULL" if missing and alone else "RIGHT" if missing else "LEFT" if alone else "INNER"
        target = f"(SELECT *, true AS _in_target FROM {rows}) AS {self._target}"
        own = quoted(self.statement.source_alias)
        source = f"(SELECT *, true AS _in_source FROM {_source_text(self.statement)}) AS {own}"
        return f"{target} {kind} JOIN {source} ON {self.statement.on}"

    @property
    def _target(self) -> str:
        return quoted(self.statement.alias or self.statement.name[-1])

    @property
    def _source(self) -> str:
        return quoted(self.statement.source_alias)

    def _holds(self, clause: MergeClause) -> str:
        condition = f" AND ({self._qualified(clause.condition, clause.rows)})" if clause.condition else ""
        return f"{_THERE[clause.rows]}{condition}"

    def _values(self, clause: MergeClause) -> dict[str, str]:
        """Return the SQL of the new value of each column."""
        names = [field.name for field in self.table.definition.fields]
        if clause.action == "delete":
            return {name: f"{self._target}.{quoted(name)}" for name in names}
        if clause.assignments is None:
            known = {column.lower(): column for column in reversed([*self.source_columns])}
            return {name: f"{self._source}.{quoted(self._source_column(name, clause, known))}" for name in names}
        assigned = self._assigned(clause.assignments, names)
        values = [(path, f"({self._qualified(text, clause.rows)})") for path, text in assigned]
        texts = assigned_values(self.table, self._target, values)
        otherwise = {name: f"{self._target}.{quoted(name)}" for name in names}
        if clause.action == "insert":
            # For a null, the writer stores the default of the column, if it has one.
            otherwise = dict.fromkeys(names, "NULL")
        return otherwise | texts

    def _assigned(self, assignments: Assignments, names: list[str]) -> Assignments:
        if all(not path for path, _ in assignments):  # VALUES without a list of columns
            if len(assignments) != len(names):
                raise ConfigError(
                    f"{len(assignments)} values are inserted into {len(names)} columns",
                    table=self.table.name,
                    columns=", ".join(names),
                    hint="write one value per column, in the order of the columns",
                )
            return tuple(((name,), text) for name, (_, text) in zip(names, assignments, strict=True))
        return assignments

    def _source_column(self, name: str, clause: MergeClause, known: Mapping[str, str]) -> str:
        found = known.get(name.lower())
        if clause.rows == "not matched by source" or found is None:
            raise ConfigError(
                f"the source has no column {name!r} for {clause.action.upper()} *",
                table=self.table.name,
                columns=", ".join(self.source_columns),
                hint="name the columns instead of *",
            )
        return found

    def _qualified(self, text: str, rows: str) -> str:
        """Qualify names without a table: of the source where the target has no row, and the other way round.

        Names in queries in brackets stay: they are columns of the tables of the query first.
        """
        if rows == "matched":
            return text
        if rows == "not matched":
            side, known = self._source, {name.lower() for name in self.source_columns}
        else:
            side, known = self._target, {field.name.lower() for field in self.table.definition.fields}
        # Both sides may have a column of this name, and DuckDB refuses a name that could be either.
        tokens = tokens_of(text)
        solid = [at for at, token in enumerate(tokens) if token.kind != "blank"]
        texts = [token.text for token in tokens]
        inner = inside_queries([texts[at].lower() for at in solid])
        for place, at in enumerate(solid):
            name = None if place in inner else tokens[at].name
            before = texts[solid[place - 1]] if place else ""
            after = tokens[solid[place + 1]].text if place + 1 < len(solid) else ""
            if name is not None and name.lower() in known and after not in {".", "("} and not _is_label(before, known):
                texts[at] = f"{side}.{quoted(name)}"
        return "".join(texts)


def _is_label(before: str, known: Collection[str]) -> bool:
    """Return whether a name belongs to the word before it: a column of a table, or the name of a value."""
    is_value = before.lower() in known or before[:1] in {"'", '"'} or before.isdecimal()
    return is_value or before.lower() in {".", ")", "as", "end"}
