"""Conditions that a reader's rows satisfy, in a form that min/max statistics can rule out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Each function gets the least and the greatest value and the operands; it returns whether a value between may satisfy.
_MAY_HOLD: dict[str, Callable[[Any, Any, tuple[Any, ...]], bool]] = {
    "=": lambda low, high, given: low <= given[0] <= high,
    "!=": lambda low, high, given: not low == given[0] == high,
    "<": lambda low, high, given: low < given[0],
    "<=": lambda low, high, given: low <= given[0],
    ">": lambda low, high, given: high > given[0],
    ">=": lambda low, high, given: high >= given[0],
    "in": lambda low, high, given: any(low <= value <= high for value in given),
}
OPERATORS = (*_MAY_HOLD, "is null", "is not null")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The statistics of a column over some rows; None where a value is unknown.

    NaN is within no bounds. A bound that is NaN, as Java writes into ORC files, is treated as unknown.
    """

    low: Any
    high: Any
    nulls: int | None
    rows: int

    @property
    def silent(self) -> bool:
        """Return whether the least or the greatest value is unknown."""
        return any(end is None or end != end for end in (self.low, self.high))  # noqa: PLR0124


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    """A predicate `column operator operands` that every wanted row satisfies; a null satisfies only `is null`.

    Operands are the Python values of Arrow scalars. Several conditions are combined with AND.
    """

    column: str
    operator: str
    operands: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise ValueError(f"{self.operator!r} is not an operator; choices are {', '.join(OPERATORS)}")

    def may_contain(self, bounds: Bounds) -> bool:
        """Return whether some row within the bounds may satisfy the condition."""
        if self.operator == "is null":
            return bounds.nulls is None or bounds.nulls > 0
        # All values are null, and a null satisfies no other condition.
        if bounds.nulls is not None and bounds.nulls >= bounds.rows:
            return False
        if self.operator == "is not null" or bounds.silent:
            return True
        try:
            return _MAY_HOLD[self.operator](bounds.low, bounds.high, self.operands)
        except TypeError:  # the operands have a type that cannot be compared with the bounds
            return True


def all_may_contain(conditions: Iterable[ColumnCondition], bounds: Mapping[str, Bounds]) -> bool:
    """Return whether some row may satisfy all conditions; columns without bounds rule nothing out."""
    return all(
        condition.column not in bounds or condition.may_contain(bounds[condition.column]) for condition in conditions
    )
