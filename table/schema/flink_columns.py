"""Computed columns and watermarks of Flink: options of a table that only Flink acts on, as its catalog writes them.

`schema.2.name` = `total` and `schema.2.expr` = `price * qty` are a column at the third place among all columns. Files
have no values of it: Flink computes them when it reads the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import ConfigError
from penstock.table.options.flink import (
    COLUMN_COMMENT,
    COLUMN_EXPRESSION,
    COLUMN_METADATA,
    COLUMN_NAME,
    COLUMN_TYPE,
    COLUMN_VIRTUAL,
    WATERMARK_COLUMN,
    WATERMARK_EXPRESSION,
    WATERMARK_TYPE,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import AtomicType, DataType

_OF_COLUMN = (COLUMN_NAME, COLUMN_EXPRESSION, COLUMN_TYPE, COLUMN_COMMENT, COLUMN_METADATA, COLUMN_VIRTUAL)
_OF_WATERMARK = (WATERMARK_COLUMN, WATERMARK_EXPRESSION, WATERMARK_TYPE)
_ZONED = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
# The types of the functions that most such columns are made of. Flink finds the others itself when it reads them.
_TYPES = {
    r"PROCTIME\s*\(\s*\)": f"{_ZONED} NOT NULL",
    r"TO_TIMESTAMP_LTZ\s*\([^()]*\)": _ZONED,
    r"TO_TIMESTAMP\s*\([^()]*\)": "TIMESTAMP(3)",
}
WATERMARK_COLUMN_TYPES = "TIMESTAMP(3) or TIMESTAMP_LTZ(3); of others, a computed column such as TO_TIMESTAMP_LTZ(c, 3)"
_TEXTS = re.compile(r"'(?:[^']|'')*'")


@dataclass(frozen=True, slots=True)
class FlinkColumn:
    """A column that Flink computes by `expression`, or reads from the metadata of rows.

    `texts` are its options without the place.
    """

    place: int
    name: str
    texts: Mapping[str, str]

    @property
    def expression(self) -> str | None:
        return self.texts.get(_last(COLUMN_EXPRESSION.key))

    @property
    def described(self) -> str:
        """Return what follows the name in CREATE TABLE, without the comment."""
        if self.expression is not None:
            return f"AS {self.expression}"
        source = self.texts.get(_last(COLUMN_METADATA.key), self.name)
        source = "" if source == self.name else f" FROM '{source}'"
        virtual = " VIRTUAL" if self.texts.get(_last(COLUMN_VIRTUAL.key)) == "true" else ""
        return f"{self.texts.get(_last(COLUMN_TYPE.key), 'STRING')} METADATA{source}{virtual}"

    @property
    def comment(self) -> str | None:
        return self.texts.get(_last(COLUMN_COMMENT.key))

    @property
    def options(self) -> dict[str, str]:
        return {f"schema.{self.place}.{key}": text for key, text in self.texts.items()}


def computed_column(place: int, name: str, expression: str, comment: str | None) -> dict[str, str]:
    """Return the options for a computed column."""
    texts = {_last(COLUMN_NAME.key): name, _last(COLUMN_EXPRESSION.key): expression}
    type_ = next((type_ for form, type_ in _TYPES.items() if re.fullmatch(form, expression, re.IGNORECASE)), None)
    if type_ is not None:
        texts[_last(COLUMN_TYPE.key)] = type_
    if comment is not None:
        texts[_last(COLUMN_COMMENT.key)] = comment
    return FlinkColumn(place, name, texts).options


def watermark_options(column: str, expression: str, type_: str | None) -> dict[str, str]:
    """Return the options for `WATERMARK FOR column AS expression`."""
    options = {WATERMARK_COLUMN.key: column, WATERMARK_EXPRESSION.key: expression}
    return options if type_ is None else {**options, WATERMARK_TYPE.key: type_}


def flink_columns(options: Mapping[str, str], physical: Sequence[str]) -> list[FlinkColumn]:
    """Return the columns that Flink computes, by their places. `physical` names the columns of the table itself."""
    typed = TableOptions(options)
    found = []
    for place, option in typed.matching(COLUMN_NAME):
        name = options[option.key]
        if place.isdecimal() and name not in physical:
            own = {_last(part.key): options.get(part.of(place).key) for part in _OF_COLUMN}
            found.append(FlinkColumn(int(place), name, {key: text for key, text in own.items() if text is not None}))
    return sorted(found, key=lambda column: column.place)


def watermark(options: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the column and the expression of the watermark; None without one."""
    typed = TableOptions(options)
    column, expression = typed[WATERMARK_COLUMN], typed[WATERMARK_EXPRESSION]
    return None if column is None or expression is None else (column, expression)


def without_flink_columns(
    options: Mapping[str, str], physical: Sequence[str], *, columns: bool = True, watermarks: bool = True
) -> dict[str, str]:
    """Return the options of the table itself, without those of Flink's columns and watermark."""
    gone = {option.key for option in _OF_WATERMARK} if watermarks else set()
    for column in flink_columns(options, physical) if columns else ():
        gone |= column.options.keys()
    return {key: text for key, text in options.items() if key not in gone}


