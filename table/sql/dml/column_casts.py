"""The SQL that casts values to the types of columns, and refuses values that are longer than the type allows."""

from __future__ import annotations

from penstock.table.schema.type_text import written
from penstock.table.sql.queries.engine_errors import too_long
from penstock.table.values.sql_text import literal
from penstock.table.values.types import (
    STRING_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    RowType,
    with_nullability,
)

_LENGTH = {"CHAR": "length", "VARCHAR": "length", "BINARY": "octet_length", "VARBINARY": "octet_length"}


def cast_text(value: str, field: Field, type_: str) -> str:
    """Return the SQL that casts a value to the type of a column. The writer converts JSON to VARIANT."""
    cast = f"CAST({value} AS {type_})"
    # In a function of the value, so that the value is computed once: it may be random().
    checked = _checked("x0", field.name, field.type, 0)
    if checked is not None:
        return f"list_transform([{cast}], lambda x0: {checked})[1]"
    if not isinstance(field.type, AtomicType):
        return cast
    root = field.type.root
    if root == "VARIANT":
        return value
    if root == "TIMESTAMP_LTZ" and field.type.precision <= 3:
        # DuckDB has microseconds only. As in a cast to TIMESTAMP(3), digits beyond the precision are cut off.
        return f"date_trunc('{'second' if field.type.precision == 0 else 'millisecond'}', {cast})"
    return cast


def _checked(value: str, column: str, type_: DataType, depth: int) -> str | None:
    """Return the SQL of a value whose texts and bytes have the lengths of the type, which may be inside of others.

    None if the type has no lengths.
    """
    match type_:
        case AtomicType() if type_.root in _LENGTH and type_.length < STRING_LENGTH:
            message = literal(too_long(column, written(with_nullability(type_, nullable=True))))
            return f"CASE WHEN {_LENGTH[type_.root]}({value}) > {type_.length} THEN error({message}) ELSE {value} END"
        case RowType():
            return _checked_row(value, column, type_, depth)
        case ArrayType():
            inner = _checked(f"x{depth + 1}", f"{column}.element", type_.element, depth + 1)
            return inner and f"list_transform({value}, lambda x{depth + 1}: {inner})"
        case MapType():
            entry = f"x{depth + 1}"
            key = _checked(f"{entry}.key", f"{column}.key", type_.key, depth + 1)
            item = _checked(f"{entry}.value", f"{column}.value", type_.value, depth + 1)
            if key is None and item is None:
                return None
            pair = f"{{'key': {key or f'{entry}.key'}, 'value': {item or f'{entry}.value'}}}"
            return f"map_from_entries(list_transform(map_entries({value}), lambda {entry}: {pair}))"
    return None


def _checked_row(value: str, column: str, type_: RowType, depth: int) -> str | None:
    texts = {field.name: f"struct_extract({value}, {literal(field.name)})" for field in type_.fields}
    checked = {
        field.name: _checked(texts[field.name], f"{column}.{field.name}", field.type, depth) for field in type_.fields
    }
    if not any(checked.values()):
        return None
    members = ", ".join(f"{literal(name)}: {checked[name] or text}" for name, text in texts.items())
    return f"CASE WHEN {value} IS NOT NULL THEN {{{members}}} END"
