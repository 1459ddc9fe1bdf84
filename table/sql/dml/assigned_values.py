"""The new values of columns. A struct may be set as a whole, or by some of its fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from penstock.errors import ConfigError, did_you_mean
from penstock.table.handle import Table
from penstock.table.schema.type_text import written
from penstock.table.sql.dml.inserts import own_name
from penstock.table.sql.grammar.row_statements import Names
from penstock.table.values.sql_text import literal, quoted
from penstock.table.values.types import DataType, RowType

# The SQL of a value, or the values of fields of a struct by their names.
_Value: TypeAlias = "str | dict[str, _Value]"


def assigned_values(table: Table, alias: str, assignments: Iterable[tuple[Names, str]]) -> dict[str, str]:
    """Return the SQL of the new value of each assigned column.

    A struct of which fields are set (`SET s.a = 5`) keeps the values of its other fields. As in Spark, a struct that is
    null becomes one whose other fields are null.
    """
    types = {field.name: field.type for field in table.definition.fields}
    values: dict[str, _Value] = {}
    for (name, *fields), text in assignments:
        column = own_name(table, name)
        path = (column, *_own_fields(table, column, types[column], fields))
        _put(table, values, path, text)
    return {column: _text(value, types[column], f"{alias}.{quoted(column)}") for column, value in values.items()}


def _own_fields(table: Table, column: str, type_: DataType, fields: Iterable[str]) -> Iterable[str]:
    """Return the names of the fields as the type has them; those of the statement may differ in case."""
    path = column
    for name in fields:
        known = _fields(type_)
        if not known:
            raise ConfigError(
                f"{path!r} is {written(type_)} and has no fields to set",
                table=table.name,
                column=column,
                hint="set the whole value of the column",
            )
        own = [field for field in known if field == name] or [field for field in known if field.lower() == name.lower()]
        if len(own) != 1:
            raise ConfigError(
                f"the struct {path!r} has no field {name!r}",
                table=table.name,
                fields=", ".join(known),
                hint=did_you_mean(name, list(known), "name a field of the struct"),
            )
        yield own[0]
        path, type_ = f"{path}.{own[0]}", known[own[0]]


def _fields(type_: DataType) -> Mapping[str, DataType]:
    return {field.name: field.type for field in type_.fields} if isinstance(type_, RowType) else {}


def _put(table: Table, values: dict[str, _Value], path: Names, text: str) -> None:
    """Put the value of a path into the values; a path may be set once, and not with a part of it."""
    at = values
    for name in path[:-1]:
        inner = at.setdefault(name, {})
        if isinstance(inner, str):
            raise _set_twice(table, path)
        at = inner
    if path[-1] in at:
        raise _set_twice(table, path)
    at[path[-1]] = text


def _set_twice(table: Table, path: Names) -> ConfigError:
    return ConfigError(f"the column {'.'.join(path)!r} is set twice", table=table.name, hint="set it once")


def _text(value: _Value, type_: DataType, old: str) -> str:
    """Return the SQL of a value; `old` is the SQL of the one that it replaces."""
    if isinstance(value, str):
        return value
    parts = []
    for name, field_type in _fields(type_).items():
        kept = f"struct_extract({old}, {literal(name)})"
        parts.append(f"{literal(name)}: {_text(value[name], field_type, kept) if name in value else kept}")
    return f"{{{', '.join(parts)}}}"
