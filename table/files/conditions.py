"""What a reader may know of the rows it wants, in a form that statistics can refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Given the least and greatest value and the operands, whether some value between them may satisfy.
_MAY_HOLD: dict[str, Callable[[Any, Any, tuple[Any, ...]], bool]] = {
    "=": lambda low, high, given: low <= given[0] <= high,
    "!=": lambda low, high, given: not low == given[0] == high,
    "<": lambda low, high, given: low < given[0],
    "<=": lambda low, high, given: low <= given[0],
    ">": lambda low, high, given: high > given[0],
    ">=": lambda low, high, given: high >= given[0],
    "in": lambda low, high, given: any(low <= one <= high for one in given),
}
OPERATORS = (*_MAY_HOLD, "is null", "is not null")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What statistics say of one column in some rows; None where they are silent.

    NaN is in no bounds; as a bound, which Java makes it in ORC, it says nothing.
    """

    low: Any
    high: Any
    nulls: int | None
    rows: int

    @property
    def silent(self) -> bool:
        return any(end is None or end != end for end in (self.low, self.high))  # noqa: PLR0124


@dataclass(frozen=True, slots=True)
class Condition:
    """`column operator operands`, every wanted row satisfies it; a null satisfies only `is null`.

    Operands are Python values as Arrow scalars give them. Several conditions are joined by and.
    """

    column: str
    operator: str
    operands: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise ValueError(f"{self.operator!r} is no operator; known are {', '.join(OPERATORS)}")

    def may_hold(self, bounds: Bounds) -> bool:
        if self.operator == "is null":
            return bounds.nulls is None or bounds.nulls > 0
        if bounds.nulls is not None and bounds.nulls >= bounds.rows:
            return False
        if self.operator == "is not null" or bounds.silent:
            return True
        try:
            return _MAY_HOLD[self.operator](bounds.low, bounds.high, self.operands)
        except TypeError:  # operands of another kind: statistics cannot tell
            return True


def all_may_hold(conditions: Iterable[Condition], bounds: Mapping[str, Bounds]) -> bool:
    """Whether some row may satisfy all conditions; columns without bounds rule nothing out."""
    return all(
        condition.column not in bounds or condition.may_hold(bounds[condition.column]) for condition in conditions
    )
