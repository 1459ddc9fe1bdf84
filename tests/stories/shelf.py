"""The expected content of a table, kept row by row in a dict, for each branch with its snapshots and tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.golden.relations import Relation, Type
from tests.simulation.model import Key, Model, Row
from tests.simulation.story import Story

Holds = Callable[[Mapping[str, Any]], bool]


class TableModel(Model):
    """`Model` with its merge engines, extended by overwrites, deletes, partitions, and tables without keys."""

    def __init__(self, story: Story) -> None:
        super().__init__(story.columns, story.primary_keys, story.options)
        self._partition_names = list(story.partition_keys)
        self._rows_so_far = 0

    def copy(self) -> TableModel:
        made = object.__new__(TableModel)
        made.__dict__.update(self.__dict__)
        made.columns = list(self.columns)
        made.rows = {key: list(row) for key, row in self.rows.items()}
        return made

    def key_of(self, row: Row) -> Key:
        if not self._key_names:  # an append table keeps every row
            self._rows_so_far += 1
            return (self._rows_so_far,)
        return super().key_of(row)

    def partition_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[self.names.index(name)] for name in self._partition_names)

    def apply(self, changes: Sequence[Sequence[Any]]) -> None:
        if self._engine == "aggregation":
            changes = [["+I", *(self._negated(row) if kind in {"-U", "-D"} else row)] for kind, *row in changes]
        super().apply(changes)

    def _negated(self, row: Row) -> Row:
        """Return a row that takes back what this one added: sums are negative, other aggregates ignore it."""
        return [self._negative(name, cell) for name, cell in zip(self.names, row, strict=True)]

    def _negative(self, name: str, cell: Any) -> Any:
        if name in self._key_names:
            return cell
        return -cell if self.options.get(f"fields.{name}.aggregate-function") == "sum" and cell is not None else None

    def _retract(self, kind: str, key: Key) -> None:
        if self.options.get("ignore-delete") != "true":
            super()._retract(kind, key)

    def overwrite(self, changes: Sequence[Sequence[Any]], spec: Mapping[str, Any] | None) -> None:
        """Replace the partitions that `spec` names, or without `spec` the partitions of the rows."""
        if spec is None and self._partition_names:
            written = {self.partition_of(list(row)) for _, *row in changes}
            self.remove(lambda row: tuple(row[name] for name in self._partition_names) in written)
        else:
            self.remove(lambda row: all(str(row[name]) == value for name, value in (spec or {}).items()))
        self.apply(changes)

    def remove(self, holds: Holds) -> None:
        names = self.names
        self.rows = {key: row for key, row in self.rows.items() if not holds(dict(zip(names, row, strict=True)))}

    def drop_column(self, name: str) -> None:
        place = self.names.index(name)
        del self.columns[place]
        self.rows = {key: [*row[:place], *row[place + 1 :]] for key, row in self.rows.items()}

    def rename_column(self, name: str, new_name: str) -> None:
        self.columns = [(new_name if item == name else item, kind) for item, kind in self.columns]

    def widen_column(self, name: str, kind: Type) -> None:
        self.columns = [(item, kind if item == name else old) for item, old in self.columns]


@dataclass(slots=True)
class Line:
    """A branch, or main: its current rows, and the expected content of each of its snapshots and tags."""

    now: TableModel
    models: dict[int, TableModel] = field(default_factory=dict)
    visible: dict[int, Relation] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    tagged: dict[str, TableModel] = field(default_factory=dict)
    # The rows of tags whose snapshot shows everything that was written.
    tagged_rows: dict[str, Relation] = field(default_factory=dict)

    def tag(self, name: str, snapshot: int) -> None:
        self.tags[name] = snapshot
        self.tagged[name] = self.models[snapshot]
        if snapshot in self.visible:
            self.tagged_rows[name] = self.visible[snapshot]

    def forget_tag(self, name: str) -> None:
        self.tags.pop(name, None)
        self.tagged.pop(name, None)
        self.tagged_rows.pop(name, None)

    def cut_after(self, snapshot: int) -> None:
        """Remove the snapshots after this one, and their tags."""
        self.models = {number: model for number, model in self.models.items() if number <= snapshot}
        self.visible = {number: rows for number, rows in self.visible.items() if number <= snapshot}
        for name in [name for name, number in self.tags.items() if number > snapshot]:
            self.forget_tag(name)

    def branched(self, tag: str) -> Line:
        """Return a new branch that begins with the snapshot of a tag."""
        number, model = self.tags[tag], self.tagged[tag]
        line = Line(model.copy(), {number: model})
        if tag in self.tagged_rows:
            line.visible[number] = self.tagged_rows[tag]
        line.tags[tag], line.tagged[tag] = number, model
        if tag in self.tagged_rows:
            line.tagged_rows[tag] = self.tagged_rows[tag]
        return line

    def fast_forwarded(self, branch: Line, first: int, shared: Sequence[str]) -> None:
        """Replace everything from the branch's first snapshot on by the branch.

        Main keeps the tags `shared`: those of snapshots that are the branch's, too.
        """
        kept = {name: (self.tags[name], self.tagged[name], self.tagged_rows.get(name)) for name in shared}
        self.cut_after(first - 1)
        for name, (number, model, rows) in kept.items():
            self.tags[name], self.tagged[name] = number, model
            if rows is not None:
                self.tagged_rows[name] = rows
        for mine, theirs in (
            (self.models, branch.models),
            (self.visible, branch.visible),
            (self.tags, branch.tags),
            (self.tagged, branch.tagged),
            (self.tagged_rows, branch.tagged_rows),
        ):
            mine.update(theirs)  # type: ignore[attr-defined]
        self.now = branch.now.copy()