def with_flink_columns(schema: TableSchema, before: TableSchema) -> TableSchema:
    """Return the changed schema with the places of Flink's columns moved to fit its own columns.

    Flink numbers all columns together, and cannot open a table with a number that is too great. ConfigError if a
    column is gone that an expression needs, or if a new column has the name of a column of Flink.
    """
    names = [field.name for field in schema.fields]
    former = [field.name for field in before.fields]
    columns, after = flink_columns(before.options, former), flink_columns(schema.options, names)
    marked = watermark(schema.options)
    if not columns and not after and not any(_of_watermark(schema)):
        return schema
    _check_whole(after, columns)
    kept = [column for column in columns if column.options.items() <= schema.options.items()]
    for name in {*former, *(column.name for column in columns)} - {*names, *(column.name for column in after)}:
        _check_unneeded(name, after, marked)
    taken = {column.name for column in kept} & set(names)
    if taken:
        raise ConfigError(
            f"Flink computes the column {min(taken)!r} of this table",
            hint="choose another name; or RESET the options schema.N.name and schema.N.expr of the computed column",
        )
    if _of_watermark(schema) != _of_watermark(before):
        _check_watermark(schema, after)
    return replace(schema, options=_placed(schema.options, after, len(names)))


def _check_whole(columns: Sequence[FlinkColumn], before: Sequence[FlinkColumn]) -> None:
    """Refuse a changed column without a source of its values, with which Flink cannot open the table."""
    for column in columns:
        if (
            column not in before
            and not {_last(COLUMN_EXPRESSION.key), _last(COLUMN_METADATA.key)} & column.texts.keys()
        ):
            raise ConfigError(
                f"the computed column {column.name!r} has no expression, so Flink cannot open the table",
                hint=f"SET or RESET schema.{column.place}.name and schema.{column.place}.expr together",
            )


def _of_watermark(schema: TableSchema) -> list[object]:
    """Return the options of the watermark and the type of its column."""
    options = [schema.options.get(option.key) for option in _OF_WATERMARK]
    return [*options, next((field.type for field in schema.fields if field.name == options[0]), None)]


def _check_watermark(schema: TableSchema, columns: Sequence[FlinkColumn]) -> None:
    """Refuse a watermark with which Flink cannot open the table."""
    given = [option.key for option in _OF_WATERMARK if option.key in schema.options]
    if not given:
        return
    marked = watermark(schema.options)
    if marked is None:
        raise ConfigError(
            "the watermark has no column or no expression, so Flink cannot open the table",
            options=", ".join(given),
            hint="ALTER TABLE t DROP WATERMARK removes all of its options",
        )
    column = marked[0]
    type_ = next((field.type for field in schema.fields if field.name == column.partition(".")[0]), None)
    if type_ is None and column not in [computed.name for computed in columns]:
        raise ConfigError(
            f"the watermark names a column {column!r} that the table does not have",
            hint="ALTER TABLE t MODIFY WATERMARK FOR c AS c, with one of its columns; DROP WATERMARK removes it",
        )
    if type_ is not None and "." not in column and not may_have_watermark(type_):
        raise ConfigError(
            f"the column {column!r} cannot have a watermark in Flink", type=type_, hint=WATERMARK_COLUMN_TYPES
        )


def may_have_watermark(type_: DataType) -> bool:
    """Return whether Flink accepts a watermark of a column of this type."""
    return isinstance(type_, AtomicType) and type_.root in {"TIMESTAMP", "TIMESTAMP_LTZ"} and type_.precision <= 3


def _placed(options: Mapping[str, str], columns: Sequence[FlinkColumn], physical: int) -> dict[str, str]:
    """Return the options with columns at smaller places, where there are too few columns before them."""
    limit, placed = physical + len(columns), []
    for column in reversed(columns):
        limit = min(column.place, limit - 1)
        placed.append(replace(column, place=limit))
    former = {key for column in columns for key in column.options}
    moved = {key: text for column in placed for key, text in column.options.items()}
    return {key: text for key, text in options.items() if key not in former} | moved


def _check_unneeded(name: str, columns: Sequence[FlinkColumn], marked: tuple[str, str] | None) -> None:
    expressions = {f"the computed column {column.name!r}": column.expression or "" for column in columns}
    if marked is not None:
        expressions["the watermark"] = f"`{marked[0]}` {marked[1]}"
    for user, expression in expressions.items():
        if mentions_column(expression, name):
            raise ConfigError(
                f"{user}, which Flink uses, needs the column {name!r}",
                expression=expression,
                hint="DROP WATERMARK first"
                if user == "the watermark"
                else "RESET the options schema.N.name and schema.N.expr of the computed column first",
            )


def mentions_column(expression: str, name: str) -> bool:
    """Return whether an expression mentions the column, in backquotes or without."""
    return (
        re.search(rf"`{re.escape(name)}`|(?<![\w`.]){re.escape(name)}(?![\w`(])", _TEXTS.sub("", expression))
        is not None
    )


def _last(key: str) -> str:
    """Return the part of a key behind the place."""
    return key.rpartition(".")[2]
