"""Partition values from texts: of folder names, and as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.cast_rules import CastFailed
from penstock.table.values.internal import internal_values
from penstock.table.values.partition_text import DEFAULT_NAME
from penstock.table.values.text_parser import parse_text
from penstock.table.values.types import AtomicType, DataType, Field, type_text


def partition_values(
    spec: Mapping[str, object], fields: Sequence[Field], default_name: str = DEFAULT_NAME
) -> dict[str, object]:
    """Return the internal values of a partition that a user gave by some or all columns: `{"dt": "2024-05-06"}`.

    Texts are parsed by the column's type, and the default name is null, but the text of an Arrow scalar stands for
    itself. Other values are those of Python (a date, a datetime, a Decimal, bytes), or internal values.
    """
    types = {field.name: field.type for field in fields}
    unknown = [name for name in spec if name not in types]
    if unknown:
        raise ConfigError(
            f"{unknown[0]!r} is not a partition column", hint=f"partition columns are {', '.join(types) or 'none'}"
        )
    try:
        return {name: _named_value(value, types[name], default_name) for name, value in spec.items()}
    except CastFailed as error:
        raise ConfigError(
            f"a partition cannot have this value: {error.message}",
            partition=repr(dict(spec)),
            hint="SHOW PARTITIONS  lists the partitions with rows",
        ) from error


def exact_value(value: object) -> object:
    """Return a value that stands for itself: a text is then not the name of the default partition, which is null."""
    return pa.scalar(value) if isinstance(value, str) else value


def _named_value(value: object, type_: DataType, default_name: str | None) -> object:
    if isinstance(value, pa.StringScalar):
        value, default_name = value.as_py(), None
    if not isinstance(type_, AtomicType):
        raise ConfigError(
            "a nested type cannot be a partition column", hint="choose a column of numbers, texts or times"
        )
    # A number for a text column, such as {"dt": 20240506}, means its digits.
    text = type_.root in {"CHAR", "VARCHAR"}
    if not isinstance(value, str):
        return str(value) if text and value is not None else _internal(value, type_)
    if value == default_name:
        return None
    if text:
        return value
    if type_.root in {"BINARY", "VARBINARY"}:
        return value.encode()
    parsed = parse_text(value, type_)
    # The digits of a text are rounded to those of the column.
    return _internal(parsed, type_) if type_.root == "FLOAT" else parsed


def _internal(value: object, type_: AtomicType) -> object:
    """Return the internal value of a Python value. CastFailed if the column cannot have it."""
    # A number stands for itself: it is the internal value of a time.
    if value is None or (isinstance(value, int) and type_.root in {"TIMESTAMP", "TIMESTAMP_LTZ", "TIME", "DATE"}):
        return value
    if isinstance(value, float) and type_.root == "DECIMAL":
        value = Decimal(repr(value))
    try:
        return internal_values(pa.array([value], to_arrow(type_)), type_)[0]
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise CastFailed(f"{value!r} is not a value of {type_text(type_)}", value=value) from error
