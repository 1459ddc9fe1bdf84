"""What becomes of values that Arrow or the table has no place for, and how many there were."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn

from penstock.ingest.mysql.errors import ValueOutOfRange

if TYPE_CHECKING:
    from penstock.ingest.mysql.definition import Column

ZERO_DATE, TIME_OUT_OF_DAY, UNREADABLE = "zero-date", "time-out-of-day", "unreadable"


@dataclass(frozen=True, slots=True)
class ValueRules:
    """`zero_date` covers every date with a zero or impossible part; a NOT NULL column gets the epoch instead of null.

    With `text` the column is a string, spelled as the server spells it, odd values included. With `error` it is one
    where it holds an odd value: what fits a table's columns is judged there, row by row.
    """

    zero_date: Literal["null", "epoch", "text", "error"] = "null"
    time: Literal["null", "text", "error"] = "null"


@dataclass(frozen=True, slots=True)
class Cells:
    """Whose cells a function makes: the column, the table's name for messages, the rules, and the count it adds to."""

    column: Column
    table: str
    rules: ValueRules = ValueRules()
    oddities: Counter[str] = field(default_factory=Counter, compare=False)
    in_key: bool = False

    def refuse(self, value: str, reason: str) -> NoReturn:
        raise ValueOutOfRange(
            f"a value has no place in the table: {reason}",
            table=self.table,
            column=self.column.name,
            type=self.column.type,
            value=value,
            hint="the table's definition is another than the log's: read the table again (--resnapshot)",
        )
