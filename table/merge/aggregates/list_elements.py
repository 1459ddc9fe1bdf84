"""The elements of the rows of all keys, for aggregate functions whose result is a list or a map of elements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.table.merge.aggregates.function import Inputs
from penstock.table.values.buffers import Flags, Ints, fixed_values


@dataclass(frozen=True, slots=True)
class ListElements:
    """The elements of all rows that count, in merge order; map entries are structs of key and value."""

    inputs: Inputs
    items: pa.Array
    key: Ints  # for each element: the number of its key
    row: Ints  # for each element: the position of its row
    adding: Flags  # by position: rows that add a value
    retracting: Flags
    late: Flags
    begins: Ints  # by position: where the elements of the row begin
    sizes: Ints
    type: pa.DataType

    @classmethod
    def of(cls, inputs: Inputs, order: Ints) -> ListElements:
        valid = inputs.valid()
        adding, retracting = inputs.adds & valid, inputs.retracts & valid
        counted = order[(adding | retracting)[order]]
        values = inputs.values().take(pa.array(counted))
        offsets = np.asarray(fixed_values(values.offsets, np.int32), np.int64)
        items = _items(values).slice(offsets[0], offsets[-1] - offsets[0])
        # By position of the row; rows that do not count have no elements.
        sizes, begins = np.zeros(inputs.work.size, np.int64), np.zeros(inputs.work.size, np.int64)
        sizes[counted], begins[counted] = np.diff(offsets), offsets[:-1] - offsets[0]
        row = np.repeat(counted, np.diff(offsets))
        key = inputs.work.per_row(np.arange(len(inputs.work.starts)))[row]
        return cls(
            inputs,
            items,
            key,
            row,
            adding,
            retracting,
            inputs.late_rows(),
            begins,
            sizes,
            inputs.work.table.schema.field(inputs.name).type,
        )

    def bulk(self, slow: Flags) -> Ints:
        """Return the elements of added rows, except for the keys that are processed one by one."""
        return np.flatnonzero(self.adding[self.row] & ~slow[self.key])

    def events(self, key: int) -> list[tuple[int, bool]]:
        """Return the rows of a key in order of arrival, each with whether it is a retraction.

        A row that both adds a value and retracts it, as the first row of its key may do, is there twice.
        """
        rows = range(int(self.inputs.work.starts[key]), int(self.inputs.work.ends[key]))
        steps = ((self.adding, False), (self.retracting, True))
        return [(row, retracts) for row in rows for flags, retracts in steps if flags[row]]

    def of_row(self, row: int) -> list[int]:
        """Return the elements of a row."""
        return list(range(int(self.begins[row]), int(self.begins[row] + self.sizes[row])))

    def lists(self, chosen: Ints, made: dict[int, list[int] | None]) -> pa.Array:
        """Return one list per key from the chosen elements and the lists made one by one; null if no row added any."""
        present = self.inputs.any_of(self.adding)
        for key, result in made.items():
            present[key] = result is not None
        extra = [(e, key) for key, result in made.items() for e in result or ()]
        elements = np.concatenate([chosen, np.array([e for e, _ in extra], np.int64)])
        keys = np.concatenate([self.key[chosen], np.array([key for _, key in extra], np.int64)])
        # Stable: elements of a key keep their order when those made one by one are put between the others.
        by_key = np.argsort(keys, kind="stable")
        counts = np.bincount(keys, minlength=len(self.inputs.work.starts))
        items = self.items.take(pa.array(elements[by_key]))
        offsets, mask = pa.array(offsets_of(counts), pa.int32()), pa.array(~present)
        if pa.types.is_map(self.type):
            return pa.MapArray.from_arrays(offsets, items.field(0), items.field(1), type=self.type, mask=mask)
        return pa.ListArray.from_arrays(offsets, items, type=self.type, mask=mask)


def _items(values: pa.Array) -> pa.Array:
    if not pa.types.is_map(values.type):
        return values.values
    return pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])


def offsets_of(counts: Ints) -> Ints:
    """Return where lists with these numbers of elements begin, and where the last one ends."""
    offsets: Ints = np.append(0, np.cumsum(counts))
    return offsets


def firsts_of_equal(chosen: Ints, key: Ints, ids: Ints) -> Ints:
    """Return the first of equal elements of a key."""
    code = key[chosen] * (int(ids.max(initial=0)) + 1) + ids[chosen]
    firsts: Ints = chosen[np.sort(np.unique(code, return_index=True)[1])]
    return firsts


def lasts_of_equal(chosen: Ints, key: Ints, ids: Ints) -> Ints:
    """Return the last of equal elements of a key."""
    return firsts_of_equal(chosen[::-1], key, ids)[::-1]
