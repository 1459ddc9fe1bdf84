"""The expected content of a table, kept row by row in a dict, for each branch with its snapshots and tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.golden.relations import Relation, Type, unordered_columns
from tests.simulation.model import Key, Model, Row
from tests.simulation.story import Story
from tests.stories.merging import aggregate_of, groups_of, merge_groups, order

# Engines that combine rows, each with an option that lets deletes remove the row of their key.
REMOVING = ("partial-update", "aggregation")
Holds = Callable[[Mapping[str, Any]], bool]


class TableModel(Model):
    """`Model` with its merge engines, extended by overwrites, deletes, partitions, and tables without keys."""

    def __init__(self, story: Story) -> None:
        super().__init__(story.columns, story.primary_keys, story.options)
        self._partition_names = list(story.partition_keys)
        self._rows_so_far = 0
        self._groups = groups_of(story.options)
        # Whether a delete removes the row of its key, where engines otherwise take back columns.
        self.removes = any("remove-record" in key for key in story.options)
        # If keys move between partitions, an engine that combines rows keeps a key where it is.
        keyed = set(story.primary_keys)
        moves = bool(keyed) and not set(story.partition_keys) <= keyed
        self._fixed = keyed | set(story.partition_keys if moves and self._engine in REMOVING else ())
        self._settles = moves and self._engine != "deduplicate"

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
        changes = self._counted(changes)
        if self._engine == "aggregation" and not self.removes:
            changes = [["+I", *(self._negated(row) if kind in {"-U", "-D"} else row)] for kind, *row in changes]
        for kind, *row in changes:
            key = self.key_of(row)
            if kind not in {"-U", "-D"}:
                self._add(key, row)
            elif not self._groups:
                self._retract(kind, key)
            elif key in self.rows:
                self._move_groups(kind, key, row)

    def _counted(self, changes: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Return the changes that the table does not ignore, with their kinds."""
        if "rowkind.field" in self.options:
            place = 1 + self.names.index(self.options["rowkind.field"])
            changes = [[row[place], *row[1:]] for row in changes]
        ignored: set[str] = set()
        if self.options.get("ignore-delete") == "true":
            ignored = {"-U", "-D"}
        elif self.options.get("ignore-update-before") == "true":
            ignored = {"-U"}
        return [row for row in changes if row[0] not in ignored]

    def _negated(self, row: Row) -> Row:
        """Return a row that takes back what this one added: sums are negative, other aggregates ignore it."""
        return [self._negative(name, cell) for name, cell in zip(self.names, row, strict=True)]

    def _negative(self, name: str, cell: Any) -> Any:
        if name in self._key_names:
            return cell
        return -cell if self.options.get(f"fields.{name}.aggregate-function") == "sum" and cell is not None else None

    def _add(self, key: Key, row: Row) -> None:
        held = self.rows.get(key)
        if held is None:
            self.rows[key] = row
            return
        row = [old if name in self._fixed else new for name, old, new in zip(self.names, held, row, strict=True)]
        if self._groups:
            self._move_groups("+I", key, row)
        elif self._engine == "aggregation" and not self._is_newer(row, held):
            self.rows[key] = self._aggregated(row, held)
        elif self._engine == "aggregation":
            self.rows[key] = self._aggregated(held, row)
        else:
            super()._add(key, row)

    def _aggregated(self, older: Row, newer: Row) -> Row:
        return [self._aggregate(place, *cells) for place, cells in enumerate(zip(older, newer, strict=True))]

    def _move_groups(self, kind: str, key: Key, row: Row) -> None:
        new, held = (dict(zip(self.names, cells, strict=True)) for cells in (row, self.rows[key]))
        merged = merge_groups(self.options, self._groups, kind, new, held)
        if merged is None:
            del self.rows[key]
        else:
            self.rows[key] = [merged[name] for name in self.names]

    def _is_newer(self, row: Row, held: Row) -> bool:
        names = self.options.get("sequence.field")
        if names is None:
            return True
        new, old = (order(names.split(","), dict(zip(self.names, cells, strict=True))) for cells in (row, held))
        if self.options.get("sequence.field.sort-order") == "descending":
            # A null is older than any value, in this order, too.
            new, old = ([(known, -value) for known, value in cells] for cells in (new, old))
        return new >= old

    def _aggregate(self, place: int, held: Any, new: Any) -> Any:
        name = self.names[place]
        if name in self._fixed:
            return held
        if name in self.options.get("sequence.field", "").split(","):
            return new
        return aggregate_of(self.options, name)(held, new)

    def relation(self) -> Relation:
        return replace(super().relation(), unordered=unordered_columns(self.options))

    def overwrite(self, changes: Sequence[Sequence[Any]], spec: Mapping[str, Any] | None) -> None:
        """Replace the partitions that `spec` names, or without `spec` the partitions of the rows."""
        if spec is None and self._partition_names and self.options.get("dynamic-partition-overwrite") != "false":
            rows = [row for _, *row in changes]
            if self._settles:  # a partition is not written to if its rows went to another, or were dropped
                made = self.copy()
                made.rows = {}
                made.apply(changes)
                rows = list(made.rows.values())
            written = {self.partition_of(row) for row in rows}
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
