"""Rules for values that Arrow or the target table cannot represent, and the count of such values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn

from penstock.ingest.mysql.errors import ValueOutOfRange

if TYPE_CHECKING:
    from penstock.ingest.mysql.definition import MySqlColumn

ZERO_DATE, TIME_OUT_OF_DAY, UNREADABLE = "zero-date", "time-out-of-day", "unreadable"


@dataclass(frozen=True, slots=True)
class ValueRules:
    """Rules for dates with a zero or impossible part (`zero_date`) and times outside of a day (`time`).

    With `null`, a NOT NULL column gets the epoch, or midnight, instead of null. With `text` the column is a string,
    spelled as the server spells it, odd values included. With `error` a column becomes a string only where it contains
    an odd value: the fit to the table's columns then rejects it row by row.
    """

    zero_date: Literal["null", "epoch", "text", "error"] = "null"
    time: Literal["null", "text", "error"] = "null"

    @property
    def spelled(self) -> frozenset[str]:
        """The base types whose values are texts with as many digits as their type declares."""
        if self.zero_date == "text":
            return frozenset({"decimal", "datetime", "time", "float"})
        return frozenset({"time"}) if self.time == "text" else frozenset()


@dataclass(frozen=True, slots=True)
class CellContext:
    """The context of a column's conversion: column, table name for messages, rules, and the counter of odd values."""

    column: MySqlColumn
    table: str
    rules: ValueRules = ValueRules()
    oddities: Counter[str] = field(default_factory=Counter, compare=False)
    in_key: bool = False

    def refuse(self, value: str, reason: str) -> NoReturn:
        raise ValueOutOfRange(
            f"a value does not fit the table: {reason}",
            table=self.table,
            column=self.column.name,
            type=self.column.type,
            value=value,
            hint="the table's definition differs from the binlog's: read the table again (--resnapshot)",
        )
