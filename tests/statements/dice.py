"""Draws the steps of a script: what a user might write next, given the tables that the model has."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

from tests.statements.model import Model, Outcome, Step
from tests.statements.model_table import Cell, ModelTable
from tests.statements.text import MAP, NEEDS_KEY, STRUCT, WRONG

TYPES = [
    "INT", "BIGINT", "STRING", "DECIMAL(10, 2)", "DATE", "BOOLEAN", "TIMESTAMP_NTZ", "ARRAY<INT>", STRUCT, MAP,
]  # fmt: skip
# What stands in front of the number in the name of a column.
ODD_NAMES = ["c", "c", "c", "select", "语", "a b", "a`b", 'a"b', "a,b", "a'b"]
TEXTS = ["x", "it's", "", "語", "a;b", '"', "-- no", "null"]
TABLES = 6


class Dice:
    """Draws steps, and does each on a model, so that the next ones fit."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.model = Model()
        self.numbers = 0
        self.moves: list[tuple[int, Callable[[], Step | None]]] = [
            (6, self.insert), (2, self.insert_from), (3, self.overwrite), (4, self.update), (4, self.delete),
            (5, self.merge), (1, self.truncate), (1, self.drop_partition), (1, self.delete_in), (2, self.add),
            (1, self.drop_column), (1, self.rename_column), (1, self.widen), (1, self.default), (1, self.option),
            (2, self.create), (1, self.create_as), (1, self.like), (1, self.drop), (1, self.rename), (1, self.compact),
            (1, self.tag), (2, self.travel), (1, self.travel_tag), (1, self.rollback), (2, self.select),
            (2, self.wrong), (1, self.branch), (1, self.branch_insert), (1, self.branch_read), (1, self.null_key),
            (1, self.replace_as),
        ]  # fmt: skip

    def script(self, steps: int) -> list[Step]:
        """Draw a script of this many steps."""
        found: list[Step] = []
        while len(found) < steps:
            weights = [weight for weight, _ in self.moves]
            [(_, move)] = self.draw.choices(self.moves, weights)
            step = move() if self.model.tables else self.create()
            if step is not None and self.model.run(step) is not Outcome.SKIPPED:
                found.append(step)
        return found

    # parts of statements

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def table(self) -> tuple[str, ModelTable]:
        name = self.draw.choice(list(self.model.tables))
        return name, self.model.tables[name]

    def column(self) -> str:
        return f"{self.draw.choice(ODD_NAMES)}{self.number()}"

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def cell(self, type_: str) -> Cell:
        if self.chance(0.15):
            return None
        draw = self.draw
        match type_:
            case "STRING":
                return draw.choice(TEXTS)
            case "BOOLEAN":
                return draw.choice([True, False])
            case "DATE":
                return f"2026-0{draw.randrange(1, 4)}-1{draw.randrange(5)}"
            case "TIMESTAMP_NTZ":
                return f"2026-01-0{draw.randrange(1, 4)} 0{draw.randrange(9)}:00:00"
            case "BIGINT":
                return draw.choice([draw.randrange(-5, 20), 2**40 + draw.randrange(3)])
            case "STRUCT<a: INT, b: STRING>":
                return {"a": self.cell("INT"), "b": self.cell("STRING")}
            case "MAP<STRING, INT>":
                keys = self.draw.sample(TEXTS, self.draw.randrange(3))
                return {key: draw.choice([None, draw.randrange(9)]) for key in keys}
            case "ARRAY<INT>":
                return [draw.choice([None, draw.randrange(9)]) for _ in range(draw.randrange(4))]
        if type_.startswith("DECIMAL"):
            return f"{draw.randrange(-300, 900) / 100:.2f}"
        return draw.randrange(-5, 20)

    def cell_of(self, table: ModelTable, name: str) -> Cell:
        if name == "k":
            return self.draw.randrange(12)
        if name == "p":
            return None if not table.keys and self.chance(0.1) else self.draw.choice("abc")
        return self.cell(table.columns[name])

    def row(self, table: ModelTable, names: list[str]) -> list[Cell]:
        return [self.cell_of(table, name) for name in names]

    def rows(self, table: ModelTable, names: list[str]) -> list[list[Cell]]:
        return [self.row(table, names) for _ in range(self.draw.randrange(1, 7))]

    def condition(self, table: ModelTable, alias: str = "") -> list[Any]:
        name = self.draw.choice(list(table.columns))
        value = self.cell_of(table, name)
        column = f"{alias}{name}"
        forms: list[list[Any]] = [["null", column], ["not null", column]]
        if value is not None and not isinstance(value, list | dict):
            type_ = table.columns[name]
            forms += [["=", column, value, type_], ["<>", column, value, type_], ["not", ["=", column, value, type_]]]
            others = [cell for cell in (self.cell_of(table, name) for _ in range(2)) if cell is not None]
            forms += [["in", column, [value, *others], type_], ["not", ["in", column, [value, *others], type_]]]
            if type_ != "BOOLEAN":
                forms += [[">", column, value, type_], ["<=", column, value, type_]]
        found = self.draw.choice(forms)
        if self.chance(0.3):
            return [self.draw.choice(["and", "or"]), found, self.condition(table, alias)]
        return found

    # tables

    def create(self) -> Step | None:
        if len(self.model.tables) >= TABLES:
            return None
        keyed, parted = self.chance(0.7), self.chance(0.5)
        columns: list[list[Any]] = [["k", "INT", None], ["v", self.draw.choice(["INT", "BIGINT"]), None]]
        columns += [[self.column(), self.draw.choice(TYPES), None] for _ in range(self.draw.randrange(1, 4))]
        if self.chance(0.2):
            columns[1][2] = self.draw.randrange(9)
        if parted:
            columns.insert(self.draw.randrange(len(columns) + 1), ["p", "STRING", None])
        options = self.options(keyed, columns)
        keys = [*("p" if parted else ""), "k"] if keyed else []
        if options.get("merge-engine") == "aggregation":
            columns[next(place for place, column in enumerate(columns) if column[0] == "v")][2] = None
        return {
            "op": "create", "table": f"t{self.number()}", "columns": columns, "keys": keys,
            "parts": ["p"] if parted else [], "options": options, "clause": self.draw.choice(["with", "using"]),
        }  # fmt: skip

    def options(self, keyed: bool, columns: list[list[Any]]) -> dict[str, str]:
        options = {"bucket": self.draw.choice(["-1", "1", "2"]) if keyed else "-1"}
        options["file.format"] = self.draw.choice(["parquet", "parquet", "orc", "avro"])
        if not keyed:
            return options | ({"deletion-vectors.enabled": "true"} if self.chance(0.3) else {})
        if self.chance(0.3):
            options["num-sorted-run.compaction-trigger"] = "2"
        engine = self.draw.choice(["deduplicate"] * 6 + ["partial-update", "aggregation", "first-row"])
        if engine == "deduplicate":
            options |= self.draw.choice(
                [
                    {}, {}, {"deletion-vectors.enabled": "true"}, {"changelog-producer": "input"},
                    {"changelog-producer": "lookup"}, {"changelog-producer": "full-compaction"},
                    {"sequence.field": "v"},
                    {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
                    {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
                    {"changelog-producer": "lookup", "file.format": "avro"},
                ]
            )  # fmt: skip
            return options
        options["merge-engine"] = engine
        if engine == "aggregation":
            options |= {"fields.v.aggregate-function": self.draw.choice(["sum", "max", "last_non_null_value"])}
        if engine != "first-row" and self.chance(0.5):
            options[f"{engine}.remove-record-on-delete"] = "true"
        return options

    def create_as(self) -> Step | None:
        if len(self.model.tables) >= TABLES:
            return None
        source, table = self.table()
        where = self.condition(table)
        return {"op": "create_as", "table": f"t{self.number()}", "source": source, "where": where}

    def replace_as(self) -> Step:
        """Return a CREATE OR REPLACE TABLE, whose query may read the table that it replaces."""
        name = self.table()[0]
        source, table = (name, self.model.tables[name]) if self.chance(0.5) else self.table()
        return {"op": "replace_as", "table": name, "source": source, "where": self.condition(table)}

    def like(self) -> Step | None:
        source, _ = self.table()
        name = self.table()[0] if self.chance(0.2) else f"t{self.number()}"
        return None if len(self.model.tables) >= TABLES else {"op": "like", "table": name, "source": source}

    def drop(self) -> Step | None:
        return {"op": "drop", "table": self.table()[0]} if len(self.model.tables) > 3 else None

    def rename(self) -> Step:
        to = self.table()[0] if self.chance(0.2) else f"t{self.number()}"
        return {"op": "rename", "table": self.table()[0], "to": to}

    # columns and options

    def add(self) -> Step | None:
        name, table = self.table()
        if len(table.columns) > 7:
            return None
        step: Step = {"op": "add", "table": name, "column": self.column(), "type": self.draw.choice(TYPES)}
        place = self.draw.randrange(3)
        return step | [{}, {"first": True}, {"after": self.draw.choice(list(table.columns))}][place]

    def drop_column(self) -> Step | None:
        name, table = self.table()
        return {"op": "drop_column", "table": name, "column": self.draw.choice(table.free)} if table.free else None

    def rename_column(self) -> Step | None:
        name, table = self.table()
        if not table.free:
            return None
        new = self.column()
        return {"op": "rename_column", "table": name, "column": self.draw.choice(table.free), "to": new}

    def widen(self) -> Step | None:
        name, table = self.table()
        narrow = [column for column in table.free if table.columns[column] == "INT" and column not in table.defaults]
        return {"op": "widen", "table": name, "column": self.draw.choice(narrow)} if narrow else None

    def default(self) -> Step | None:
        name, table = self.table()
        types = ["INT", "BIGINT", "STRING"]
        chosen = [column for column in table.free if table.columns[column] in types]
        if not chosen or table.engine == "aggregation":
            return None
        column = self.draw.choice(chosen)
        type_ = table.columns[column]
        value = None if self.chance(0.3) else self.cell("INT" if type_ == "BIGINT" else type_)
        return {"op": "default", "table": name, "column": column, "types": [type_], "value": value}

    def option(self) -> Step:
        key = self.draw.choice(["snapshot.num-retained.max", "target-file-size", "manifest.merge-min-count"])
        value = {"snapshot.num-retained.max": "500", "target-file-size": "1 mb", "manifest.merge-min-count": "3"}[key]
        return {"op": "option", "table": self.table()[0], "key": key, "value": self.draw.choice([value, None])}

    # rows

    def insert(self) -> Step:
        name, table = self.table()
        names, listed = list(table.columns), self.chance(0.3)
        if listed:
            fixed = {*table.keys, *table.parts, "k"}
            names = [column for column in names if column in fixed or self.chance(0.5)]
            self.draw.shuffle(names)
        types = [table.columns[column] for column in names]
        rows = self.rows(table, names)
        return {"op": "insert", "table": name, "listed": listed, "columns": names, "types": types, "rows": rows}

    def insert_from(self) -> Step | None:
        (name, table), (source, other) = self.table(), self.table()
        names = [column for column in table.columns if other.columns.get(column) == table.columns[column]]
        where, by_name = self.condition(other), self.chance(0.3)
        step = {"op": "insert_from", "table": name, "source": source, "columns": names}
        return {**step, "where": where, "by_name": by_name} if names else None

    def overwrite(self) -> Step:
        name, table = self.table()
        names = list(table.columns)
        mode = self.draw.choice(["static", "dynamic", "partition"]) if table.parts else "static"
        rows = self.rows(table, names)
        types = list(table.columns.values())
        partition = self.draw.choice("abc")
        step: Step = {"op": "overwrite", "table": name, "mode": mode, "partition": partition}
        return {**step, "columns": names, "types": types, "rows": rows}

    def assignment(self, table: ModelTable, name: str) -> list[Any]:
        type_ = table.columns[name]
        if type_ in {"INT", "BIGINT"} and self.chance(0.4):
            return ["plus", name, self.draw.randrange(1, 3)]
        if self.chance(0.15):
            return ["default", None, type_]
        same = [column for column, other in table.columns.items() if other == type_ and column != name]
        if same and self.chance(0.3):
            return ["column", self.draw.choice(same)]
        cell = self.cell(type_)
        while cell is None and table.engine == "partial-update":
            cell = self.cell(type_)
        return ["value", cell, type_]

    def update(self) -> Step | None:
        name, table = self.table()
        chosen = [
            column for column in table.columns if column in table.free or column == table.options.get("sequence.field")
        ]
        if not chosen:
            return None
        names = self.draw.sample(chosen, self.draw.randrange(1, min(3, len(chosen)) + 1))
        assignments = [[column, self.assignment(table, column)] for column in names]
        return {"op": "update", "table": name, "set": assignments, "where": self.condition(table)}

    def delete(self) -> Step:
        name, table = self.table()
        where = self.condition(table) if table.deletable else ["=", "k", self.draw.randrange(12), "INT"]
        return {"op": "delete", "table": name, "where": where}

    def delete_in(self) -> Step:
        return {"op": "delete_in", "table": self.table()[0], "source": self.table()[0]}

    def truncate(self) -> Step:
        return {"op": "truncate", "table": self.table()[0]}

    def drop_partition(self) -> Step:
        return {"op": "drop_partition", "table": self.table()[0], "partition": self.draw.choice("abc")}

    def merge(self) -> Step:
        name, table = self.table()
        columns = list(table.columns)
        on = list(table.keys) or ["k"]
        rows = self.rows(table, columns)
        if not self.chance(0.05):  # else two rows of the source may belong to one row of the table
            rows = list({tuple(row[columns.index(column)] for column in on): row for row in rows}.values())
        clauses = [self.clause(table, on) for _ in range(self.draw.randrange(1, 5))]
        step: Step = {"op": "merge", "table": name, "columns": columns, "types": list(table.columns.values())}
        order = ["matched", "not matched", "by source"]
        clauses.sort(key=lambda clause: order.index(clause["when"]))
        # Only the last clause of its kind may be without a condition.
        for clause, following in itertools.pairwise(clauses):
            if clause["when"] == following["when"] and clause["and"] is None:
                clause["and"] = ["=", self._side(clause["when"]) + "k", self.draw.randrange(12), "INT"]
        return {**step, "rows": rows, "on": on, "clauses": clauses}

    def clause(self, table: ModelTable, on: list[str]) -> dict[str, Any]:
        when = self.draw.choice(["matched", "matched", "not matched", "by source"])
        condition = self.condition(table, self._side(when)) if self.chance(0.6) else None
        if when == "not matched":
            optional = [column for column in table.columns if column not in {*on, *table.keys, *table.parts}]
            some = [column for column in table.columns if column not in optional or self.chance(0.5)]
            columns = some if self.chance(0.5) else None
            return {"when": when, "and": condition, "then": "insert", "set": None, "columns": columns}
        if (table.deletable and self.chance(0.4)) or not table.free:
            return {"when": when, "and": condition, "then": "delete", "set": None, "columns": None}
        return {"when": when, "and": condition, "then": "update", "set": self._set(table, when), "columns": None}

    def _side(self, when: str) -> str:
        return {"matched": self.draw.choice("ts") + ".", "not matched": "s.", "by source": "t."}[when]

    def _set(self, table: ModelTable, when: str) -> list[Any] | None:
        if when == "matched" and self.chance(0.3) and table.engine in {"append", "deduplicate"}:
            return None
        found: list[Any] = []
        for name in self.draw.sample(table.free, self.draw.randrange(1, min(2, len(table.free)) + 1)):
            from_source = when == "matched" and self.chance(0.6)
            value = (
                ["column", f"s.{name}"] if from_source else ["value", self.draw_cell(table, name), table.columns[name]]
            )
            found.append([name, value])
        return found

    def draw_cell(self, table: ModelTable, name: str) -> Cell:
        cell = self.cell(table.columns[name])
        while cell is None and table.engine == "partial-update":
            cell = self.cell(table.columns[name])
        return cell

    # states

    def compact(self) -> Step:
        return {"op": "compact", "table": self.table()[0]}

    def tag(self) -> Step:
        return {"op": "tag", "table": self.table()[0], "name": f"tag{self.number()}"}

    def travel(self) -> Step:
        return {"op": "travel", "table": self.table()[0], "pick": self.draw.randrange(1000)}

    def travel_tag(self) -> Step:
        name, table = self.table()
        return {"op": "travel_tag", "table": name, "name": self.draw.choice([*table.tags, "no tag"])}

    def rollback(self) -> Step:
        return {"op": "rollback", "table": self.table()[0], "pick": self.draw.randrange(1000)}

    def select(self) -> Step:
        name, table = self.table()
        return {"op": "select", "table": name, "where": self.condition(table)}

    def branch(self) -> Step:
        return {"op": "branch", "table": self.table()[0], "name": f"b{self.number()}"}

    def branch_insert(self) -> Step | None:
        name, table = self.table()
        if not table.branches:
            return None
        branch = self.draw.choice(list(table.branches))
        columns = table.branches[branch].columns
        rows = self.rows(table.branches[branch], list(columns))
        step: Step = {"op": "branch_insert", "table": name, "name": branch, "columns": list(columns)}
        return {**step, "types": list(columns.values()), "rows": rows}

    def branch_read(self) -> Step | None:
        name, table = self.table()
        return {"op": "branch_read", "table": name, "name": self.draw.choice([*table.branches, "nothing"])}

    def null_key(self) -> Step | None:
        """Return an INSERT in which one row has null in its key."""
        step = self.insert()
        table = self.model.tables[step["table"]]
        if not table.keys:
            return None
        row, place = self.draw.choice(step["rows"]), step["columns"].index(self.draw.choice(table.keys))
        row[place] = None
        return step

    def wrong(self) -> Step:
        kind = self.draw.choice(list(WRONG))
        return {"op": "wrong", "table": self.table()[0], "kind": kind, "keyed": kind in NEEDS_KEY}
