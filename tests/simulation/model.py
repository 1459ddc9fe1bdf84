"""The expected content of a table, computed row by row in a dict: slow, short, and independent of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from tests.golden.relations import Relation, Type, root_of
from tests.golden.rows import Columns

Row = list[Any]
Key = tuple[Any, ...]
Aggregate = Callable[[Any, Any], Any]


def sum_of(kind: Type) -> Aggregate:
    if root_of(kind) == "DECIMAL":
        return lambda held, new: format(Decimal(held) + Decimal(new), "f")
    return lambda held, new: held + new


def skipping_null(aggregate: Aggregate) -> Aggregate:
    return lambda held, new: held if new is None else new if held is None else aggregate(held, new)


def aggregate_of(name: str, kind: Type) -> Aggregate:
    return {
        "sum": skipping_null(sum_of(kind)),
        "max": skipping_null(max),
        "min": skipping_null(min),
        "listagg": skipping_null(lambda held, new: f"{held},{new}"),
        "last_value": lambda _, new: new,
        "last_non_null_value": skipping_null(lambda _, new: new),
    }[name]


class Model:
    """The rows of a table by key, as they are after each commit. Rows have the oracle's form, ("+I", value, ...)."""

    def __init__(self, columns: Columns, primary_keys: Sequence[str], options: Mapping[str, str]) -> None:
        self.columns = list(columns)
        self.options = options
        self.rows: dict[Key, Row] = {}
        self._key_names = list(primary_keys)
        self._engine = options.get("merge-engine", "deduplicate")

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    def key_of(self, row: Row) -> Key:
        return tuple(row[self.names.index(name)] for name in self._key_names)

    def apply(self, changes: Sequence[Sequence[Any]]) -> None:
        for kind, *row in changes:
            if kind in {"-U", "-D"}:
                self._retract(kind, self.key_of(row))
            else:
                self._add(self.key_of(row), list(row))

    def _retract(self, kind: str, key: Key) -> None:
        # partial-update ignores -U; the other engines never receive kinds that they would refuse.
        if self._engine == "deduplicate" or kind == "-D":
            self.rows.pop(key, None)

    def _add(self, key: Key, row: Row) -> None:
        held = self.rows.get(key)
        if held is None:
            self.rows[key] = row
        elif self._engine == "deduplicate":
            self.rows[key] = row if self._is_newer(row, held) else held
        elif self._engine == "partial-update":
            self.rows[key] = [old if new is None else new for old, new in zip(held, row, strict=True)]
        elif self._engine == "aggregation":
            self.rows[key] = [self._aggregate(place, a, b) for place, (a, b) in enumerate(zip(held, row, strict=True))]

    def _is_newer(self, row: Row, held: Row) -> bool:
        name = self.options.get("sequence.field")
        if name is None:
            return True
        new, old = (cells[self.names.index(name)] for cells in (row, held))
        # A null is older than any value, and of equal values the later row wins.
        return (new is not None, new or 0) >= (old is not None, old or 0)

    def _aggregate(self, place: int, held: Any, new: Any) -> Any:
        name, kind = self.columns[place]
        # Key columns are equal in both rows, and have no function.
        if name in self._key_names:
            return held
        chosen = self.options.get(f"fields.{name}.aggregate-function", "last_non_null_value")
        return aggregate_of(chosen, kind)(held, new)

    def add_column(self, name: str, kind: Type) -> None:
        self.columns.append((name, kind))
        self.rows = {key: [*row, None] for key, row in self.rows.items()}

    def relation(self) -> Relation:
        names, types = zip(*self.columns, strict=True)
        return Relation(names, types, [list(row) for row in self.rows.values()])
