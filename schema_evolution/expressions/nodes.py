"""The syntax tree of expressions in projections and filters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from penstock.table.values.types import DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A reference to a column."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function call. Operators are calls too, named by their sign: `+`, `=`, `and`, `is null`."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion to a type."""

    value: Node
    type: DataType


@dataclass(frozen=True, slots=True)
class Case:
    """A CASE expression: pairs of condition and value, and the value of ELSE."""

    branches: tuple[tuple[Node, Node], ...]
    default: Node


Node: TypeAlias = Literal | ColumnReference | Call | Cast | Case


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a projection: all columns when `value` is None, else an expression with its name."""

    name: str
    value: Node | None = None


def columns_of(node: Node) -> Iterator[str]:
    """Yield the column names in an expression, as written."""
    match node:
        case ColumnReference(name):
            yield name
        case Call(_, arguments):
            for argument in arguments:
                yield from columns_of(argument)
        case Cast(value, _):
            yield from columns_of(value)
        case Case(branches, default):
            for condition, value in branches:
                yield from columns_of(condition)
                yield from columns_of(value)
            yield from columns_of(default)


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct children of a node."""
    match node:
        case Call(_, arguments):
            return arguments
        case Cast(value, _):
            return (value,)
        case Case(branches, default):
            return (*(one for branch in branches for one in branch), default)
    return ()
