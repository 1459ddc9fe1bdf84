"""The SQL that casts values to the types of columns, and refuses values that are longer than the type allows."""

from __future__ import annotations

from penstock.table.schema.type_text import written
from penstock.table.sql.queries.engine_errors import too_long
from penstock.table.values.sql_text import literal
from penstock.table.values.types import AtomicType, Field, with_nullability

# The length of STRING and BYTES, which are VARCHAR and VARBINARY without a limit.
_UNLIMITED = 2**31 - 1
_LENGTH = {"CHAR": "length", "VARCHAR": "length", "BINARY": "octet_length", "VARBINARY": "octet_length"}


def cast_text(value: str, field: Field, type_: str) -> str:
    """Return the SQL that casts a value to the type of a column. The writer converts JSON to VARIANT."""
    cast = f"CAST({value} AS {type_})"
    if not isinstance(field.type, AtomicType):
        return cast
    root = field.type.root
    if root == "VARIANT":
        return value
    if root == "TIMESTAMP_LTZ" and field.type.precision <= 3:
        # DuckDB has microseconds only. As in a cast to TIMESTAMP(3), digits beyond the precision are cut off.
        return f"date_trunc('{'second' if field.type.precision == 0 else 'millisecond'}', {cast})"
    if root in _LENGTH and field.type.length < _UNLIMITED:
        return _of_length(cast, field, field.type, _LENGTH[root])
    return cast


def _of_length(cast: str, field: Field, type_: AtomicType, length: str) -> str:
    message = too_long(field.name, written(with_nullability(type_, nullable=True)))
    # In a function of the value, so that the value is computed once: it may be random().
    checked = f"CASE WHEN {length}(x) > {type_.length} THEN error({literal(message)}) ELSE x END"
    return f"list_transform([{cast}], lambda x: {checked})[1]"
