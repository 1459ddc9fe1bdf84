"""The grammar of CREATE, in the dialects of Flink and Spark."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.table.schema.flink_columns import (
    WATERMARK_COLUMN_TYPES,
    computed_column,
    may_have_watermark,
    watermark_options,
)
from penstock.table.schema.type_text import written
from penstock.table.sql.grammar.catalog_grammar import NOT_KEPT, OURS, READ_CONNECTORS, create_catalog, own_options
from penstock.table.sql.grammar.column_grammar import read_column, read_computed_column, read_watermark
from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.sql.grammar.database_grammar import create_database
from penstock.table.sql.grammar.like_grammar import read_like_options
from penstock.table.sql.grammar.row_statements import Names
from penstock.table.sql.grammar.session_statements import View
from penstock.table.sql.grammar.statements import Statement
from penstock.table.sql.grammar.table_statements import LIKE_OPTIONS, CreateTable
from penstock.table.sql.grammar.view_grammar import create_view
from penstock.table.values.types import Field, with_nullability

_ONE_CONSTRAINT = ("only PRIMARY KEY constraints are supported", "leave it out, and check rows before they are written")
_TWO_KEYS = ("the primary key is named twice", "PRIMARY KEY (a, b) after the columns")


@dataclass(slots=True)
class _TableParts:
    """The parts of CREATE TABLE that are read so far."""

    columns: list[Field] = field(default_factory=list)
    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)
    watermark: tuple[str, str] | None = None
    temporary: bool = False
    connector: str | None = None
    comment: str | None = None
    like: Names | None = None
    like_options: frozenset[str] = LIKE_OPTIONS
    query: str | None = None


def create(cursor: Cursor) -> Statement:
    """Read CREATE."""
    begin = cursor.mark
    cursor.expect("create")
    replaced = cursor.skip("or", "replace")
    temporary = cursor.skip_any("temporary", "temp") is not None
    match cursor.word():
        case "database" | "schema" if not replaced:
            return create_database(cursor)
        case "table" if not (temporary and replaced):
            return _create_table(cursor, "any" if replaced else None, temporary)
        case "view" if temporary:
            cursor.skip("view")
            unless_exists = cursor.skip("if", "not", "exists")
            name = cursor.name()
            # DuckDB keeps the view, so it receives the whole text of the statement.
            cursor.back_to(begin)
            return View(name, cursor.rest(), unless_exists=unless_exists)
        case "view":
            return create_view(cursor, replaced=replaced)
        case "catalog":
            return create_catalog(cursor)
    hint = _CREATED_INSTEAD.get(cursor.word(), "CREATE DATABASE, TABLE, VIEW or TEMPORARY VIEW")
    raise cursor.error(f"CREATE {cursor.word().upper()} is not supported", hint)


# What to write instead of what other engines create.
_CREATED_INSTEAD = {
    "external": "CREATE TABLE t (...) LOCATION 'path', or WITH ('path' = 'path'), is a table in another folder",
    "function": NOT_KEPT["function"],
    "index": (
        "leave the statement out: files are skipped by their statistics, and CALL sys.compact(order_strategy => ...) "
        "sorts rows"
    ),
}


def replace(cursor: Cursor) -> CreateTable:
    """Read REPLACE TABLE."""
    cursor.expect("replace")
    if cursor.word() != "table":
        cursor.fail("TABLE is expected", hint="INSERT INTO a table with a primary key replaces its rows")
    return _create_table(cursor, "existing")


def _create_table(cursor: Cursor, replaces: str | None, temporary: bool = False) -> CreateTable:
    cursor.expect("table")
    if replaces is not None and cursor.word() == "if":
        cursor.fail("IF NOT EXISTS contradicts REPLACE")
    if_not_exists = cursor.skip("if", "not", "exists")
    name = cursor.names()
    parts = _read_parts(cursor, temporary)
    path = None if parts.connector else parts.options.pop("path", None)
    _check_temporary(cursor, name[-1], parts, in_database=len(name) > 1, path=path)
    if path is not None and (replaces or parts.like or parts.query):
        cursor.fail("a table with a path is created from columns only", hint="CREATE TABLE, then INSERT INTO")
    if not (parts.columns or parts.like or parts.query or path):
        cursor.fail("a table needs columns", hint="CREATE TABLE t (id INT, ...), ... LIKE other, or ... AS SELECT")
    return CreateTable(
        name,
        if_not_exists,
        tuple(parts.columns),
        parts.keys,
        parts.partitions,
        parts.options,
        comment=parts.comment,
        like=parts.like,
        like_options=parts.like_options,
        query=parts.query,
        path=path,
        replaces=replaces,
        connector=parts.connector,
    )


def _read_parts(cursor: Cursor, temporary: bool) -> _TableParts:
    """Read what follows the name: columns in brackets, and clauses."""
    parts = _TableParts(temporary=temporary)
    # Read ahead, because TIMESTAMP and BINARY mean different types in the two dialects, and columns come first.
    spark = _is_spark(cursor)
    if cursor.skip("("):
        while True:
            _element(cursor, parts, spark=spark)
            if not cursor.skip(","):
                break
        _add_flink_options(cursor, parts)
        cursor.expect(")")
    # In any order: the two dialects have different ones.
    while not cursor.at_end:
        _clause(cursor, parts, spark=spark)
    return parts


def _check_temporary(cursor: Cursor, name: str, parts: _TableParts, *, in_database: bool, path: str | None) -> None:
    if parts.connector is not None and (in_database or not parts.columns):
        hint = f"CREATE TEMPORARY TABLE {name} (id INT, ...) WITH (...)"
        cursor.fail("a temporary table of a connector has columns, and a name without a database", hint=hint)
    if parts.temporary and parts.connector is None and path is None:
        cursor.fail(
            "a temporary table needs the path of a Paimon table",
            hint="WITH ('connector' = 'paimon', 'path' = '...'); or CREATE TEMPORARY VIEW v AS SELECT ...",
        )


def _is_spark(cursor: Cursor) -> bool:
    """Return whether clauses of Spark follow: USING or TBLPROPERTIES, before a query begins."""
    ahead, depth = 0, 0
    while (word := cursor.word(ahead)) and not (depth == 0 and word == "as"):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in {"using", "tblproperties"}:
            return True
        ahead += 1
    return False


def _element(cursor: Cursor, parts: _TableParts, *, spark: bool) -> None:
    if cursor.skip("constraint"):
        cursor.name()
        if cursor.word() != "primary":
            cursor.fail(*_ONE_CONSTRAINT)
    if cursor.skip("primary", "key"):
        if parts.keys:
            cursor.fail(*_TWO_KEYS)
        parts.keys = cursor.name_list()
        cursor.skip("not", "enforced")
    elif (cursor.word(), cursor.word(1)) in {("unique", "("), ("check", "("), ("foreign", "key")}:
        cursor.fail(*_ONE_CONSTRAINT)
    elif cursor.word() == "watermark" and cursor.word(1) == "for":
        if parts.watermark is not None:
            cursor.fail("a table has one watermark", hint="keep the one that Flink should use")
        parts.watermark = read_watermark(cursor)
    elif cursor.word(1) == "as":
        _computed(cursor, parts)
    else:
        column = read_column(cursor, spark)
        parts.columns.append(column.field)
        if column.is_key:
            if parts.keys:
                cursor.fail(*_TWO_KEYS)
            parts.keys = (column.field.name,)


def _computed(cursor: Cursor, parts: _TableParts) -> None:
    """Read a column that Flink computes. The table has it as options, as Paimon's catalog of Flink writes them."""
    name, expression, comment = read_computed_column(cursor)
    place = len(parts.columns) + len(parts.computed)
    parts.computed.append(name)
    parts.options |= computed_column(place, name, expression, comment)


