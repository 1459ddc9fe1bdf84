"""Errors of DuckDB in the words of the warehouse, with the place in the statement that the user wrote."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from penstock.errors import ConfigError, PenstockError, did_you_mean, nearest
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.missing_tables import view_instead
from penstock.table.meta.store import TableMissing
from penstock.table.sql.grammar.cursor import TextPlace, places_of
from penstock.table.sql.grammar.scripts import ScriptPart
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.sql.queries.function_hints import function_hint

# How DuckDB reports unknown names: `column "a" not found`, `name f does not exist`, `a column named "a"`.
_NAMED = re.compile(
    r'(?:column|table|name|type) "?(?P<name>[^\s"]+)"? (?:not found|does not exist)|a column named "(?P<of>[^"]+)"',
    re.IGNORECASE,
)
# DuckDB's word for the rows that it reads from Arrow.
_VALUES_LIST = re.compile(r'\bValues list (?=")')


# Errors that DuckDB finds before it runs a statement; others are about values.
_OF_THE_TEXT = ("Parser Error", "Syntax Error", "Binder Error", "Catalog Error")

_INSTEAD = {
    r"\bDEFAULT\b": "DEFAULT is a whole value, in VALUES (1, DEFAULT) or SET c = DEFAULT; or leave the column out",
    r'at or near "FROM"': "MERGE INTO t USING s ON ... WHEN MATCHED THEN UPDATE SET ... sets values of another table",
    r'at or near "RETURNING"': "leave it out: the statement returns the number of rows; t$audit_log shows the changes",
    r"does not support time travel": "t VERSION AS OF 3, or t TIMESTAMP AS OF '2026-01-31 12:00:00'",
    r'at or near "ON"': "MERGE INTO decides what happens to rows that exist; INSERT into a key replaces its row",
}

_STREAM = "SET 'execution.runtime-mode' = 'streaming', and SELECT ... FROM t without STREAM"


# A list of candidates with names that only the text for DuckDB has.
_OWN_NAMES = re.compile(r'\nCandidate bindings: [^\n]*"_penstock_[^\n]*')
_TOO_LONG = "a value is too long for the column "
_SHORTER = "shorten it in the query, as in left(a, 10), or ALTER TABLE t MODIFY the column"
_NOT_READ = "members of a VARIANT cannot be read by "
_NOT_STORED, _HINT = "a text cannot be stored whole in the column ", "; hint: "


def too_long(column: str, type_: str) -> str:
    """Return the message that a statement ends with when a value is longer than the type of its column."""
    return f"{_TOO_LONG}{column!r}, which is {type_}"


def not_stored(column: str, type_: str, instead: str) -> str:
    """Return the message that a statement ends with when a column would store a text only in part."""
    return f"{_NOT_STORED}{column!r}, which is {type_}{_HINT}{instead}"


def no_members(function: str) -> str:
    """Return the message that a statement ends with when it calls a function of JSON on a VARIANT."""
    return f"{_NOT_READ}{function}"


def not_read(function: str, **facts: object) -> ConfigError:
    """Return the error of a statement that calls a function of JSON on a VARIANT."""
    hint = "keep JSON whose members are queried in a STRING column"
    return ConfigError(_NOT_READ + function, **facts, hint=hint)


def engine_error(statement: ScriptPart | None, sql: str, reason: Exception) -> PenstockError:
    """Return the error for a statement that DuckDB refused; `sql` is the text that it received."""
    failure = "the SQL cannot be parsed" if str(reason).startswith(_OF_THE_TEXT) else "the statement failed"
    if statement is None:
        return ConfigError(f"{failure}: {reason}", sql=" ".join(sql.split()), hint=_way_out(str(reason)))
    place = place_like(statement, str(reason)) or statement.place
    # DuckDB shows the line of the statement that it received, which is not the user's.
    message = _OWN_NAMES.sub("", str(reason).partition("\n\nLINE ")[0])
    if _TOO_LONG in message:
        text = _TOO_LONG + message.partition(_TOO_LONG)[2]
        return ConfigError(text, line=place.line, column=place.column, hint=_SHORTER)
    if _NOT_STORED in message:
        text, _, instead = message.partition(_NOT_STORED)[2].partition(_HINT)
        return ConfigError(_NOT_STORED + text, line=place.line, column=place.column, hint=instead)
    if _NOT_READ in message:
        return not_read(message.partition(_NOT_READ)[2], line=place.line, column=place.column)
    message = _VALUES_LIST.sub("table ", message)
    named = unknown_name(message)
    if (function := function_hint(message, statement.text)) is not None:
        # DuckDB suggests names that are similar and mean something else.
        message = message.partition("\n")[0]
    # In Spark and MySQL, double quotes may enclose a text; here they enclose a name.
    quoted = named is not None and f'"{named}"' in statement.text
    quotes = "texts are in single quotes: 'x'; names in double quotes or backquotes" if quoted else None
    hint = quotes or function or _way_out(message)
    return ConfigError(f"{failure}: {message}", line=place.line, column=place.column, hint=hint)


def _way_out(message: str) -> str | None:
    """Return what to write instead of a word that DuckDB refuses in this place."""
    return next((hint for pattern, hint in _INSTEAD.items() if re.search(pattern, message)), None)


def missing_table(catalog: Catalog, name: str, sql: str, statement: ScriptPart | None) -> TableMissing:
    """Return the error for a table that does not exist: DuckDB does not know the warehouse's tables."""
    base = name.partition("$")[0]
    if base.count(".") == 1 and catalog.backend.view(base) is not None:
        return view_instead(base)
    hint = _STREAM if name.lower() == "stream" else _near(catalog, name)
    text = sql if statement is None else statement.text
    error = TableMissing(
        f"there is no table {name}", warehouse=catalog.warehouse, sql=" ".join(text.split()), hint=hint
    )
    place = None if statement is None else place_like(statement, f"table {name} does not exist")
    if place is not None:
        error.facts |= {"line": place.line, "column": place.column}
    return error


