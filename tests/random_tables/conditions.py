"""Random conditions on the columns of a table, as SQL that DuckDB and Spark both read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

SIGNS = ("=", "<>", "<", "<=", ">", ">=")
NUMBERS = ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "REAL", "DOUBLE", "DECIMAL")
# Numbers beside the ranges and between the values of columns.
OTHERS = ("0", "2.5", "-0.5", "128", "-129", "3000000000", "-3000000000", "1e10", "99999999999999999999", "0.005")


@dataclass(frozen=True)
class Column:
    """A column: what the text of a query calls it, its type in the engine, and literals of values that it has."""

    name: str
    type: str
    literals: Sequence[str]

    @property
    def is_number(self) -> bool:
        return self.type.upper().startswith(NUMBERS)

    @property
    def is_nested(self) -> bool:
        return self.type.endswith("]") or self.type.upper().startswith(("STRUCT", "MAP", "ARRAY"))

    @property
    def is_text(self) -> bool:
        return self.type.upper() in {"VARCHAR", "STRING"}


@dataclass(frozen=True)
class Conditions:
    """Conditions on these columns. `others` are whole tests."""

    columns: Sequence[Column]
    others: Sequence[str] = ()

    def one(self, choice: random.Random, depth: int = 2) -> str:
        if depth and choice.random() < 0.6:
            word = choice.choice(["AND", "AND", "OR", "NOT"])
            if word == "NOT":
                return f"NOT ({self.one(choice, depth - 1)})"
            return f"({self.one(choice, depth - 1)}) {word} ({self.one(choice, depth - 1)})"
        return choice.choice(self._leaves(choice, choice.choice(self.columns)))

    def _leaves(self, choice: random.Random, column: Column) -> list[str]:
        name, some = column.name, [choice.choice(column.literals) for _ in range(3)]
        sign = choice.choice(SIGNS)
        leaves = [
            f"{name} {sign} {some[0]}",
            f"{name} {sign} {some[0]}",
            f"{some[0]} {sign} {name}",
            f"{name} IS {choice.choice(['', 'NOT '])}NULL",
            f"{name} {choice.choice(['', 'NOT '])}IN ({', '.join(some)})",
            f"{name} {choice.choice(['', 'NOT '])}IN ({some[0]}, NULL)",
            f"coalesce({name}, {some[0]}) {sign} {some[1]}",
            *self.others,
        ]
        if not column.is_nested:
            leaves.append(f"{name} {choice.choice(['', 'NOT '])}BETWEEN {some[0]} AND {some[1]}")
        if column.is_number:
            other = choice.choice(OTHERS)
            leaves += [
                f"{name} {sign} {other}",
                f"{name} IN ({other}, {some[0]})",
                f"CAST({name} AS DOUBLE) {sign} {other}",
            ]
        if column.is_text:
            start = choice.choice(["a%", "%a", "%1%", "w_", "sixteen-bytes-16%", "a!%%"])
            leaves += [f"{name} {choice.choice(['', 'NOT '])}LIKE '{start}' ESCAPE '!'", f"length({name}) > 1"]
        alike = [candidate for candidate in self.columns if candidate.type == column.type and candidate is not column]
        if alike:
            leaves.append(f"{name} {sign} {choice.choice(alike).name}")
        return leaves