def _add_flink_options(cursor: Cursor, parts: _TableParts) -> None:
    """Check the columns that Flink computes, and add the options of the watermark."""
    types = {column.name: written(with_nullability(column.type, nullable=True)) for column in parts.columns}
    twice = next((name for name in parts.computed if name in types or parts.computed.count(name) > 1), None)
    if twice is not None:
        cursor.fail(f"the column {twice!r} is named twice")
    for name in (*parts.keys, *parts.partitions):
        if name in parts.computed:
            cursor.fail(f"the computed column {name!r} cannot be a key", hint="make it a column, and INSERT its values")
    if parts.computed and not parts.columns:
        cursor.fail("a table needs columns that are not computed")
    if parts.watermark is not None:
        column, expression = parts.watermark
        if column not in types and column not in parts.computed:
            cursor.fail(f"the watermark names a column {column!r} that the table does not have")
        refused = [field for field in parts.columns if field.name == column and not may_have_watermark(field.type)]
        if refused:
            cursor.fail(f"the column {column!r} cannot have a watermark in Flink", hint=WATERMARK_COLUMN_TYPES)
        parts.options |= watermark_options(column, expression, types.get(column))


def _clause(cursor: Cursor, parts: _TableParts, *, spark: bool) -> None:
    match cursor.word():
        case "comment":
            cursor.skip("comment")
            parts.comment = cursor.string()
        case "partitioned":
            cursor.expect("partitioned", "by")
            _partitions(cursor, parts, spark)
        case "with" | "tblproperties" | "options":
            cursor.skip_any("with", "tblproperties", "options")
            options = cursor.options()
            if parts.temporary and options.get("connector") in READ_CONNECTORS:
                parts.connector = options.pop("connector")
            parts.options |= options if parts.connector else own_options(cursor, options)
        case "using":
            cursor.skip("using")
            if cursor.word() not in OURS:
                cursor.fail(f"{cursor.word()!r} tables are not created here", hint="USING paimon, or leave it out")
            cursor.name()
        case "location":
            cursor.skip("location")
            # In Spark, a table that is not there yet is created at its location.
            parts.options |= {"path": cursor.string(), "auto-create": "true"}
        case "like":
            if parts.columns:
                cursor.fail(
                    "a table LIKE another has its columns", hint="leave the list out, and add columns by ALTER TABLE"
                )
            cursor.skip("like")
            parts.like = cursor.names()
            parts.like_options = read_like_options(cursor)
        case "as":
            cursor.skip("as")
            if parts.columns:
                cursor.fail("a table AS a query has the query's columns", hint="leave the list of columns out")
            parts.query = cursor.rest()
            if not parts.query:
                cursor.fail("a query is expected")
        case _:
            cursor.fail("COMMENT, PARTITIONED BY, WITH, TBLPROPERTIES, LOCATION, LIKE or AS is expected")


def _partitions(cursor: Cursor, parts: _TableParts, spark: bool) -> None:
    cursor.expect("(")
    names = []
    while True:
        # A name alone refers to a column of the list. A name with a type declares a column here, as in Hive.
        if cursor.word(1) in {",", ")"}:
            names.append(cursor.name())
        elif cursor.word(1) == "(":
            cursor.fail(
                f"tables are not partitioned by {cursor.word()}(...)",
                hint="partition by a column, computed when rows are written; 'bucket' and 'bucket-key' are options",
            )
        else:
            column = read_column(cursor, spark).field
            parts.columns.append(column)
            names.append(column.name)
        if not cursor.skip(","):
            break
    cursor.expect(")")
    parts.partitions = tuple(names)