def missing_view(name: str, views: Sequence[str], *, is_table: bool) -> ConfigError:
    """Return the error for a view to drop that the session does not have."""
    if is_table:
        return ConfigError(f"{name} is a table, and not a view", hint="DROP TABLE deletes it with its rows")
    hint = did_you_mean(
        name, views, "the views of this script are listed by SHOW VIEWS; DROP VIEW IF EXISTS ignores it"
    )
    return ConfigError(f"there is no temporary view {name}", hint=hint)


def view_of_itself(name: str, reason: Exception) -> Exception:
    """Return the error for a view that DuckDB cannot read because it reads itself; other reasons are returned."""
    if "infinite recursion" not in str(reason):
        return reason
    hint = f"choose another name, or write the table that it reads with its database: db.{name}"
    return ConfigError(f"the view {name} would read itself", hint=hint)


def no_information_schema() -> ConfigError:
    """Return the error for a query on DuckDB's own information_schema, which does not know the warehouse's tables."""
    lists = "SHOW DATABASES, SHOW TABLES, SHOW COLUMNS IN t, DESCRIBE t; SELECT * FROM sys.all_table_options"
    return ConfigError("the warehouse has no information_schema", hint=lists)


def _near(catalog: Catalog, name: str) -> str:
    databases = catalog.databases()
    known = [f"{database}.{table}" for database in databases for table in catalog.tables(database)]
    if not known:
        return "check the path of the warehouse: it contains no table"
    same = [table for table in known if table.partition(".")[2] == name]
    if not same and "." not in name:
        # A full name is similar to no name without a database.
        near = nearest(name, {table.partition(".")[2] for table in known})
        same = [table for table in known if table.partition(".")[2] == near]
    if same:
        return f"did you mean {' or '.join(same[:3])}?"
    return did_you_mean(name, known, f"choices are {', '.join(known[:10])}", most=3)


def refuse_alike(place: tuple[str, str], known: Iterable[tuple[str, str]]) -> None:
    """Raise ConfigError if the statement reads a table that DuckDB, which ignores case, would take for this one."""
    folded = _folded(place)
    other = next((table for table in known if table != place and _folded(table) == folded), None)
    if other is not None:
        raise ConfigError(
            "a statement cannot read two tables whose names differ in upper and lower case only",
            tables=", ".join(sorted(map(".".join, (place, other)))),
            hint="rename one of them, or copy the rows that the statement needs into a table with another name",
        )


def _folded(place: tuple[str, str]) -> list[bytes]:
    """Return names as DuckDB compares them: it ignores the case of ASCII's letters alone, and so does `bytes`."""
    return [name.encode().lower() for name in place]


def _bare(token: str) -> str:
    """Return a name without its quotes, in lower case."""
    return token.lower().strip('`"') or token


def unknown_name(message: str) -> str | None:
    """Return the name that DuckDB does not know."""
    named = _NAMED.search(message)
    return None if named is None else named["name"] or named["of"]


def place_like(part: ScriptPart, message: str) -> TextPlace | None:
    """Return the place in a statement that a message of DuckDB is about.

    DuckDB shows a line of the statement with `^` below the place, or only reports an unknown name.
    """
    lines = message.split("\n")
    marked = next((at for at, line in enumerate(lines) if at and line.strip() and not line.strip(" ^")), None)
    pointed = unknown_name(message) or "" if marked is None else lines[marked - 1][lines[marked].index("^") :]
    wanted = [_bare(token.text) for token in tokens_of(pointed) if token.kind != "blank"]
    # DuckDB received a changed text, in which offsets differ. The place is where most tokens agree with the tokens that
    # it shows.
    tokens = tokens_of(part.text)
    places = places_of(tokens, part.place.line, part.place.column)
    solid = [(_bare(token.text), place) for token, place in zip(tokens, places, strict=False) if token.kind != "blank"]
    texts = [text for text, _ in solid]

    def alike(at: int) -> int:
        pairs = zip(texts[at:], wanted, strict=False)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    best = max(range(len(solid)), key=alike, default=0)
    return solid[best][1] if solid and alike(best) > 0 else None
