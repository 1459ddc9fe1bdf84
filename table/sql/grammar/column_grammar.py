"""The grammar of columns: names, types, defaults and comments, in the dialects of Flink and Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from penstock.errors import ConfigError
from penstock.table.schema.type_text import read_type
from penstock.table.sql.grammar.cursor import Cursor
from penstock.table.values.arrow_types import NO_ID
from penstock.table.values.types import DataType, Field, with_nullability

# Words that follow a type, and so end it, unless they are inside of its brackets.
_TYPE_ENDS = frozenset(
    {
        *(
            "not",
            "null",
            "primary",
            "comment",
            "first",
            "after",
            "default",
            "as",
            "metadata",
            "generated",
            "constraint",
        ),
        *("check", "collate", "references", "unique"),
        *(",", ")", ""),
    }
)
_COMPUTED = "compute the column in a SELECT; Flink's computed columns (c AS expression) are named by CREATE TABLE"
# Dates and times with a type in front of them.
_TYPED_LITERAL = re.compile(r"(?:date|time|timestamp(?:_ntz|_ltz)?)\s*'([^']*)'", re.IGNORECASE)
_BYTES = "utf8_binary"  # Spark's collation of texts that has no other order or equality than their bytes
# What to do instead of clauses that a column of a table cannot have.
_INSTEAD = {
    "check": "leave it out, and check rows before they are written",
    "collate": "leave it out: texts are compared by their bytes",
    "metadata": "leave it out: Flink cannot read tables of Paimon that have metadata columns",
    "constraint": "PRIMARY KEY (a, b) is the only constraint, after the columns",
    "references": "leave it out: no foreign keys are kept",
    "unique": "PRIMARY KEY, if the rows are known by this column; else leave it out",
}
# Names that Spark and DuckDB use for Paimon's types.
_SYNONYMS = {
    "long": "BIGINT",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "real": "FLOAT",
    "text": "STRING",
    "struct": "ROW",
    "timestamp_ntz": "TIMESTAMP",
    "bool": "BOOLEAN",
}
# Types that mean something else in Spark than in Flink.
_OF_SPARK = {"timestamp": "TIMESTAMP_LTZ", "binary": "BYTES"}
# Names of members match before words do: `STRUCT<long: INT>` has a member named long.
_TYPE_WORD = re.compile(r"`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|\w+\s*:|(?<=[<,])\s*\w+(?=\s+\w)|\w+")


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """The position that a column is added or moved to."""

    first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """A column as a statement describes it; `says_null` if it has the word NULL, and not only no NOT NULL."""

    field: Field
    place: ColumnPlace
    is_key: bool
    says_null: bool


def read_column(cursor: Cursor, spark: bool = False, nested: bool = False) -> WrittenColumn:
    """Read a column with its type and what follows it."""
    name = ".".join(cursor.names()) if nested else cursor.name()
    if cursor.word() in {"as", "metadata", "generated"}:
        cursor.fail("a computed column is not supported here", hint=_COMPUTED)
    column = Field(NO_ID, name, read_column_type(cursor, spark))
    place, is_key, says_null = ColumnPlace(), False, False
    while (word := cursor.word()) in _TYPE_ENDS and word not in {",", ")", ""}:
        if cursor.skip("not", "null"):
            column = replace(column, type=with_nullability(column.type, nullable=False))
        elif cursor.skip("primary", "key"):
            cursor.skip("not", "enforced")
            is_key = True
        elif cursor.skip("comment"):
            column = replace(column, description=cursor.string())
        elif cursor.skip("default"):
            column = replace(column, default=read_default(cursor))
        elif cursor.skip("first"):
            place = ColumnPlace(first=True)
        elif cursor.skip("after"):
            place = ColumnPlace(after=cursor.name())
        elif cursor.skip("null"):
            says_null = True
        else:
            refuse_clause(cursor)
    return WrittenColumn(column, place, is_key, says_null)


def read_computed_column(cursor: Cursor) -> tuple[str, str, str | None]:
    """Read `c AS price * qty COMMENT 'x'`, and return the name, the expression and the comment."""
    name = cursor.name()
    cursor.expect("as")
    expression = cursor.until(",", ")", "comment")
    if not expression:
        cursor.fail("an expression is expected")
    return name, expression, cursor.string() if cursor.skip("comment") else None


def read_watermark(cursor: Cursor) -> tuple[str, str]:
    """Read `WATERMARK FOR ts AS ts - INTERVAL '5' SECOND`, and return the column and the expression."""
    cursor.expect("watermark", "for")
    column = cursor.name()
    cursor.expect("as")
    expression = cursor.until(",", ")")
    return column, expression or cursor.fail("an expression is expected")


def refuse_clause(cursor: Cursor) -> None:
    """Refuse a clause that columns of other databases have. The collation that Spark writes for texts is skipped."""
    if not cursor.skip("collate", _BYTES):  # as Spark's SHOW CREATE TABLE writes it
        word = cursor.word()
        cursor.fail(f"{word.upper()} is not supported in a column", hint=_INSTEAD.get(word, _COMPUTED))


def is_clause_of_others(cursor: Cursor) -> bool:
    """Return whether a clause follows that columns of other databases have."""
    return cursor.word() in _INSTEAD


def read_default(cursor: Cursor) -> str | None:
    """Read the literal of DEFAULT, and return its text; None for NULL."""
    if cursor.kind() == "string":
        return cursor.string()
    text = cursor.until(",", ")", "comment", "first", "after", "not", *_INSTEAD)
    if (typed := _TYPED_LITERAL.fullmatch(text)) is not None:
        return typed[1]
    if not re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?|true|false|null", text, re.IGNORECASE):
        cursor.fail(f"the default {text!r} is not a literal", hint="a number, a text in single quotes, TRUE or FALSE")
    return None if text.lower() == "null" else text


def read_column_type(cursor: Cursor, spark: bool = False) -> DataType:
    """Read a type."""
    error = cursor.error("a type is expected")
    begin, text = cursor.mark, _type_text(cursor)
    if not text:
        raise error
    try:
        return read_type(_TYPE_WORD.sub(lambda word: _type_word(word[0], spark=spark), text))
    except ConfigError as reason:
        cursor.back_to(begin)
        hint = f"write it as ARRAY<{text[:-2].strip()}>" if text.endswith("[]") else reason.hint
        raise cursor.error(reason.message, hint) from reason


def _type_text(cursor: Cursor) -> str:
    begin, depth = cursor.place.offset, 0
    end = begin
    while (word := cursor.word()) and not (depth == 0 and word in _TYPE_ENDS):
        depth += (word in {"(", "<"}) - (word in {")", ">"})
        end = cursor.place.offset + len(word)
        cursor.skip(word)
    return cursor.sql[begin:end]


def _type_word(word: str, *, spark: bool) -> str:
    lower = word.lower()
    return _SYNONYMS.get(lower) or (_OF_SPARK.get(lower) if spark else None) or word
