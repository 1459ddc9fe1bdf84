"""The grammar of statements, chosen by their first words. Queries remain text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.errors import did_you_mean
from penstock.table.sql.grammar.alter_grammar import alter, comment
from penstock.table.sql.grammar.catalog_grammar import drop
from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.listing_grammar import read_describe, read_show
from penstock.table.sql.grammar.row_grammar import delete, insert, merge, update
from penstock.table.sql.grammar.session_statements import SessionOption, StatementSet, StatementSetEnd, Use
from penstock.table.sql.grammar.statements import CallProcedure, SqlQuery, Statement
from penstock.table.sql.grammar.table_grammar import create, replace
from penstock.table.sql.grammar.table_statements import Analyze, DropPartitions, TruncateTable

_CHANGES = {"insert", "update", "delete", "merge"}
_EXPLAINED = {"select", "with", "values", "from", "("}
_MODULES = "leave the statement out: functions are those of DuckDB, which are always there"
# What to write instead of statements of other engines.
_INSTEAD = {
    "optimize": "CALL sys.compact('db.t')",
    "vacuum": "CALL sys.expire_snapshots('db.t'), CALL sys.remove_orphan_files('db.t')",
    "upsert": "INSERT INTO a table with a primary key, or MERGE INTO",
    "restore": "CALL sys.rollback('db.t', '3')",
    "msck": "leave the statement out: partitions are found without it",
    "copy": "penstock sql ... --output csv, or INSERT INTO t SELECT * FROM read_csv('file')",
    "load module": _MODULES,
    "unload": _MODULES,
    "load": "INSERT INTO t SELECT * FROM read_csv('file')",
    "commit": "leave the statement out: each statement is a transaction",
    "rollback": "CALL sys.rollback('db.t', '3')",
    "refresh": "leave the statement out: each statement reads the newest snapshot",
    "cache": "leave the statement out: each statement reads the newest snapshot",
    "repair": "leave the statement out: partitions are found without it",
}


def read_statement(text: str, line: int = 1, column: int = 1) -> Statement:
    """Return the statement. ConfigError with line and column if it is not understood."""
    cursor = Cursor(text, line, column)
    read = _READERS.get(cursor.word())
    if read is None:
        first = cursor.word()
        instead = _INSTEAD.get(f"{first} {cursor.word(1)}") or _INSTEAD.get(first)
        hint = instead or did_you_mean(first, _READERS, "docs/sql.md lists the statements")
        cursor.fail(f"{first.upper()} is not a supported statement", hint)
    return read(cursor)


def _query(cursor: Cursor) -> SqlQuery:
    if cursor.word() == "with":
        _refuse_change(cursor)
    if cursor.word() == "explain":
        return _explained(cursor)
    if cursor.skip("table"):
        return SqlQuery(f"SELECT * FROM {cursor.rest()}")
    if cursor.word() == "summarize" and cursor.word(1) not in {"select", "with", "from", "values", "("}:
        cursor.skip("summarize")
        return SqlQuery(f"SUMMARIZE SELECT * FROM {cursor.rest()}")
    return SqlQuery(cursor.rest())


def _explained(cursor: Cursor) -> SqlQuery:
    """Read EXPLAIN, or Flink's EXPLAIN PLAN FOR. DuckDB would run it on tables of its own for all but queries."""
    cursor.expect("explain")
    analyzes = cursor.skip("analyze")
    cursor.skip("plan", "for")
    if cursor.word() not in _EXPLAINED:
        cursor.fail(f"EXPLAIN {cursor.word().upper()} is not supported", hint="EXPLAIN the query of the statement")
    return SqlQuery(f"EXPLAIN {'ANALYZE ' if analyzes else ''}{cursor.rest()}")


def _refuse_change(cursor: Cursor) -> None:
    """Refuse `WITH x AS (...) INSERT INTO ...`."""
    mark = cursor.mark
    cursor.until(*_CHANGES, "select")
    if cursor.word() in _CHANGES:
        verb = cursor.word().upper()
        cursor.fail(
            f"{verb} after WITH is not supported", hint="write WITH in the query: INSERT INTO t WITH ... SELECT"
        )
    cursor.back_to(mark)


