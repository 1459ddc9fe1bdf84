"""A table as a list of rows, and conditions on its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Cell = Any  # an int, text, bool or None; decimals, dates and times are texts
Row = dict[str, Cell]
State = tuple[dict[str, str], list[Row]]


@dataclass(slots=True)
class ModelTable:
    """A table: its columns with their types, and its rows."""

    columns: dict[str, str]
    keys: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    defaults: dict[str, Cell] = field(default_factory=dict)
    # The states that a read can go back to, and whether columns were changed after the last one.
    versions: list[State] = field(default_factory=list)
    altered: bool = False
    tags: dict[str, int] = field(default_factory=dict)
    # The sequence fields of deleted rows: until a compaction forgets them, they win over older rows.
    graves: dict[tuple[Cell, ...], Cell] = field(default_factory=dict)
    branches: dict[str, ModelTable] = field(default_factory=dict)

    @property
    def engine(self) -> str:
        return self.options.get("merge-engine", "deduplicate") if self.keys else "append"

    @property
    def free(self) -> list[str]:
        """Return the columns that statements may drop, rename and set."""
        fixed = {*self.keys, *self.parts, self.options.get("sequence.field")}
        return [name for name in self.columns if name not in fixed and name != "k"]

    @property
    def updatable(self) -> bool:
        return self.engine in {"append", "deduplicate", "partial-update"}

    @property
    def deletable(self) -> bool:
        removes = (f"{self.engine}.remove-record-on-delete", "true") in self.options.items()
        return self.engine in {"append", "deduplicate"} or removes

    @property
    def state(self) -> State:
        return dict(self.columns), [{name: row[name] for name in self.columns} for row in self.rows]

    def key_of(self, row: Row) -> tuple[Cell, ...]:
        return tuple(row[name] for name in self.keys)

    def put(self, rows: Iterable[Row]) -> None:
        """Insert rows as the merge engine does."""
        filled = map(self.filled, rows)
        if not self.keys:
            self.rows += filled
            return
        found = {self.key_of(row): row for row in self.rows}
        for row in filled:
            key = self.key_of(row)
            found[key] = self.merged(found[key], row) if key in found else row
        self.rows = list(found.values())

    def bury(self, rows: Iterable[Row]) -> None:
        """Remember deleted rows."""
        sequence = self.options.get("sequence.field")
        if sequence is not None:
            self.graves |= {self.key_of(row): row[sequence] for row in rows}

    def unsure(self, rows: Iterable[Row]) -> bool:
        """Return whether it depends on compactions if the rows are seen."""
        sequence = self.options.get("sequence.field", "")
        keys = ((self.key_of(row), row) for row in map(self.filled, rows) if self.graves)
        return any(key in self.graves and older(row[sequence], self.graves[key]) for key, row in keys)

    def filled(self, row: Row) -> Row:
        """Return a row as it is written: a default replaces null, as in Java."""
        return {name: self.defaults.get(name) if cell is None else cell for name, cell in row.items()}

    def merged(self, old: Row, new: Row) -> Row:
        match self.engine:
            case "partial-update":
                return {name: old[name] if new[name] is None else new[name] for name in old}
            case "first-row":
                return old
            case "aggregation":
                return {name: self._aggregated(name, old[name], new[name]) for name in old}
        sequence = self.options.get("sequence.field")
        if sequence is not None and older(new[sequence], old[sequence]):
            return old
        return dict(new)

    def _aggregated(self, name: str, old: Cell, new: Cell) -> Cell:
        function = self.options.get(f"fields.{name}.aggregate-function", "last_non_null_value")
        if old is None or new is None:
            return new if old is None else old
        return {"sum": lambda: old + new, "max": lambda: max(old, new)}.get(function, lambda: new)()


def older(new: Cell, old: Cell) -> bool:
    """Return whether a value of the sequence field is lower; null is the lowest."""
    return old is not None and (new is None or new < old)


def holds(condition: Sequence[Any], row: Mapping[str, Cell], types: Mapping[str, str]) -> bool | None:
    """Evaluate a condition; None is SQL's unknown."""
    match condition:
        case ["null", column]:
            return row[column] is None
        case ["not null", column]:
            return row[column] is not None
        case ["not", inner]:
            found = holds(inner, row, types)
            return None if found is None else not found
        case ["and" | "or" as word, left, right]:
            pair = [holds(left, row, types), holds(right, row, types)]
            decisive = word == "or"
            if decisive in pair:
                return decisive
            return None if None in pair else not decisive
        case ["in", column, values, _]:
            if row[column] is None:
                return None
            found = any(equal(row[column], value, types[column]) for value in values if value is not None)
            return found or (None if None in values else False)
    word, column, value, _ = condition
    if row[column] is None or value is None:
        return None
    left, right = comparable(row[column], types[column]), comparable(value, types[column])
    return bool({"=": left == right, ">": left > right, "<=": left <= right, "<>": left != right}[word])


def comparable(value: Cell, type_: str) -> Any:
    return Decimal(value) if type_.startswith("DECIMAL") else value


def equal(cell: Cell, other: Cell, type_: str) -> bool:
    return bool(comparable(cell, type_) == comparable(other, type_))


def columns_of(condition: Sequence[Any]) -> set[str]:
    """Return the columns that a condition mentions."""
    match condition:
        case ["not", inner]:
            return columns_of(inner)
        case ["and" | "or", left, right]:
            return columns_of(left) | columns_of(right)
    return {str(condition[1])}
