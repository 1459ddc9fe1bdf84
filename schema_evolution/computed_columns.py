"""Computed columns: `name=function(arguments)`, evaluated on whole columns of fitted values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.schema_evolution.computed_arguments import Argument, Columns, ComputedFunction
from penstock.schema_evolution.computed_functions import COMPUTED_FUNCTIONS
from penstock.table.values.types import STRING, DataType

# A quoted text is one argument, with any content; quotes inside of an argument, as in patterns, do not count.
_ARGUMENT = re.compile(r"\s*('[^']*'(?=\s*,)|[^,]*?)\s*,")
_EXPRESSION = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A computed column as written by its user. Referenced columns are looked up per table, since tables differ."""

    name: str
    function: str
    arguments: tuple[Argument, ...]

    @classmethod
    def of(cls, text: str, case_sensitive: bool = True) -> ComputedColumn:
        """Parse `name=function(arguments)`; ConfigError when it is invalid for any table."""
        name, equals, expression = text.partition("=")
        match = _EXPRESSION.fullmatch(expression)
        if not equals or not name.strip() or match is None:
            raise ConfigError(
                f"{text!r} is not a computed column",
                hint="write name=function(column, ...), for example dt=year(created)",
            )
        function = match[1].lower()
        if function not in COMPUTED_FUNCTIONS:
            known = ", ".join(sorted(COMPUTED_FUNCTIONS))
            raise ConfigError(
                f"Unsupported expression: {match[1]}. Supported expressions are: {known}",
                hint=did_you_mean(function, COMPUTED_FUNCTIONS, "use one of them, or a projection of  transforms:"),
            )
        fold = (lambda name: name) if case_sensitive else str.lower
        arguments = tuple(_argument(part, fold) for part in _parts(match[2]))
        column = cls(fold(name.strip()), function, arguments)
        COMPUTED_FUNCTIONS[function].check(column.name, arguments)
        return column

    @property
    def references(self) -> tuple[str, ...]:
        """Return the names of the columns it refers to."""
        return COMPUTED_FUNCTIONS[self.function].references(self.arguments)

    @property
    def is_repeatable(self) -> bool:
        """Return whether the same columns have the same value whenever it is computed."""
        return not self._function.by_clock

    def type(self, types: Mapping[str, DataType], *, lenient: bool = False) -> DataType:
        """Return its type in a table with these columns.

        A missing column is an error, or with `lenient` counts as STRING.
        """
        missing = [name for name in self.references if name not in types]
        if missing and not lenient:
            raise ConfigError(
                f"Referenced field '{missing[0]}' is not in given fields: [{', '.join(types)}].",
                hint="correct the name, or set another column",
            )
        known = {**types, **dict.fromkeys(missing, STRING)}
        return self._function.type(self.arguments, known)

    def values(self, columns: Columns, rows: int) -> pa.Array:
        """Return a value for every row; null where a referenced column is null, or does not exist in this table."""
        if any(name not in columns.arrays for name in self.references):
            return pa.nulls(rows)
        return self._function.values(self.arguments, columns, rows)

    @property
    def _function(self) -> ComputedFunction:
        return COMPUTED_FUNCTIONS[self.function]


def _parts(text: str) -> list[str]:
    return _ARGUMENT.findall(f"{text},") if text.strip() else []


def _argument(text: str, fold: Callable[[str], str]) -> Argument:
    quoted = len(text) >= 2 and text[0] == text[-1] == "'"
    return Argument(text[1:-1] if quoted else text, fold(text), quoted)


def in_order(columns: Sequence[ComputedColumn]) -> list[ComputedColumn]:
    """Return the columns sorted so that each follows the columns it refers to.

    In Paimon's order: first all that refer to no other computed column, as given, then each as soon as the columns
    before it suffice. ConfigError for a cycle.
    """
    names = {column.name for column in columns}
    if len(names) < len(columns):
        raise ConfigError(
            "a computed column is defined twice",
            columns=", ".join(column.name for column in columns),
            hint="keep one of the definitions, or rename it",
        )
    needs = {column.name: names & set(column.references) for column in columns}
    ready = [column for column in columns if not needs[column.name]]
    for done in ready:  # grows during the loop
        for column in columns:
            if done.name in needs[column.name]:
                needs[column.name].remove(done.name)
                ready += [] if needs[column.name] else [column]
    if len(ready) < len(columns):
        raise ConfigError(
            f"Cycle detected: {next(column.name for column in columns if column not in ready)}",
            hint="a computed column may refer only to columns that do not depend on it",
        )
    return ready
