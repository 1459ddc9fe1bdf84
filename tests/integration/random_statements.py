"""Random statements on a database server, with runs of a pipeline between them.

Runs change which tables are included, lose connections and are killed. At the end, the tables are equal to the
server's. Some plays have rules of a pipeline file, requests to read tables again, and runs that empty a table first.
PENSTOCK_CHAOS_ROUNDS=100 plays that many seeds on each server instead of a few.
"""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pytest

from penstock.errors import PenstockError
from penstock.pipelines.api.verify import TableVerdict
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.rules import ExpectConfig, TransformConfig
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.ledger.batch_logs import BatchLogs
from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from penstock.table.handle import Table
from tests.integration.failing_calls import Countdown, Killed, die
from tests.integration.play_report import history_shown
from tests.invariants import check_invariants
from tests.without_spark import run_here

SEEDS = range(int(os.environ.get("PENSTOCK_CHAOS_ROUNDS", "3")))
TABLES = ("t0", "t1", "t2", "t3")
KILLS: tuple[tuple[type, str], ...] = (
    (BatchLogs, "plan"),
    (BatchLogs, "finish"),
    (BatchDriver, "take"),
    (Commits, "commit"),
)
# What the target tables are: the first has its weight because most faults of reading show in any table.
TARGETS: dict[tuple[str, ...], int] = {
    (): 4,
    ("--table-conf", "changelog-producer=lookup", "--table-conf", "bucket=2"): 1,
    ("--table-conf", "changelog-producer=full-compaction", "--table-conf", "bucket=1"): 1,
    ("--table-conf", "deletion-vectors.enabled=true"): 1,
    ("--deletes", "soft"): 1,
    ("--deletes", "history"): 1,
}
# The server selects rows by filters of these columns. Each row passes for ever or never, so that a quality rule which
# drops rows is a filter to the tables.
FILTERS = (None, "id % 3 <> 1", "id > 4", "id <> 7 and id < 1000", "not (id between 3 and 9)")
PROJECTIONS = (None, None, "*, id + 1 as next")
EXPECTED = (None, "id % 4 <> 3", "id < 5000")
# Conditions of rows that are read again. No table has the column of the last one: the request is refused.
PARTS = ("", "", "id % 2 = 0", "id < 6 or id > 1000", "region = 'x'")
ACTIONS = {
    "create": 3,
    "insert": 7,
    "delete": 2,
    "update": 2,
    "move_keys": 1,
    "roll_back": 1,
    "add_column": 3,
    "drop_column": 3,
    "rename_column": 1,
    "widen_column": 1,
    "rewrite_column": 1,
    "truncate": 1,
    "drop": 1,
    "rename": 1,
}


class Server(Protocol):
    def run(self, *statements: str) -> Any: ...


class Pipeline(Protocol):
    """A pipeline from the server into tables."""

    @property
    def spec(self) -> PipelineSpec: ...

    def tables(self) -> list[str]: ...

    def target(self, name: str | None = None) -> Table: ...


