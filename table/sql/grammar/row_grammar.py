"""The grammar of INSERT, UPDATE, DELETE and MERGE."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.table.catalog.base import on_branch
from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.default_values import assigned_value, with_default_values
from penstock.table.sql.grammar.row_statements import Assignments, Delete, Insert, Merge, MergeClause, Names, Update
from penstock.table.values.sql_text import quoted

_NO_QUERY = {
    "on": "MERGE INTO decides what happens to rows that exist",
    "default": "VALUES with at least one column: the others have their defaults",
    "replace": "INSERT OVERWRITE t PARTITION (...) for partitions; or DELETE, and then INSERT",
}
_MERGES = "MERGE INTO t USING s ON ... changes rows of a table by those of another"
_QUERY_WORDS = {"select", "with", "values", "from", "table", "("}
_CHOSEN = (
    "choose the rows by the condition: WHERE id IN (SELECT id FROM t ORDER BY id LIMIT 1). "
    "A column of this name is written in backquotes"
)
# What to write instead of clauses after a condition.
_INSTEAD = {
    "order": _CHOSEN,
    "limit": _CHOSEN,
    "returning": "leave it out: the statement returns the number of rows, and t$audit_log shows the changes. "
    "A column of this name is written in backquotes",
}


def insert(cursor: Cursor) -> Insert:
    """Read INSERT INTO and INSERT OVERWRITE."""
    cursor.expect("insert")
    if cursor.word() == "or":
        cursor.fail("INSERT OR ... is not supported", hint="INSERT INTO a table with a primary key updates its rows")
    mode = cursor.skip_any("into", "overwrite")
    if mode is None:
        cursor.fail("INTO or OVERWRITE is expected", hint="INSERT INTO t ...")
    cursor.skip("table")
    name, options = cursor.names(), cursor.hint()
    partition = _partition(cursor) if cursor.skip("partition") else {}
    by_name, columns = cursor.skip("by", "name"), None
    # A bracket opens either a list of columns or a query: `INSERT INTO t (SELECT ...)`.
    if not by_name and cursor.word() == "(" and not _is_query(cursor):
        columns = cursor.name_list()
    if cursor.word() not in _QUERY_WORDS:
        cursor.fail("a query or VALUES is expected", _NO_QUERY.get(cursor.word()))
    has_values = cursor.word() == "values"
    query = f"SELECT * FROM {cursor.rest()}" if cursor.skip("table") else cursor.rest()
    query = with_default_values(query) if has_values else query
    # A branch may have other columns than the table, so that it is the table of the statement.
    table, others = on_branch(name[-1], options)
    return Insert((*name[:-1], table), query, mode == "overwrite", columns, partition, by_name, others)


def _is_query(cursor: Cursor) -> bool:
    ahead = 0
    while cursor.word(ahead) == "(":
        ahead += 1
    return cursor.word(ahead) in _QUERY_WORDS


def _partition(cursor: Cursor) -> dict[str, str | None]:
    """Read `(dt = '1', hh)`."""
    cursor.expect("(")
    values: dict[str, str | None] = {}
    while True:
        name = cursor.name()
        if name in values:
            cursor.fail(
                f"the column {name!r} is set twice", hint="an INSERT writes one partition, or PARTITION (column)"
            )
        values[name] = cursor.until(",", ")") if cursor.skip("=") else None
        if not cursor.skip(","):
            break
    cursor.expect(")")
    return values


def update(cursor: Cursor) -> Update:
    """Read UPDATE."""
    cursor.expect("update")
    name, alias = cursor.names(), _alias(cursor, "set")
    cursor.expect("set")
    assignments = _assignments(cursor, name, alias, "where")
    return Update(name, alias, assignments, _where(cursor))


def delete(cursor: Cursor) -> Delete:
    """Read DELETE FROM."""
    cursor.expect("delete")
    cursor.expect("from")
    name, alias = cursor.names(), _alias(cursor, "where")
    return Delete(name, alias, _where(cursor))


def _where(cursor: Cursor) -> str | None:
    if cursor.at_end:
        return None
    if cursor.word() != "where":
        cursor.fail("WHERE is expected", hint=_MERGES if "using" in {cursor.word(), cursor.word(-1)} else None)
    cursor.expect("where")
    # Reading stops before clauses that other dialects have here, so that the error has their place.
    text = cursor.until(*_INSTEAD)
    if not text:
        cursor.fail("a condition is expected")
    cursor.end(_INSTEAD.get(cursor.word()))
    return text


def _alias(cursor: Cursor, *ends: str) -> str | None:
    named = cursor.skip("as")
    if not named and (cursor.at_end or cursor.word() in ends):
        return None
    return cursor.name()


def _assignments(cursor: Cursor, target: Names, alias: str | None, *ends: str) -> Assignments:
    """Read `a = 1, t.b = 2, s.x = 3`, where t is the table or its alias, and s a struct."""
    assignments: list[tuple[Names, str]] = []
    while True:
        path = _column_path(cursor.names(), target, alias)
        cursor.expect("=")
        value = cursor.until(",", *ends)
        if not value:
            cursor.fail("a value is expected")
        if path in dict(assignments):
            cursor.fail(f"the column {'.'.join(path)!r} is set twice")
        assignments.append((path, assigned_value(value)))
        if not cursor.skip(","):
            return tuple(assignments)


def _column_path(names: Names, target: Names, alias: str | None) -> Names:
    """Return the names without those of the table, or its alias, in front of a column."""
    qualifiers = [length for length in range(1, len(names)) if _is_target(names[:length], target, alias)]
    return names[max(qualifiers, default=0) :]


def _is_target(qualifier: Sequence[str], target: Names, alias: str | None) -> bool:
    """Return whether the names in front of a column are those of the table, or its alias."""
    given = [part.lower() for part in qualifier]
    return given == [part.lower() for part in target[-len(given) :]] or (alias is not None and given == [alias.lower()])


def merge(cursor: Cursor) -> Merge:
    """Read MERGE INTO."""
    cursor.expect("merge")
    if cursor.word() == "with":
        cursor.fail(
            "MERGE WITH SCHEMA EVOLUTION is not supported", hint="ALTER TABLE t ADD the columns, and then MERGE INTO"
        )
    cursor.expect("into")
    name, alias = cursor.names(), _alias(cursor, "using")
    cursor.expect("using")
    source, source_alias = _source(cursor)
    cursor.expect("on")
    on = cursor.until("when")
    clauses = []
    while cursor.skip("when"):
        clauses.append(_clause(cursor, name, alias))
    if not clauses:
        cursor.fail("WHEN is expected")
    cursor.end()
    _check_order(cursor, clauses)
    return Merge(name, alias, source, source_alias, on, tuple(clauses))


def _source(cursor: Cursor) -> tuple[str, str]:
    """Read a table, or a query in brackets with its alias; return its text and its alias."""
    if cursor.word() == "(":
        begin = cursor.place.offset
        cursor.expect("(")
        cursor.until(")")
        cursor.expect(")")
        text = cursor.sql[begin : cursor.place.offset].strip()
        if not cursor.skip("as") and cursor.word() == "on":
            cursor.fail("the query after USING has no alias", hint="USING (SELECT ...) AS s ON ...")
        return _renamed(cursor, text, cursor.name())
    begin = cursor.place.offset
    names = cursor.names()
    cursor.hint()
    if cursor.word() in {"for", "version", "timestamp"}:
        cursor.until("as")
        if cursor.skip("as", "of"):
            cursor.until("as", "on")
    text = cursor.sql[begin : cursor.place.offset].strip()
    alias = _alias(cursor, "on")
    return (text, names[-1]) if alias is None else _renamed(cursor, text, alias)


def _renamed(cursor: Cursor, source: str, alias: str) -> tuple[str, str]:
    """Read the `(a, b)` after the alias of a source, which names its columns."""
    if cursor.word() != "(":
        return source, alias
    columns = ", ".join(map(quoted, cursor.name_list()))
    return f"(SELECT * FROM {source} AS {quoted(alias)} ({columns}))", alias


def _clause(cursor: Cursor, target: Names, alias: str | None) -> MergeClause:
    rows = "matched"
    if cursor.skip("not"):
        rows = "not matched"
    cursor.expect("matched")
    if rows == "not matched" and cursor.skip("by"):
        if cursor.skip_any("source", "target") is None:
            cursor.fail("SOURCE or TARGET is expected")
        rows = "not matched by source" if cursor.word(-1) == "source" else "not matched"
    condition = cursor.until("then") if cursor.skip("and") else None
    cursor.expect("then")
    possible = ("insert",) if rows == "not matched" else ("delete", "update")
    action = cursor.skip_any(*possible)
    if action is None:
        cursor.fail(f"WHEN {rows.upper()} THEN {' or '.join(possible).upper()} is expected")
    match action:
        case "update":
            cursor.expect("set")
            assignments = None if cursor.skip("*") else _assignments(cursor, target, alias, "when")
            return MergeClause(rows, action, condition, assignments)
        case "insert":
            return MergeClause(rows, action, condition, _inserted(cursor))
    return MergeClause(rows, "delete", condition)


def _inserted(cursor: Cursor) -> Assignments | None:
    """Read `*`, `(a, b) VALUES (1, 2)` or `VALUES (1, 2)`; a column that is not named has an empty name."""
    if cursor.skip("*"):
        return None
    columns = cursor.name_list() if cursor.word() == "(" else None
    cursor.expect("values")
    cursor.expect("(")
    values = [assigned_value(cursor.until(","))]
    while cursor.skip(","):
        values.append(assigned_value(cursor.until(",")))
    cursor.expect(")")
    if columns is not None and len(columns) != len(values):
        cursor.fail(f"{len(values)} values are inserted into {len(columns)} columns")
    paths: list[Names] = [()] * len(values) if columns is None else [(name,) for name in columns]
    return tuple(zip(paths, values, strict=True))


def _check_order(cursor: Cursor, clauses: list[MergeClause]) -> None:
    for rows in {clause.rows for clause in clauses}:
        of_rows = [clause for clause in clauses if clause.rows == rows]
        if any(clause.condition is None for clause in of_rows[:-1]):
            cursor.fail(
                f"a clause follows WHEN {rows.upper()} without a condition", hint="add AND ... to the first one"
            )
