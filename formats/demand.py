"""The part of a source table that a pipeline needs: some of its columns, and rows that meet a condition.

A source may read more than that: the pipeline drops the rest. So a condition is left out, or widened, where the server
compares values in another way than the pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, Protocol, TypeAlias

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch, SourceSchema

Sign: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
# A datetime without a zone is compared with times without a zone, one in UTC with instants.
Constant: TypeAlias = bool | int | Decimal | float | str | datetime | date


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a constant of its kind. A null meets no comparison."""

    column: str
    sign: Sign
    value: Constant

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, bool):
            return f"{self.column} {self.sign} {'true' if value else 'false'}"
        if isinstance(value, str | date):
            return f"{self.column} {self.sign} '{str(value).replace(chr(39), chr(39) * 2)}'"
        return f"{self.column} {self.sign} {value}"


@dataclass(frozen=True, slots=True)
class NullTest:
    """A test for a null in a column, or with `negated` for a value."""

    column: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.column} is {'not ' if self.negated else ''}null"


@dataclass(frozen=True, slots=True)
class Junction:
    """Several conditions joined by `and` or `or`."""

    word: Literal["and", "or"]
    parts: tuple[RowCondition, ...]

    def __str__(self) -> str:
        return f" {self.word} ".join(f"({part})" if isinstance(part, Junction) else str(part) for part in self.parts)


RowCondition: TypeAlias = Comparison | NullTest | Junction


def joined(word: Literal["and", "or"], parts: list[RowCondition | None]) -> RowCondition | None:
    """Join conditions by AND or OR. None stands for an unknown condition, and for an unknown result.

    An unknown part of `and` is left out. An unknown part of `or` may be true for every row, so the result is unknown.
    """
    known = [part for part in parts if part is not None]
    if not known or (word == "or" and len(known) < len(parts)):
        return None
    return known[0] if len(known) == 1 else Junction(word, tuple(known))


@dataclass(frozen=True, slots=True)
class Demand:
    """The part of a table that is needed: these columns, or all, and rows that meet the condition, or all.

    `lists_columns`: a column that the source does not show is not needed, except for those in `unknown`, which are
    used by name.
    """

    columns: frozenset[str] | None = None
    condition: RowCondition | None = None
    lists_columns: bool = False
    unknown: frozenset[str] = frozenset()

    def includes(self, column: str) -> bool:
        """Return whether a column is needed."""
        return self.columns is None or column in self.columns


EVERYTHING = Demand()


class DemandPolicy(Protocol):
    """Decides which part of each source table is needed. It goes to tasks, so it must pickle."""

    def of(self, schema: SourceSchema) -> Demand:
        """Return the part of a table with these columns that is needed; it contains the primary key."""
        ...


def needed(policy: DemandPolicy | None, schema: SourceSchema) -> Demand:
    """Return the part of a table that is needed: everything without a policy."""
    return EVERYTHING if policy is None else policy.of(schema)


class ConditionMisfit(ConfigError):
    """A condition of a user does not fit the columns of its table."""


class ConditionLanguage(Protocol):
    """The language in which users write conditions on the rows of a source table. It goes to tasks, so it must pickle.

    Both methods raise ConditionMisfit for a condition that does not fit the table's columns.
    """

    def part(self, text: str, schema: SourceSchema) -> Demand:
        """Return the key and the columns of a condition, and the part of it that a server can evaluate."""
        ...

    def met(self, text: str, change: ChangeBatch) -> tuple[ChangeBatch, int]:
        """Return the rows that meet a condition, and the number of rows with a value that it cannot read."""
        ...


@dataclass(frozen=True, slots=True)
class NarrowedDemand:
    """A `DemandPolicy` that narrows another one to rows that may meet a condition of a user."""

    policy: DemandPolicy | None
    language: ConditionLanguage
    where: str

    def of(self, schema: SourceSchema) -> Demand:
        whole, part = needed(self.policy, schema), self.language.part(self.where, schema)
        columns = None if whole.columns is None or part.columns is None else whole.columns | part.columns
        return replace(whole, columns=columns, condition=joined("and", [whole.condition, part.condition]))
