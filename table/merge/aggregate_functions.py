"""The aggregate functions: their names, the column types they accept, and which of them support retraction."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ConfigError, did_you_mean
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, RowType

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_NUMBERS = _INTEGERS | {"FLOAT", "DOUBLE", "DECIMAL"}
_TIMES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"})
_TEXTS = frozenset({"CHAR", "VARCHAR"})
_ROOTS = {
    "sum": _NUMBERS,
    "product": _NUMBERS,
    "max": _NUMBERS | _TIMES | _TEXTS,
    "min": _NUMBERS | _TIMES | _TEXTS,
    "bool_and": frozenset({"BOOLEAN"}),
    "bool_or": frozenset({"BOOLEAN"}),
    "listagg": frozenset({"VARCHAR"}),
    "rbm32": frozenset({"VARBINARY"}),
    "rbm64": frozenset({"VARBINARY"}),
    "hll_sketch": frozenset({"VARBINARY"}),
    "theta_sketch": frozenset({"VARBINARY"}),
}
_ANY = frozenset({"last_value", "last_non_null_value", "first_value", "first_non_null_value"})
_NESTED = frozenset({"collect", "merge_map", "nested_update"})
_ALIASES = {"first_not_null_value": "first_non_null_value"}
RETRACTABLE = frozenset({"sum", "product", "last_value", "last_non_null_value", *_NESTED})
KNOWN = frozenset({*_ROOTS, *_ANY, *_NESTED})


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The aggregate function of one column, with its options."""

    function: str
    ignore_retract: bool = False
    distinct: bool = False
    delimiter: str = ","
    nested_key: tuple[str, ...] = ()
    count_limit: int | None = None

    @property
    def retractable(self) -> bool:
        """Return whether -U and -D rows are accepted."""
        return self.ignore_retract or self.function in RETRACTABLE


def check_function(name: str, type_: DataType, column: str) -> str:
    """Return the canonical name of a function; ConfigError if it is unknown or does not accept the column's type."""
    name = _ALIASES.get(name, name)
    if name not in KNOWN:
        known = ", ".join(sorted(KNOWN))
        hint = did_you_mean(name, KNOWN, f"known are {known}")
        raise ConfigError(f"{name!r} is no aggregate function", column=column, hint=hint)
    if not _takes(name, type_):
        raise ConfigError(f"the aggregate function {name} does not take this column's type", column=column, type=type_)
    return name


def _takes(name: str, type_: DataType) -> bool:
    if name in _ANY:
        return True
    if name == "collect":
        return isinstance(type_, ArrayType)
    if name == "merge_map":
        return isinstance(type_, MapType)
    if name == "nested_update":
        return isinstance(type_, ArrayType) and isinstance(type_.element, RowType)
    return isinstance(type_, AtomicType) and type_.root in _ROOTS[name]
