"""The arguments of the functions of computed columns, and the columns that they refer to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.schema_evolution.text_casts import Misfits
from penstock.table.values.texts import to_text
from penstock.table.values.types import DataType


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a function, as text and as a possible column name."""

    text: str
    column: str  # the text as a column name, in lower case if the catalog is not case sensitive
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Fitted columns by name with their types, and the wall clock of the batch in milliseconds.

    `misfits` collects the rows whose values a function cannot read.
    """

    arrays: Mapping[str, pa.Array]
    types: Mapping[str, DataType]
    now_millis: int = 0
    misfits: Misfits = field(default_factory=Misfits)


Arguments = Sequence[Argument]
INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
TEXTS = ("CHAR", "VARCHAR")


@dataclass(frozen=True, slots=True)
class ComputedFunction:
    """A function of computed columns.

    `refuse` raises ConfigError for arguments that are invalid for any column, before anything is read.
    """

    least: int
    most: int
    type: Callable[[Arguments, Mapping[str, DataType]], DataType]
    values: Callable[[Arguments, Columns, int], pa.Array]
    all_columns: bool = False  # every unquoted argument names a column; otherwise only the first does
    no_column: bool = False
    by_clock: bool = False  # the value depends on the time at which it is computed
    refuse: Callable[[Arguments], object] = lambda arguments: None

    def check(self, name: str, arguments: Arguments) -> None:
        """Raise ConfigError when the number or the values of the arguments are invalid for any column."""
        if not self.least <= len(arguments) <= self.most:
            wanted = str(self.least) if self.least == self.most else f"between {self.least} and {self.most}"
            raise ConfigError(
                f"computed column {name!r} has {len(arguments)} arguments; its function needs {wanted}",
                hint="separate arguments by commas",
            )
        if not (self.all_columns or self.no_column) and arguments[0].quoted:
            raise ConfigError(
                f"computed column {name!r} refers to no column: {arguments[0].text!r} is a string literal",
                hint="write a column's name without quotes",
            )
        self.refuse(arguments)

    def references(self, arguments: Arguments) -> tuple[str, ...]:
        """Return the names of the columns the arguments refer to."""
        if self.no_column or not arguments:
            return ()
        return tuple(
            argument.column for argument in (arguments if self.all_columns else arguments[:1]) if not argument.quoted
        )


def column_text(columns: Columns, argument: Argument) -> pa.Array:
    return to_text(columns.arrays[argument.column], columns.types[argument.column])


def whole_argument(argument: Argument, meaning: str) -> int:
    try:
        return int(argument.text)
    except ValueError as reason:
        raise ConfigError(f"{argument.text!r} is not a valid {meaning}", hint="write a whole number") from reason


def without_misfits(values: pa.Array, odd: pa.Array, shown: pa.Array, misfits: Misfits, reason: str) -> pa.Array:
    """Return the values with null, and a misfit, where they are odd."""
    odd = pc.fill_null(odd, fill_value=False)
    rows = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
    if not len(rows):
        return values
    for place, value in enumerate(shown.take(pa.array(rows))):
        misfits.add(rows[place : place + 1], reason % value)
    return pc.if_else(odd, pa.scalar(None, values.type), values)
