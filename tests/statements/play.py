"""Runs scripts on an engine, compares each table with the model, and shortens scripts that fail."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import PenstockError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter
from tests.invariants import check_invariants
from tests.statements.dice import Dice
from tests.statements.model import Model, Outcome, Step
from tests.statements.model_table import Cell, ModelTable, Row
from tests.statements.text import MAP, STRUCT, Text

OPTIONS = {"local.sync": "false"}
READS = {"travel", "travel_tag", "select", "branch_read"}


class Refused(Exception):
    """The engine refused a statement with a message for users."""


class Engine(Protocol):
    """What runs statements in the database `d` of a warehouse, which is made empty by `begin`."""

    text: Text

    def begin(self) -> Catalog:
        """Return the catalog of an empty warehouse."""

    def run(self, statement: str) -> list[Row]:
        """Run a statement, and return its rows; raise Refused where the user is told that it cannot be."""

    def end(self) -> None:
        """Give up the warehouse."""


class DuckDb:
    """SQL without Spark."""

    text = Text("duckdb")

    def begin(self) -> Catalog:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-statements-")
        catalog = Catalog(self._folder.name, OPTIONS)
        self._interpreter = Interpreter(catalog)
        self.run("CREATE DATABASE d; USE d")
        return catalog

    def run(self, statement: str) -> list[Row]:
        try:
            return list(self._interpreter.run(statement))[-1].to_pylist()  # type: ignore[no-any-return]  # Arrow's rows
        except PenstockError as error:
            if "line" not in error.facts:
                raise AssertionError(f"the error has no line: {error}") from error
            raise Refused(str(error)) from error

    def end(self) -> None:
        self._interpreter.__exit__()
        self._folder.cleanup()


class ScriptFailed(AssertionError):
    """An engine did not do what the model says. `cause` is the same for the same fault of other scripts."""

    def __init__(self, steps: Sequence[Step], statements: Sequence[str], cause: str, details: str) -> None:
        self.steps, self.cause = steps, cause
        recent = "\n".join(f"  {statement}" for statement in statements[-25:])
        super().__init__(f"step {len(steps)}, {cause}: {details}\n{recent}")


@dataclass(slots=True)
class Play:
    """One script on one engine."""

    engine: Engine
    steps: Sequence[Step]
    model: Model = field(init=False)
    done: int = 0
    ran: list[str] = field(default_factory=list)
    # The snapshots of the versions of each table in the model.
    snapshots: dict[str, list[int]] = field(default_factory=dict)
    catalog: Catalog = field(init=False)

    def run(self) -> int:
        """Run the script, and return the number of statements."""
        self.model = Model()
        self.catalog = self.engine.begin()
        try:
            for place in range(len(self.steps)):
                self.done = place + 1
                self._step(self.steps[place])
            for name in self.model.tables:
                check_invariants(self.catalog.table(f"d.{name}"))
        finally:
            self.engine.end()
        return len(self.ran)

    def _step(self, step: Step) -> None:
        # The version that a step goes back to, before the step removes it.
        table = self.model.tables.get(step.get("table", ""))
        place = step["pick"] % len(table.versions) if "pick" in step and table and table.versions else None
        version = None if place is None or table is None else table.versions[place]
        outcome = self.model.run(step)
        if outcome is Outcome.SKIPPED:
            return
        if step["op"] == "travel_tag" and outcome is Outcome.DONE and table is not None:
            version = table.versions[table.tags[step["name"]]]
        snapshot = None if place is None else self.snapshots[step["table"]][place]
        found = self._statements(step, outcome, snapshot)
        if step["op"] in READS and outcome is Outcome.DONE and table is not None:
            self._compare_read(step, table, version, found)
            return
        self._follow(step, place)
        names = sorted(self.catalog.tables("d"))
        if names != sorted(self.model.tables):
            self._fail(step, "other tables", f"{names}, not {sorted(self.model.tables)}")
        changed = self.model.tables.get(
            step["to"] if step["op"] == "rename" and outcome is Outcome.DONE else step["table"]
        )
        if changed is not None:
            self._compare(step, changed)

    def _statements(self, step: Step, outcome: Outcome, snapshot: int | None) -> list[Row]:
        found: list[Row] = []
        for statement in self.engine.text.of(step, snapshot):
            self.ran.append(statement)
            try:
                found = self.engine.run(statement)
            except Refused as refusal:
                if outcome is Outcome.REFUSED:
                    return []
                self._fail(step, "refused", str(refusal))
            except Exception as error:  # noqa: BLE001  # any other error of an engine is a defect, to be reported with its script
                self._fail(step, f"{type(error).__name__}", str(error)[:2000])
        if outcome is Outcome.REFUSED:
            self._fail(step, "not refused", str(found))
        return found

    def _follow(self, step: Step, place: int | None) -> None:
        """Keep the snapshots of versions, as the model keeps their rows."""
        if step["op"] == "rename" and step["table"] in self.snapshots and step["table"] not in self.model.tables:
            self.snapshots[step["to"]] = self.snapshots.pop(step["table"])
        self.snapshots = {name: ids for name, ids in self.snapshots.items() if name in self.model.tables}
        if step["op"] == "replace_as":
            self.snapshots[step["table"]] = []
        if step["op"] == "rollback" and place is not None:
            del self.snapshots[step["table"]][place + 1 :]
        for name, table in self.model.tables.items():
            ids = self.snapshots.setdefault(name, [])
            if len(ids) < len(table.versions):
                latest = self.catalog.table(f"d.{name}").latest_snapshot
                if latest is None or latest.id in ids:
                    self._fail(step, "no snapshot", f"{name} has no snapshot of the change")
                else:
                    ids.append(latest.id)

    def _compare(self, step: Step, table: ModelTable) -> None:
        name = next(found for found, other in self.model.tables.items() if other is table)
        stored = self.catalog.table(f"d.{name}").scan().to_arrow()
        if stored.schema.names != list(table.columns):
            self._fail(step, "other columns", f"{stored.schema.names}, not {list(table.columns)}")
        self._same(step, stored.to_pylist(), table.rows, table.columns)

    def _compare_read(self, step: Step, table: ModelTable, version: Any, found: list[Row]) -> None:
        columns, rows = version or (table.branches[step["name"]] if step["op"] == "branch_read" else table).state
        if step["op"] == "select":
            from tests.statements.model_table import holds

            rows = [row for row in rows if holds(step["where"], row, columns)]
        self._same(step, found, rows, columns)

    def _same(self, step: Step, found: list[Row], expected: list[Row], columns: dict[str, str]) -> None:
        own = sorted(repr([plain(row[name], columns[name]) for name in columns]) for row in expected)
        got = sorted(repr([plain(cell, columns.get(name, "")) for name, cell in row.items()]) for row in found)
        if own != got:
            missing, extra = [row for row in own if row not in got], [row for row in got if row not in own]
            counts = "" if missing or extra else f"{len(got)} rows, not {len(own)}"
            self._fail(step, "other rows", f"missing {missing[:5]}, too many {extra[:5]} {counts}")

    def _fail(self, step: Step, cause: str, details: str) -> None:
        raise ScriptFailed(self.steps[: self.done], self.ran, f"{step['op']} {cause}", details)


def plain(value: Cell, type_: str) -> Cell:
    """Return a value as the model has it."""
    match value:
        case Decimal():
            return f"{value:.2f}"
        case dt.datetime():
            return str(value.replace(tzinfo=None))
        case dt.date():
            return value.isoformat()
        # The keys of a map have no order: Spark returns them in one of its own.
        case [*pairs] if type_ == MAP:  # as Arrow has a map
            return dict(sorted(pairs))
        case dict():
            return dict(sorted(value.items()))
        case tuple() if type_ == STRUCT:  # a row of Spark
            return dict(zip("ab", value, strict=True))
    return value


def failure_of(engine: Engine, steps: Sequence[Step]) -> ScriptFailed | None:
    try:
        Play(engine, steps).run()
    except ScriptFailed as failure:
        return failure
    return None


def shrunk(engine: Engine, failure: ScriptFailed) -> ScriptFailed:
    """Remove steps, rows and parts as long as the script fails with the same cause."""
    smaller = True
    while smaller:
        smaller = False
        for shorter in shorter_ones(failure.steps):
            found = failure_of(engine, shorter)
            if found is not None and found.cause == failure.cause:
                failure, smaller = found, True
                break
    return failure


def shorter_ones(steps: Sequence[Step]) -> Iterator[list[Step]]:
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            yield [*steps[:start], *steps[start + size :]]
        size //= 2
    for place, step in enumerate(steps):
        for key in ("rows", "clauses", "set"):
            parts = step.get(key) or []
            for part in range(len(parts) if len(parts) > 1 else 0):
                yield [*steps[:place], {**step, key: [*parts[:part], *parts[part + 1 :]]}, *steps[place + 1 :]]
        for key in step.get("options", {}):
            fewer = {name: value for name, value in step["options"].items() if name != key}
            yield [*steps[:place], {**step, "options": fewer}, *steps[place + 1 :]]


def play_seed(engine: Engine, seed: int, steps: int) -> int:
    """Run the script of a seed, and return the number of its statements."""
    return Play(engine, Dice(seed).script(steps)).run()


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def keep(folder: Path, name: str, steps: Sequence[Step]) -> Path:
    path = folder / f"{name}.json"
    path.write_text("\n".join(["[", ",\n".join(json.dumps(step) for step in steps), "]"]) + "\n", encoding="utf-8")
    return path


ENGINES: dict[str, Callable[[], Engine]] = {"duckdb": DuckDb}
