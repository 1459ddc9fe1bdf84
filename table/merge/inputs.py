"""What an aggregate function gets: one column in the order of positions, and how each row takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.table.merge.aggregate_functions import Aggregate
from penstock.table.merge.key_groups import Flags, Ints, Work
from penstock.table.values.types import DataType

# A position for each key (-1: null), or one value for each key.
Result: TypeAlias = Ints | pa.Array


@dataclass(frozen=True, slots=True)
class Inputs:
    work: Work
    name: str
    type: DataType
    aggregate: Aggregate
    adds: Flags
    retracts: Flags
    late: Flags | None = None  # of both: rows whose sequence group had gone past them when they came
    forgotten: Flags | None = None  # adds that a later row took away with the whole row: no value, but no longer first
    restart: Ints | None = None  # of each key: the row that took it away, where it left its value behind; else -1

    def valid(self) -> Flags:
        valid = self.work.valid(self.name)
        return np.ones(self.work.size, np.bool_) if valid is None else valid

    def valid_adds(self) -> Flags:
        return self.adds & self.valid()

    def values(self) -> pa.Array:
        return self.work.values(self.name)

    def any_of(self, mask: Flags) -> Flags:
        """The keys that have a row in the mask."""
        return np.logical_or.reduceat(mask, self.work.starts)

    def late_rows(self) -> Flags:
        return np.zeros(self.work.size, np.bool_) if self.late is None else self.late

    def rows_of(self, keys: Flags) -> Flags:
        return np.asarray(self.work.per_row(keys), np.bool_)

    def in_merge_order(self) -> Ints:
        """Positions key by key in the order in which a function that appends has to see them.

        A late row goes before all that was there: the last of them is the first.
        """
        places = np.arange(self.work.size)
        if self.late is None or not self.late.any():
            return places
        key = self.work.per_row(np.arange(len(self.work.starts)))
        return np.lexsort((np.where(self.late, -places - 1, places), key))


def restarted(places: Ints, taken: Flags, inputs: Inputs) -> Ints:
    """Where a forgotten row was first already: no row can be first again."""
    if inputs.forgotten is None:
        return places
    settled = inputs.any_of(inputs.forgotten & taken)
    return np.where(settled, -1 if inputs.restart is None else inputs.restart, places)
