"""An aggregate function as a value, the function of a column with its options, and the input of a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.table.merge.engine_rows import EngineRows
from penstock.table.values.buffers import Flags, Ints
from penstock.table.values.types import DataType

# One position per key (-1: null), or one value per key.
Result: TypeAlias = Ints | pa.Array


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate function: the column types it accepts, and its implementation on whole columns.

    With `restarts`, a NOT NULL column starts again with the value of a row that removed the key, or of a retraction
    that no row precedes; such a retraction is then applied to its own value. Other functions treat that row themselves.
    """

    name: str
    merge: Callable[[Inputs], Result]
    accepts: Callable[[DataType], bool]
    retractable: bool = False  # can undo a row
    restarts: bool = True


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The aggregate function of one column, with its options."""

    function: AggregateFunction
    ignore_retract: bool = False
    distinct: bool = False
    delimiter: str = ","
    nested_key: tuple[str, ...] = ()
    count_limit: int | None = None

    @property
    def retractable(self) -> bool:
        """Return whether -U and -D rows are accepted."""
        return self.ignore_retract or self.function.retractable


@dataclass(frozen=True, slots=True)
class Inputs:
    """A column to aggregate: its values, and which rows add to the result or retract from it."""

    work: EngineRows
    name: str
    type: DataType
    aggregate: Aggregate
    adds: Flags
    retracts: Flags
    late: Flags | None = None  # rows of both kinds that arrived after a greater sequence of their sequence group
    # adds that a later row removed with the whole key: they have no value, but the first row was before
    forgotten: Flags | None = None
    # For each key: the row whose value is the start value, otherwise -1. It removed the key, or is a retraction that no
    # row precedes; such a retraction is then applied to its own value.
    restart: Ints | None = None

    def valid(self) -> Flags:
        """Return which positions have a value."""
        valid = self.work.valid(self.name)
        return np.ones(self.work.size, np.bool_) if valid is None else valid

    def valid_adds(self) -> Flags:
        """Return which positions add a value."""
        return self.adds & self.valid()

    def values(self) -> pa.Array:
        """Return the column in the order of positions."""
        return self.work.values(self.name)

    def any_of(self, mask: Flags) -> Flags:
        """Return which keys have a row in the mask."""
        return np.logical_or.reduceat(mask, self.work.starts)

    def late_rows(self) -> Flags:
        """Return which positions are late."""
        return np.zeros(self.work.size, np.bool_) if self.late is None else self.late

    def in_merge_order(self) -> Ints:
        """Return the positions, key by key, in the order in which an appending function has to read them.

        A late row precedes all rows before it, so the last late row comes first.
        """
        places = np.arange(self.work.size)
        if self.late is None or not self.late.any():
            return places
        key = self.work.per_row(np.arange(len(self.work.starts)))
        return np.lexsort((np.where(self.late, -places - 1, places), key))


def restarted(places: Ints, taken: Flags, inputs: Inputs) -> Ints:
    """Return `places` corrected for the start values of keys.

    A later row does not become the first row of a key whose first row was removed. Keys without a row keep their start
    value.
    """
    start = np.full(len(places), -1) if inputs.restart is None else inputs.restart
    found = np.where(places < 0, start, places)
    if inputs.forgotten is None:
        return found
    return np.where(inputs.any_of(inputs.forgotten & taken), start, found)
