"""The values that a statement may store in a column: a cast that would lose a part of a value is refused.

Casts are DuckDB's, which cuts the time of day off a text for a DATE, and takes `'yes'` and 5 for true.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.sql.dml.column_casts import cast_text
from penstock.table.sql.queries.engine_errors import not_stored
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.sql_text import literal
from penstock.table.values.types import AtomicType, Field

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
# The SQL condition of the texts `y` that a cast to the type would take in part, or for another value.
_REFUSED_TEXTS = {
    "BOOLEAN": "lower(trim(y)) NOT IN ('true', 'false')",
    "DATE": "contains(y, ':')",
    "TIME": r"regexp_matches(y, '^\s*[0-9]+-[0-9]+-')",
    "TIMESTAMP": r"regexp_matches(y, ':[0-9.]+\s*[+-][0-9:]*[1-9]')",
    **dict.fromkeys(_INTEGERS, "TRY_CAST(y AS DOUBLE) <> trunc(TRY_CAST(y AS DOUBLE))"),
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
    root = field.type.root if isinstance(field.type, AtomicType) else ""
    if root == "BOOLEAN" and _is_number(given):
        raise ConfigError(
            f"a number cannot be stored in the column {field.name!r}, which is BOOLEAN",
            table=table,
            hint=_INSTEAD[root],
        )
    if root in _REFUSED_TEXTS and (pa.types.is_string(given) or pa.types.is_large_string(given)):
        message = literal(not_stored(field.name, root, _INSTEAD[root]))
        # In a function of the value, so that the value is computed once: it may be random().
        checked = f"CASE WHEN {_REFUSED_TEXTS[root]} THEN error({message}) ELSE y END"
        return cast_text(f"list_transform([{value}], lambda y: {checked})[1]", field, type_)
    return cast_text(value, field, type_)


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def refuse_unknown_fields(table: str, column: str, given: pa.DataType, own: pa.DataType) -> None:
    """Raise ConfigError if structs of a query have a field that those of the column do not have: a cast drops it."""
    if pa.types.is_list(given) and pa.types.is_list(own):
        refuse_unknown_fields(table, f"{column}.element", given.value_type, own.value_type)
    if pa.types.is_map(given) and pa.types.is_map(own):
        refuse_unknown_fields(table, f"{column}.value", given.item_type, own.item_type)
    if not (pa.types.is_struct(given) and pa.types.is_struct(own)):
        return
    # row(1, 2), whose fields DuckDB names like this, is cast by the places of its fields.
    if [field.name for field in given.fields] == [f"element{at}" for at in range(1, given.num_fields + 1)]:
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
