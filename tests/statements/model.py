"""What the steps of a script do to the tables of a model."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tests.statements.model_table import Cell, ModelTable, Row, State, columns_of, holds, older

Step = dict[str, Any]


class Outcome(enum.Enum):
    """What must come of a step."""

    DONE = "done"
    REFUSED = "refused"
    SKIPPED = "skipped"


class Model:
    """The tables of a script. `run` does a step, and returns what an engine must do with it."""

    def __init__(self) -> None:
        self.tables: dict[str, ModelTable] = {}

    def run(self, step: Step) -> Outcome:
        verb = getattr(self, f"do_{step['op']}")
        if "table" not in step or step["op"] in {"create", "create_as", "like"}:
            return verb(step)  # type: ignore[no-any-return]  # all verbs return outcomes
        table = self.tables.get(step["table"])
        if table is None:
            return Outcome.SKIPPED
        before = table.state
        outcome: Outcome = verb(table, step)
        kept = self.tables.get(step.get("to", step["table"]) if step["op"] == "rename" else step["table"])
        if kept is not None and outcome is Outcome.DONE:
            self._note(kept, before, step["op"])
        return outcome

    @staticmethod
    def _note(table: ModelTable, before: State, op: str) -> None:
        after = table.state
        if op in {"rollback", "replace_as"}:
            return
        if op in DEFINING:
            table.altered |= list(after[0].items()) != list(before[0].items())
        elif sorted(map(repr, after[1])) != sorted(map(repr, before[1])):
            table.versions.append(after)
            table.altered = False

    # tables

    def do_create(self, step: Step) -> Outcome:
        if step["table"] in self.tables:
            return Outcome.REFUSED
        self.tables[step["table"]] = ModelTable(
            {name: type_ for name, type_, _ in step["columns"]},
            tuple(step["keys"]),
            tuple(step["parts"]),
            dict(step["options"]),
            defaults={name: default for name, _, default in step["columns"] if default is not None},
        )
        return Outcome.DONE

    def do_create_as(self, step: Step) -> Outcome:
        return Outcome.REFUSED if step["table"] in self.tables else self._made_of_query(step)

    def do_replace_as(self, _: ModelTable, step: Step) -> Outcome:
        return self._made_of_query(step)

    def _made_of_query(self, step: Step) -> Outcome:
        source = self.tables.get(step["source"])
        if source is None or not columns_of(step["where"]) <= source.columns.keys():
            return Outcome.SKIPPED
        made = ModelTable(dict(source.columns))
        made.rows = [dict(row) for row in source.rows if holds(step["where"], row, source.columns)]
        if made.rows:
            made.versions.append(made.state)
        self.tables[step["table"]] = made
        return Outcome.DONE

    def do_like(self, step: Step) -> Outcome:
        source = self.tables.get(step["source"])
        if source is None:
            return Outcome.SKIPPED
        if step["table"] in self.tables:
            return Outcome.REFUSED
        self.tables[step["table"]] = replace(
            source,
            columns=dict(source.columns),
            options=dict(source.options),
            defaults=dict(source.defaults),
            rows=[],
            versions=[],
            altered=False,
            tags={},
            graves={},
            branches={},
        )
        return Outcome.DONE

    def do_drop(self, _: ModelTable, step: Step) -> Outcome:
        del self.tables[step["table"]]
        return Outcome.DONE

    def do_rename(self, table: ModelTable, step: Step) -> Outcome:
        if step["to"] in self.tables:
            return Outcome.REFUSED
        del self.tables[step["table"]]
        self.tables[step["to"]] = table
        return Outcome.DONE

    # columns and options

    def do_add(self, table: ModelTable, step: Step) -> Outcome:
        if step["column"] in table.columns:
            return Outcome.REFUSED
        if step.get("after") is not None and step["after"] not in table.columns:
            return Outcome.SKIPPED
        names = list(table.columns)
        place = 0 if step.get("first") else len(names)
        if step.get("after") is not None:
            place = names.index(step["after"]) + 1
        names.insert(place, step["column"])
        types = {**table.columns, step["column"]: step["type"]}
        table.columns = {name: types[name] for name in names}
        for row in table.rows:
            row[step["column"]] = None
        return Outcome.DONE

    def do_drop_column(self, table: ModelTable, step: Step) -> Outcome:
        if step["column"] not in table.free or len(table.free) < 2 or aggregated(table, step["column"]):
            return Outcome.SKIPPED
        del table.columns[step["column"]]
        table.defaults.pop(step["column"], None)
        for row in table.rows:
            del row[step["column"]]
        return Outcome.DONE

    def do_rename_column(self, table: ModelTable, step: Step) -> Outcome:
        old, new = step["column"], step["to"]
        if old not in table.free or new in table.columns or aggregated(table, old):
            return Outcome.SKIPPED
        table.columns = {new if name == old else name: type_ for name, type_ in table.columns.items()}
        if old in table.defaults:
            table.defaults[new] = table.defaults.pop(old)
        for row in table.rows:
            row[new] = row.pop(old)
        return Outcome.DONE

    def do_widen(self, table: ModelTable, step: Step) -> Outcome:
        if step["column"] not in table.free or table.columns[step["column"]] != "INT":
            return Outcome.SKIPPED
        table.columns[step["column"]] = "BIGINT"
        return Outcome.DONE

    def do_default(self, table: ModelTable, step: Step) -> Outcome:
        if step["column"] not in table.free or table.columns[step["column"]] not in step["types"]:
            return Outcome.SKIPPED
        table.defaults.pop(step["column"], None)
        if step["value"] is not None:
            table.defaults[step["column"]] = step["value"]
        return Outcome.DONE

    def do_option(self, table: ModelTable, step: Step) -> Outcome:
        table.options.pop(step["key"], None)
        if step["value"] is not None:
            table.options[step["key"]] = step["value"]
        return Outcome.DONE

    # rows

    def do_insert(self, table: ModelTable, step: Step) -> Outcome:
        if not set(step["columns"]) <= table.columns.keys() or not fits(table, step):
            return Outcome.SKIPPED
        rows = [given_row(table, step["columns"], cells) for cells in step["rows"]]
        if any(row[name] is None for row in rows for name in table.keys):
            return Outcome.REFUSED
        if table.unsure(rows):
            return Outcome.SKIPPED
        table.put(rows)
        return Outcome.DONE

    def do_insert_from(self, table: ModelTable, step: Step) -> Outcome:
        source, names = self.tables.get(step["source"]), step["columns"]
        if source is None or not {*names, *columns_of(step["where"])} <= source.columns.keys():
            return Outcome.SKIPPED
        if not {*table.keys, *table.parts} <= set(names) <= table.columns.keys():
            return Outcome.SKIPPED
        if any(table.columns[name] != source.columns[name] for name in names):
            return Outcome.SKIPPED
        chosen = [row for row in source.rows if holds(step["where"], row, source.columns)]
        rows = [given_row(table, names, [row[name] for name in names]) for row in chosen]
        keys = [table.key_of(row) for row in rows]
        # The order in which an engine reads rows is not defined, so no two rows may have one key.
        if table.keys and (len(set(keys)) < len(keys) or any(None in key for key in keys) or table.unsure(rows)):
            return Outcome.SKIPPED
        table.put(rows)
        return Outcome.DONE

    def do_overwrite(self, table: ModelTable, step: Step) -> Outcome:
        columns = list(table.columns)
        if step["columns"] != columns or not fits(table, step) or (step["mode"] != "static" and not table.parts):
            return Outcome.SKIPPED
        rows = [dict(zip(columns, cells, strict=True)) for cells in step["rows"]]
        if step["mode"] == "partition":
            rows = [{**row, "p": step["partition"]} for row in rows]
        replaced = {row["p"] for row in rows} if step["mode"] != "static" else set()
        table.rows = [row for row in table.rows if step["mode"] != "static" and row["p"] not in replaced]
        table.put(rows)
        return Outcome.DONE

    def do_truncate(self, table: ModelTable, _: Step) -> Outcome:
        table.rows = []
        return Outcome.DONE

    def do_drop_partition(self, table: ModelTable, step: Step) -> Outcome:
        if not table.parts or not any(row["p"] == step["partition"] for row in table.rows):
            return Outcome.SKIPPED
        table.rows = [row for row in table.rows if row["p"] != step["partition"]]
        return Outcome.DONE

    def do_update(self, table: ModelTable, step: Step) -> Outcome:
        named = {name for name, _ in step["set"]} | columns_of(step["where"])
        if not (named | inputs(step["set"])) <= table.columns.keys() or not set_fits(table, step["set"]):
            return Outcome.SKIPPED
        if not table.updatable or {name for name, _ in step["set"]} & set(table.keys):
            return Outcome.REFUSED
        changed = {
            id(row): assigned(row, step["set"]) for row in table.rows if holds(step["where"], row, table.columns)
        }
        rows = [(row, changed.get(id(row), row)) for row in table.rows]
        if lost(table, rows):
            return Outcome.REFUSED
        table.rows = [old if old is new else table.filled(new) for old, new in rows]
        return Outcome.DONE

    def do_delete(self, table: ModelTable, step: Step) -> Outcome:
        if not columns_of(step["where"]) <= table.columns.keys():
            return Outcome.SKIPPED
        if not table.deletable:
            # A condition on partitions drops these, in every table.
            return Outcome.SKIPPED if columns_of(step["where"]) <= set(table.parts) else Outcome.REFUSED
        table.bury(row for row in table.rows if holds(step["where"], row, table.columns))
        table.rows = [row for row in table.rows if not holds(step["where"], row, table.columns)]
        return Outcome.DONE

    def do_delete_in(self, table: ModelTable, step: Step) -> Outcome:
        source = self.tables.get(step["source"])
        if source is None or not table.deletable:
            return Outcome.SKIPPED
        keys = {row["k"] for row in source.rows}
        table.bury(row for row in table.rows if row["k"] in keys)
        table.rows = [row for row in table.rows if row["k"] not in keys]
        return Outcome.DONE

    def do_merge(self, table: ModelTable, step: Step) -> Outcome:
        from tests.statements.merge import merge

        if table.updatable:
            return merge(table, step)
        # Spark runs a MERGE that only inserts as INSERT.
        only_inserts = all(clause["then"] == "insert" for clause in step["clauses"])
        return Outcome.SKIPPED if only_inserts else Outcome.REFUSED

    # states

    def do_compact(self, table: ModelTable, _: Step) -> Outcome:
        return Outcome.SKIPPED if table.altered else Outcome.DONE

    def do_tag(self, table: ModelTable, step: Step) -> Outcome:
        # Without a change of rows after ALTER TABLE, the schema of the newest snapshot is not known here.
        if table.altered or not table.versions or step["name"] in table.tags:
            return Outcome.SKIPPED
        table.tags[step["name"]] = len(table.versions) - 1
        return Outcome.DONE

    def do_travel(self, table: ModelTable, _: Step) -> Outcome:
        return Outcome.DONE if table.versions else Outcome.SKIPPED

    def do_travel_tag(self, table: ModelTable, step: Step) -> Outcome:
        return Outcome.DONE if step["name"] in table.tags else Outcome.REFUSED

    def do_rollback(self, table: ModelTable, step: Step) -> Outcome:
        if not table.versions:
            return Outcome.SKIPPED
        place = step["pick"] % len(table.versions)
        columns, rows = table.versions[place]
        # A rollback keeps the columns of today.
        if table.altered or any(list(other) != list(columns) for other, _ in table.versions[place:]):
            return Outcome.SKIPPED
        if list(columns.items()) != list(table.columns.items()):
            return Outcome.SKIPPED
        table.rows = [dict(row) for row in rows]
        del table.versions[place + 1 :]
        table.tags = {name: version for name, version in table.tags.items() if version <= place}
        return Outcome.DONE

    def do_branch(self, table: ModelTable, step: Step) -> Outcome:
        # A branch begins empty, and has the columns of today.
        if step["name"] in table.branches:
            return Outcome.SKIPPED
        made = replace(table, rows=[], versions=[], tags={}, graves={}, branches={}, defaults=dict(table.defaults))
        table.branches[step["name"]] = replace(made, columns=dict(table.columns), options=dict(table.options))
        return Outcome.DONE

    def do_branch_insert(self, table: ModelTable, step: Step) -> Outcome:
        branch = table.branches.get(step["name"])
        return Outcome.SKIPPED if branch is None else self.do_insert(branch, step)

    def do_branch_read(self, table: ModelTable, step: Step) -> Outcome:
        return Outcome.DONE if step["name"] in table.branches else Outcome.REFUSED

    def do_select(self, table: ModelTable, step: Step) -> Outcome:
        return Outcome.DONE if columns_of(step["where"]) <= table.columns.keys() else Outcome.SKIPPED

    def do_wrong(self, table: ModelTable, step: Step) -> Outcome:
        if step["kind"] == "set key" and all(row["k"] == 1 for row in table.rows):
            return Outcome.SKIPPED  # Spark does not refuse what changes nothing
        return Outcome.SKIPPED if step["keyed"] and not table.keys else Outcome.REFUSED


DEFINING = {"add", "drop_column", "rename_column", "widen", "default", "option", "rename"}


def aggregated(table: ModelTable, column: str) -> bool:
    """Return whether an option of the table names the column."""
    return any(key.startswith(f"fields.{column}.") for key in table.options)


def fits(table: ModelTable, step: Step) -> bool:
    """Return whether the columns still have the types for which the values were drawn."""
    return all(table.columns[name] == type_ for name, type_ in zip(step["columns"], step["types"], strict=True))


def given_row(table: ModelTable, columns: Sequence[str], cells: Sequence[Cell]) -> Row:
    """Return a row of INSERT with a list of columns."""
    given = dict(zip(columns, cells, strict=True))
    return {name: given.get(name) for name in table.columns}


def inputs(assignments: Sequence[Any]) -> set[str]:
    return {value[1] for _, value in assignments if value[0] not in {"value", "default"}}


def set_fits(table: ModelTable, assignments: Sequence[Any]) -> bool:
    """Return whether values have the types of their columns."""
    for name, value in assignments:
        type_ = table.columns[value[1]] if value[0] not in {"value", "default"} else value[2]
        if table.columns[name] != type_ or (value[0] == "plus" and type_ not in {"INT", "BIGINT"}):
            return False
    return True


def assigned(row: Row, assignments: Sequence[Any], inputs_of: Callable[[str], Cell] | None = None) -> Row:
    """Return the row with new values, which are computed from the old ones."""
    value_of = inputs_of or row.__getitem__
    new = dict(row)
    for name, value in assignments:
        match value:
            case ["value", cell, *_]:
                new[name] = cell
            case ["default", *_]:
                new[name] = None  # which is written as the default
            case ["column", column]:
                new[name] = value_of(column)
            case ["plus", column, number]:
                new[name] = None if value_of(column) is None else value_of(column) + number
    return new


def lost(table: ModelTable, rows: Iterable[tuple[Row, Row]]) -> bool:
    """Return whether the merge engine would not take a new value."""
    sequence = table.options.get("sequence.field")
    pairs = [(old, new) for old, new in rows if old is not new]
    if table.engine == "partial-update":
        kept = [name for name in table.columns if name not in table.defaults]  # null is written as the default
        return any(old[name] is not None and new[name] is None for old, new in pairs for name in kept)
    return sequence is not None and any(older(new[sequence], old[sequence]) for old, new in pairs)
