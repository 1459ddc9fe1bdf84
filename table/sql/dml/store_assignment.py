"""The values that a statement may store in a column: a cast that would lose a part of a value is refused.

Casts are DuckDB's, which cuts the time of day off a text for a DATE, and takes `'yes'` and 5 for true.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.sql.dml.column_casts import cast_text
from penstock.table.sql.queries.engine_errors import not_stored
from penstock.table.values.arrow_types import is_number, to_arrow
from penstock.table.values.internal import entry_types
from penstock.table.values.sql_text import literal, quoted
from penstock.table.values.types import ArrayType, AtomicType, DataType, Field, MapType, MultisetType, RowType

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
# The SQL condition of the texts that a cast to the type would take in part, or for another value.
_REFUSED_TEXTS = {
    "BOOLEAN": "lower(trim({0})) NOT IN ('true', 'false')",
    "DATE": "contains({0}, ':')",
    "TIME": r"regexp_matches({0}, '^\s*[0-9]+-[0-9]+-')",
    "TIMESTAMP": r"regexp_matches({0}, ':[0-9.]+\s*[+-][0-9:]*[1-9]')",
    **dict.fromkeys(_INTEGERS, "TRY_CAST({0} AS DOUBLE) <> trunc(TRY_CAST({0} AS DOUBLE))"),
}
_INSTEAD = {
    "BOOLEAN": "write true or false, or compare the value: x = 'yes', x <> 0",
    "DATE": "CAST(CAST(x AS TIMESTAMP) AS DATE) leaves the time of day out",
    "TIME": "CAST(CAST(x AS TIMESTAMP) AS TIME) leaves the date out",
    "TIMESTAMP": "CAST(CAST(x AS TIMESTAMPTZ) AS TIMESTAMP) is the time in UTC",
    **dict.fromkeys(_INTEGERS, "CAST(x AS DOUBLE) is rounded, and trunc(CAST(x AS DOUBLE)) cut off"),
}


def assigned_text(table: str, value: str, field: Field, type_: str, given: pa.DataType | None) -> str:
    """Return the SQL of a value of a type as the column stores it. None: the type cannot lose anything.

    Raises ConfigError if no value of the type can be stored; the statement fails at a value that cannot be.
    """
    if given is None:
        return cast_text(value, field, type_)
    refuse_unknown_fields(table, field.name, given, to_arrow(field.type))
    checks = list(_checks(table, field.name, "y", given, field.type))
    if checks:
        # In a function of the value, so that the value is computed once: it may be random().
        checked = f"CASE {' '.join(f'WHEN {condition} THEN error({text})' for condition, text in checks)} ELSE y END"
        return cast_text(f"list_transform([{value}], lambda y: {checked})[1]", field, type_)
    return cast_text(value, field, type_)


def _checks(
    table: str, column: str, value: str, given: pa.DataType, type_: DataType, depth: int = 0
) -> Iterator[tuple[str, str]]:
    """Yield the SQL of the conditions under which a value cannot be stored, with the SQL of the message of each.

    Raises ConfigError if no value can.
    """
    if isinstance(type_, AtomicType):
        if type_.root == "BOOLEAN" and is_number(given):
            raise ConfigError(
                f"a number cannot be stored in the column {column!r}, which is BOOLEAN",
                table=table,
                hint=_INSTEAD[type_.root],
            )
        if type_.root in _REFUSED_TEXTS and _is_text(given):
            message = not_stored(column, type_.root, _INSTEAD[type_.root])
            yield _REFUSED_TEXTS[type_.root].format(value), literal(message)
    elif _is_text(given):
        # A cast of '[1.5]' casts the texts of its members, which are checked like other texts.
        members = f"TRY_CAST({value} AS {_sql_of_texts(type_)})"
        yield from _checks(table, column, members, _of_texts(type_), type_, depth)
    elif isinstance(type_, RowType) and pa.types.is_struct(given):
        for at, (name, own) in enumerate(_fields_by_place(given, type_)):
            part = f"struct_extract({value}, {at + 1 if _is_unnamed(given) else literal(name)})"
            yield from _checks(table, f"{column}.{own.name}", part, given.field(at).type, own.type, depth)
    elif isinstance(type_, ArrayType) and (pa.types.is_list(given) or pa.types.is_fixed_size_list(given)):
        yield from _of_elements(table, f"{column}.element", value, given.value_type, type_.element, depth)
    elif isinstance(type_, MapType | MultisetType) and pa.types.is_map(given):
        key, item = entry_types(type_)
        yield from _of_elements(table, f"{column}.key", f"map_keys({value})", given.key_type, key, depth)
        yield from _of_elements(table, f"{column}.value", f"map_values({value})", given.item_type, item, depth)


def _of_elements(
    table: str, column: str, value: str, given: pa.DataType, type_: DataType, depth: int
) -> Iterator[tuple[str, str]]:
    element = f"y{depth}"
    for condition, message in _checks(table, column, element, given, type_, depth + 1):
        yield f"len(list_filter({value}, lambda {element}: {condition})) > 0", message


def _fields_by_place(given: pa.DataType, type_: RowType) -> list[tuple[str, Field]]:
    """Return the names of a struct's fields with the fields of the column that they are stored in."""
    if _is_unnamed(given):
        return [(field.name, own) for field, own in zip(given.fields, type_.fields, strict=False)]
    known = {field.name.lower(): field for field in type_.fields}
    return [(field.name, known[field.name.lower()]) for field in given.fields]