def _execute(cursor: Cursor) -> StatementSet:
    if not cursor.skip("execute", "statement", "set", "begin"):
        cursor.fail("EXECUTE is not a supported statement", hint="EXECUTE STATEMENT SET BEGIN INSERT ...; END")
    if cursor.at_end:
        return StatementSet()
    begin = cursor.place
    return StatementSet(cursor.rest(), begin)


def _begin(cursor: Cursor) -> StatementSet:
    if not cursor.skip("begin", "statement", "set"):
        hint = "the statements one after the other: each one is a transaction; BEGIN STATEMENT SET"
        cursor.fail("BEGIN is not a supported statement", hint=hint)
    cursor.end()
    return StatementSet()


def _end(cursor: Cursor) -> StatementSetEnd:
    cursor.expect("end")
    cursor.end()
    return StatementSetEnd()


def _use(cursor: Cursor) -> Use:
    cursor.expect("use")
    if cursor.skip("catalog"):
        catalog = cursor.name()
        cursor.end()
        return Use(None, catalog)
    cursor.skip_any("database", "schema")
    names = cursor.names()
    cursor.end()
    if len(names) > 2:
        cursor.fail("a database is expected", hint="USE catalog.database")
    return Use(names[-1], names[0] if len(names) == 2 else None)


def _set(cursor: Cursor) -> SessionOption:
    cursor.expect("set")
    if cursor.at_end:
        return SessionOption(None, "")
    key = cursor.key()
    cursor.expect("=")
    value = cursor.string() if cursor.kind() == "string" else cursor.rest().strip("`")
    cursor.end()
    return SessionOption(key, value)


def _reset(cursor: Cursor) -> SessionOption:
    cursor.expect("reset")
    key = None if cursor.at_end else cursor.key()
    cursor.end()
    return SessionOption(key, None)


def _truncate(cursor: Cursor) -> Statement:
    cursor.expect("truncate")
    cursor.skip("table")
    name = cursor.names()
    partition = cursor.partition() if cursor.skip("partition") else None
    cursor.end()
    return TruncateTable(name) if partition is None else DropPartitions(name, (partition,))


def _call(cursor: Cursor) -> CallProcedure:
    cursor.expect("call")
    names = cursor.names()
    if len(names) > 3 or (len(names) > 1 and names[-2].lower() != "sys"):
        cursor.fail("procedures are in the database sys", hint=f"CALL sys.{names[-1]}(...)")
    cursor.expect("(")
    positional: list[str] = []
    named: dict[str, str] = {}
    while cursor.word() != ")":
        # `=>` is two tokens, since signs are single characters.
        if cursor.word(1) == "=" and cursor.word(2) == ">":
            name = cursor.name().lower()
            if name in named:
                cursor.fail(f"the argument {name!r} is set twice")
            cursor.expect("=", ">")
            named[name] = cursor.until(",")
        elif named:
            cursor.fail("an argument without a name follows one with a name", hint="write it as  name => value")
        else:
            positional.append(cursor.until(","))
        if not cursor.skip(","):
            break
    cursor.expect(")")
    cursor.end()
    return CallProcedure(names[-1].lower(), tuple(positional), named, names[0] if len(names) == 3 else None)


def _analyze(cursor: Cursor) -> Analyze:
    cursor.expect("analyze", "table")
    name = cursor.names()
    cursor.expect("compute", "statistics")
    columns: tuple[str, ...] | None = None
    if cursor.skip("for") and not cursor.skip("all", "columns"):
        cursor.expect("columns")
        listed = [cursor.name()]
        while cursor.skip(","):
            listed.append(cursor.name())
        columns = tuple(listed)
    cursor.end()
    return Analyze(name, columns)


_READERS: Mapping[str, Callable[[Cursor], Statement]] = {
    "comment": comment,
    **dict.fromkeys(("select", "with", "values", "from", "table", "(", "pivot", "unpivot", "summarize"), _query),
    "explain": _query,
    "execute": _execute,
    "begin": _begin,
    "end": _end,
    "create": create,
    "replace": replace,
    "drop": drop,
    "alter": alter,
    "truncate": _truncate,
    "insert": insert,
    "update": update,
    "delete": delete,
    "merge": merge,
    "use": _use,
    "set": _set,
    "reset": _reset,
    "call": _call,
    "analyze": _analyze,
    "show": read_show,
    "describe": read_describe,
    "desc": read_describe,
}
