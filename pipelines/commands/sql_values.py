"""Values of an Arrow column as `penstock sql` prints them: FLOATs by their shortest digits, maps as JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock import late_pandas
from penstock.pipelines.commands.output import shown

if TYPE_CHECKING:
    import pyarrow as pa

_Conversion = Callable[[Any], object]


def column_values(column: pa.ChunkedArray) -> Sequence[object]:
    """Return the values of a column."""
    late_pandas.needed_for(column.type)
    values: list[object] = column.to_pylist()
    convert = _conversion(column.type)
    return values if convert is None else [_converted(convert, value) for value in values]


def _conversion(type_: pa.DataType) -> _Conversion | None:
    """Return the conversion of values of a type that are not None, or None if they are printed as they are."""
    import pyarrow.types as pat

    if pat.is_interval(type_):
        return lambda value: _interval(*value)
    if pat.is_float32(type_):
        return _float
    if pat.is_map(type_):
        return _map(_conversion(type_.key_type), _conversion(type_.item_type))
    if pat.is_struct(type_):
        return _struct({field.name: _conversion(field.type) for field in type_})
    if pat.is_list(type_) or pat.is_large_list(type_) or pat.is_fixed_size_list(type_):
        items = _conversion(type_.value_type)
        return None if items is None else lambda value: [_converted(items, item) for item in value]
    return None


def _converted(convert: _Conversion | None, value: object) -> object:
    return value if convert is None or value is None else convert(value)


def _map(keys: _Conversion | None, items: _Conversion | None) -> _Conversion:
    # JSON has texts as keys only.
    return lambda pairs: {shown(_converted(keys, key)): _converted(items, value) for key, value in pairs}


def _struct(members: Mapping[str, _Conversion | None]) -> _Conversion | None:
    if not any(members.values()):
        return None
    return lambda value: {name: _converted(members[name], member) for name, member in value.items()}


def _float(value: float) -> float:
    """Return the shortest number that is the same FLOAT: 0.1, and not the 0.10000000149011612 of a DOUBLE."""
    import numpy as np

    return float(str(np.float32(value)))


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval as DuckDB writes it: `1 year 2 months 3 days 04:00:00`."""
    years, months = (months // 12, months % 12) if months >= 0 else (-(-months // 12), -(-months % 12))
    counts = [(years, "year"), (months, "month"), (days, "day")]
    parts = [f"{count} {unit}{'' if abs(count) == 1 else 's'}" for count, unit in counts if count]
    if nanoseconds or not parts:
        seconds, fraction = divmod(abs(nanoseconds) // 1000, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(("-" if nanoseconds < 0 else "") + clock + (f".{fraction:06}".rstrip("0") if fraction else ""))
    return " ".join(parts)