def _is_unnamed(given: pa.DataType) -> bool:
    """Return whether a struct is that of row(1, 2): DuckDB casts it by the places of its fields."""
    return [field.name for field in given.fields] == [f"element{at}" for at in range(1, given.num_fields + 1)]


def _of_texts(type_: DataType) -> pa.DataType:
    """Return the type with texts in the places of its values: what a text of it consists of."""
    match type_:
        case RowType(fields):
            return pa.struct([pa.field(field.name, _of_texts(field.type)) for field in fields])
        case ArrayType(element):
            return pa.list_(_of_texts(element))
        case MapType() | MultisetType():
            key, item = entry_types(type_)
            return pa.map_(_of_texts(key), _of_texts(item))
    return pa.string()


def _sql_of_texts(type_: DataType) -> str:
    match type_:
        case RowType(fields):
            return f"STRUCT({', '.join(f'{quoted(field.name)} {_sql_of_texts(field.type)}' for field in fields)})"
        case ArrayType(element):
            return f"{_sql_of_texts(element)}[]"
        case MapType() | MultisetType():
            return "MAP({}, {})".format(*map(_sql_of_texts, entry_types(type_)))
    return "VARCHAR"


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def refuse_unknown_fields(table: str, column: str, given: pa.DataType, own: pa.DataType) -> None:
    """Raise ConfigError if structs of a query have a field that those of the column do not have: a cast drops it."""
    if pa.types.is_list(given) and pa.types.is_list(own):
        refuse_unknown_fields(table, f"{column}.element", given.value_type, own.value_type)
    if pa.types.is_map(given) and pa.types.is_map(own):
        refuse_unknown_fields(table, f"{column}.value", given.item_type, own.item_type)
    if not (pa.types.is_struct(given) and pa.types.is_struct(own)):
        return
    if _is_unnamed(given):
        return
    known = {field.name.lower(): field for field in own.fields}
    for field in given.fields:
        if field.name.lower() not in known:
            raise ConfigError(
                f"the struct {column!r} has no field {field.name!r}",
                table=table,
                fields=", ".join(member.name for member in own.fields),
                hint="ALTER TABLE t ADD s.field TYPE, or leave the field out",
            )
        refuse_unknown_fields(table, f"{column}.{field.name}", field.type, known[field.name.lower()].type)