@dataclass
class Play(ABC):
    """Random statements on a server, and runs of a pipeline between them.

    `history` has the statements and the runs so far, for the report of a failure.
    """

    schema: ClassVar[str]  # the first part of the names of source tables
    kills: ClassVar[Sequence[tuple[type, str]]] = KILLS
    actions: ClassVar[dict[str, int]] = ACTIONS

    server: Server
    folder: Path
    draw: random.Random
    columns: dict[str, list[str]] = field(default_factory=dict)  # of the tables that exist
    dropped: dict[str, list[str]] = field(default_factory=dict)  # columns that these tables had
    history: list[str] = field(default_factory=list)
    numbers: int = 0
    has_rules: bool = False
    filter: str | None = None
    projection: str | None = None
    expected: str | None = None
    resets: tuple[str, ...] = ()  # targets that the next run empties and reads again

    def __post_init__(self) -> None:
        self.included = self.draw.sample(TABLES, self.draw.randint(1, len(TABLES)))
        self.rows = self.draw.choice((None, None, 3, 20))
        self.target = self.draw.choices(list(TARGETS), list(TARGETS.values()))[0]
        self.history.append(f"-- {' '.join(self.target)}")
        if self.has_rules:
            self.filter, self.projection = self.draw.choice(FILTERS), self.draw.choice(PROJECTIONS)
            self.expected = self.draw.choice(EXPECTED)
            self.history.append(f"-- filter {self.filter}, projection {self.projection}, expect {self.expected}")

    @abstractmethod
    def pipeline(self, flags: Sequence[str]) -> Pipeline:
        """Return the pipeline with these flags."""

    @abstractmethod
    def lose_connection(self, patch: pytest.MonkeyPatch) -> str:
        """Let the connection be lost at some point of the run, and return at which."""

    @abstractmethod
    def unequal(self) -> list[TableVerdict]:
        """Return the tables that differ from the server's."""

    # Statements in which servers differ

    @abstractmethod
    def create_statements(self, table: str, columns: str) -> Sequence[str]: ...

    @abstractmethod
    def upsert(self, table: str, columns: Sequence[str], values: Sequence[str]) -> str: ...

    @abstractmethod
    def widening(self, table: str, column: str) -> str: ...

    @abstractmethod
    def rewriting(self, table: str, column: str) -> str:
        """Return a statement that changes values of a column without changes of rows in the log."""

    def renaming(self, old: str, new: str) -> str:
        return f"ALTER TABLE {old} RENAME TO {new}"

    # The play

    def run(self) -> None:
        for _ in range(self.draw.randint(2, 6)):
            for _ in range(self.draw.randint(1, 5)):
                self.act()
            if self.draw.random() < 0.25:
                self.included = self.draw.sample(TABLES, self.draw.randint(1, len(TABLES)))
            if self.columns.keys() & set(self.included):
                if self.has_rules:
                    self.ask_again()
                self.run_with_trouble()
        if not self.columns:
            self.create("t0")
        for table in self.columns:  # a type is known to have changed once a row has it
            self.insert(table)
        self.included = list(TABLES)
        self.resets = ()
        for _ in range(2):  # tables are read again by the batch after the one that finds the need
            run_here(self.started())

    def check(self) -> None:
        """Compare all tables with the server's, and look for rows of tables that are gone."""
        assert self.unequal() == []
        pipeline = self.current()
        for name in pipeline.tables():
            check_invariants(pipeline.target(name))
        gone = set(pipeline.tables()) - set(self.columns)
        assert [table for table in sorted(gone) if _present(pipeline.target(table))] == []

    def act(self) -> None:
        action = self.draw.choices(list(self.actions), list(self.actions.values()))[0]
        free = [table for table in TABLES if table not in self.columns]
        if not self.columns or (action == "create" and free):
            self.create(self.draw.choice(free))
        elif action in {"create", "insert"}:
            self.insert(self.draw.choice(list(self.columns)))
        elif action == "rename":
            if free:
                self.rename(self.draw.choice(list(self.columns)), self.draw.choice(free))
        else:
            self.change(action, self.draw.choice(list(self.columns)))

    def change(self, action: str, table: str) -> None:
        columns = self.columns[table]
        column = self.draw.choice(columns) if columns else None
        match action:
            case "delete":
                self.say(f"DELETE FROM {table} WHERE id % {self.draw.choice((2, 3))} = 0")
            case "move_keys":
                self.say(f"UPDATE {table} SET id = id + 1000 WHERE id % 5 = 0")
            case "roll_back":
                self.roll_back(table)
            case "add_column":
                self.add_column(table)
            case "truncate":
                self.say(f"TRUNCATE TABLE {table}")
            case "drop":
                del self.columns[table], self.dropped[table]
                self.say(f"DROP TABLE {table}")
            case "update" if column:
                self.say(f"UPDATE {table} SET {column} = {self.draw.randint(0, 9)}")
            case "drop_column" if column:
                columns.remove(column)
                self.dropped[table].append(column)
                self.say(f"ALTER TABLE {table} DROP COLUMN {column}")
            case "rename_column" if column:
                columns[columns.index(column)] = new = f"c{self.number()}"
                self.say(f"ALTER TABLE {table} RENAME COLUMN {column} TO {new}")
            case "widen_column" if column:
                self.say(self.widening(table, column))
            case "rewrite_column" if column:
                self.say(self.rewriting(table, column))

    def roll_back(self, table: str) -> None:
        """Take back changes; MariaDB logs them too, because of the temporary table."""
        row = f"INSERT INTO {table} (id) VALUES (%d)"
        more = [row % (5000 + self.number()), "SAVEPOINT two"] if self.draw.random() < 0.5 else []
        end = self.draw.choice((["ROLLBACK"], ["ROLLBACK TO SAVEPOINT one", row % (7000 + self.number()), "COMMIT"]))
        taken_back = [f"UPDATE {table} SET id = -id", f"DELETE FROM {table} WHERE id % 2 = 0"]
        before = ["BEGIN", row % (6000 + self.number()), "SAVEPOINT one", *more, *self.draw.sample(taken_back, 1)]
        self.say(*before, f"CREATE TEMPORARY TABLE aside{self.number()} (id INT)", *end)

    def add_column(self, table: str) -> None:
        """Add a column, perhaps with the name of one that the table had."""
        again = self.dropped[table] and self.draw.random() < 0.7
        name = self.dropped[table].pop() if again else f"c{self.number()}"
        self.columns[table].append(name)
        self.say(f"ALTER TABLE {table} ADD COLUMN {name} INT{self.draw.choice(('', ' DEFAULT 5'))}")

    def create(self, table: str) -> None:
        self.columns[table] = [f"c{self.number()}" for _ in range(self.draw.randint(0, 2))]
        self.dropped[table] = []
        columns = ", ".join(["id INT PRIMARY KEY", *(f"{column} INT" for column in self.columns[table])])
        self.say(*self.create_statements(table, columns))
        self.insert(table)

    def rename(self, old: str, new: str) -> None:
        self.columns[new], self.dropped[new] = self.columns.pop(old), self.dropped.pop(old)
        self.say(self.renaming(old, new))

    def insert(self, table: str) -> None:
        columns = self.columns[table]
        for _ in range(self.draw.randint(1, 4)):
            number = self.number()
            key = str(number if self.draw.random() < 0.7 else self.draw.randint(1, number))
            values = self.draw.choices(("1", "2", "NULL", "777"), k=len(columns))
            self.say(self.upsert(table, columns, [key, *values]))

    def say(self, *statements: str) -> None:
        self.history += statements
        self.server.run(*statements)

    def run_with_trouble(self) -> None:
        """Run once, perhaps with a lost connection or a kill at some point."""
        trouble = self.draw.random()
        with pytest.MonkeyPatch.context() as patch:
            if trouble < 0.3:
                self.history.append(f"-- the connection is lost at {self.lose_connection(patch)}")
            elif trouble < 0.6:
                place, name = self.draw.choice(self.kills)
                kill = Countdown(self.draw.randint(1, 3), die, after=self.draw.random() < 0.5)
                self.history.append(f"-- killed {'after' if kill.after else 'before'} {name} {kill.left}")
                patch.setattr(place, name, kill.around(getattr(place, name)))
            try:
                run_here(self.started())
                self.resets = ()
            except (PenstockError, Killed) as error:
                self.history.append(f"--   {error!r}"[:150])

    def ask_again(self) -> None:
        """Perhaps ask for rows of a table that exists, and let the next run begin with an empty target."""
        if self.draw.random() < 0.4:
            table, where = self.draw.choice(sorted(self.columns)), self.draw.choice(PARTS)
            self.history.append(f"-- signal snapshot {table} {where}")
            folder = CheckpointFolder(self.current().spec.checkpoint)
            folder.signal(f"{SNAPSHOT_REQUEST}{self.number()}.json", (f"{self.schema}.{table}",), where)
        targets = set(self.current().tables()) & set(self.included) & self.columns.keys()
        if targets and self.draw.random() < 0.15:
            self.resets = (f"ods.{self.draw.choice(sorted(targets))}",)
            self.history.append(f"-- reset {self.resets[0]}")

    def started(self) -> PipelineSpec:
        """Return the pipeline as it is started now, with its rules."""
        spec = self.current().spec
        resets = spec.pipeline.model_copy(update={"reset": self.resets})
        rule = ExpectConfig.model_validate(
            {"source-table": f"{self.schema}.*", "condition": self.expected or "true", "action": "drop"}
        )
        return self.with_transform(spec, self.filter).model_copy(
            update={"pipeline": resets, "expect": (rule,) if self.expected else ()}
        )

    def compared(self, spec: PipelineSpec) -> PipelineSpec:
        """Return a pipeline whose tables should be these: what a quality rule drops is what a filter leaves out."""
        conditions = [f"({condition})" for condition in (self.filter, self.expected) if condition]
        return self.with_transform(spec, " and ".join(conditions) or None)

    def with_transform(self, spec: PipelineSpec, condition: str | None) -> PipelineSpec:
        given = {"source-table": f"{self.schema}.*", "filter": condition, "projection": self.projection}
        named = {name: value for name, value in given.items() if value is not None}
        rules = (TransformConfig.model_validate(named),) if len(named) > 1 else ()
        return spec.model_copy(update={"transform": rules})

    def current(self) -> Pipeline:
        """Return the pipeline as it is started now, without rules."""
        self.history.append(f"-- run {sorted(self.included)}")
        limit = ("--max-batch-rows", str(self.rows)) if self.rows else ()
        follows = ("--on-truncate", "delete-all", "--on-drop", "delete-all")
        return self.pipeline((*follows, *limit, *self.target, "--including-tables", "|".join(sorted(self.included))))

    def number(self) -> int:
        self.numbers += 1
        return self.numbers


def _present(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table that are neither marked as deleted nor of an earlier version."""
    rows = table.scan().to_arrow().to_pylist()
    return [row for row in rows if not row.get("_deleted") and row.get("is_current") is not False]


def different(verdicts: Iterable[TableVerdict]) -> list[TableVerdict]:
    return [verdict for verdict in verdicts if not verdict.is_equal]


def play_and_check(play: Play) -> None:
    """Play, and compare. A failure prints what was done."""
    with history_shown(play.history):
        play.run()
        play.check()
