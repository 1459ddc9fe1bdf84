"""The plan by which the columns of a data file become the wanted columns of the current schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from penstock.table.files.columns import has_nanoseconds
from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.relayout import split_type
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.cast_rules import TIMES
from penstock.table.values.types import AtomicType, DataType, Field, with_nullability


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """The origin of a wanted column: its place among the columns read, and its type there if it needs a cast.

    Nanosecond timestamps that become texts are read as `split_type`.
    """

    place: int
    name: str
    cast_from: DataType | None


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How the columns of files of one schema become the wanted columns; None for a column missing in the files."""

    stored: tuple[Field, ...]
    sources: tuple[ColumnSource | None, ...]


def column_plan(schema: TableSchema, wanted: tuple[Field, ...], system: tuple[Field, ...]) -> ColumnPlan:
    """Return the plan for files that were written with this schema."""
    by_id = {column.id: column for column in schema.fields}
    stored: list[Field] = []
    sources: list[ColumnSource | None] = []
    for new in wanted:
        old = by_id.get(new.id)
        if old is None:
            sources.append(None)
            continue
        old = _no_finer_than(old, new)
        same = with_nullability(old.type, nullable=True) == with_nullability(new.type, nullable=True)
        sources.append(ColumnSource(len(stored), old.name, None if same else old.type))
        stored.append(replace(old, type=split_type(old.type)) if _becomes_text(old.type, new.type) else old)
    return ColumnPlan((*system, *stored), tuple(sources))


def _no_finer_than(old: Field, new: Field) -> Field:
    """Return `old` with microseconds if it has nanoseconds and `new` does not: microseconds cover more years."""
    coarse = isinstance(new.type, AtomicType) and new.type.root in TIMES and not has_nanoseconds(new.type)
    if coarse and isinstance(old.type, AtomicType) and has_nanoseconds(old.type):
        return replace(old, type=replace(old.type, precision=6))
    return old


def _becomes_text(old: DataType, new: DataType) -> TypeGuard[AtomicType]:
    """Return whether a text shows nanoseconds, for which timestamps of Arrow lack most years."""
    return (
        isinstance(old, AtomicType) and has_nanoseconds(old) and isinstance(new, AtomicType) and new.root == "VARCHAR"
    )


def conditions_in_file(
    plan: ColumnPlan, conditions: Sequence[ColumnCondition], wanted: tuple[Field, ...]
) -> Iterator[ColumnCondition]:
    """Yield the conditions that a file's own statistics can answer, with the file's column names."""
    names = {
        new.name: source.name
        for source, new in zip(plan.sources, wanted, strict=True)
        # The statistics of a column that is cast are values of its old type.
        if source is not None and source.cast_from is None
    }
    for condition in conditions:
        if condition.column in names:
            yield replace(condition, column=names[condition.column])
