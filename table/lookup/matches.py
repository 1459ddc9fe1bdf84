"""The result of looking keys up in a dimension, and the index that finds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import CommitConflict
from penstock.table.meta.snapshot import Snapshot
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.buffers import Ints, rows_at

# A property of snapshots, with the dimension's name behind it: the snapshot, or the first and last one, of its rows.
LOOKUP = "penstock.lookup."


@dataclass(frozen=True, slots=True)
class LookupRetry:
    """Asks for missing keys again every `delay` seconds, at most `attempts` times in a batch."""

    delay: float
    attempts: int


@dataclass(frozen=True, slots=True)
class Matches:
    """The rows of a dimension that were found for some keys.

    Row `i` of `rows` belongs to key number `keys[i]`. `keys` ascends, and repeats a number for which there are several
    rows. `count` is the number of keys that were looked up.
    """

    keys: Ints
    rows: pa.Table
    count: int

    @property
    def missing(self) -> Ints:
        """Return the numbers of the keys without a row."""
        absent = np.ones(self.count, np.bool_)
        absent[self.keys] = False
        return np.flatnonzero(absent)

    def beside(self, *, outer: bool) -> tuple[Ints, pa.Table]:
        """Return the result of a join: the number of the key of each row, and the row of the dimension.

        With `outer` a key without a row comes once, with nulls; otherwise it is left out.
        """
        missing = self.missing if outer else np.zeros(0, np.int64)
        if len(missing) == 0:
            return self.keys, self.rows
        numbers = np.concatenate([self.keys, missing])
        order = np.argsort(numbers, kind="stable")
        return numbers[order], rows_at(self.rows, order, absent=order >= len(self.keys))


def all_rows(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several lookups in one dimension. Later ones may have wider columns.

    CommitConflict if a column has a type now that does not contain the former one: a repeated batch has the new type.
    """
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as reason:
        raise CommitConflict(
            f"a column of a dimension was changed while its rows were awaited: {reason}", hint="run it again"
        ) from reason


class DimensionIndex(Protocol):
    """The rows of a dimension at one snapshot, by the join columns.

    `key_columns` are the join columns in the order in which keys are compared.
    """

    key_columns: tuple[str, ...]

    def load(self, schema: TableSchema, snapshot: Snapshot | None) -> None:
        """Move to a snapshot. What does not change between two snapshots is kept."""
        ...

    def find(self, probes: Sequence[pa.Array]) -> tuple[Ints, pa.Table]:
        """Return the number of the probe of each row that is found, and the rows, in any order.

        `probes` are distinct keys without nulls in key order, one array for each of `key_columns`.
        """
        ...
