"""Random statements, inclusions, lost connections and kills: at the end, all tables are equal to the server's.

PENSTOCK_CHAOS_ROUNDS=100 plays that many seeds on each server instead of a few.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.ingest.mysql.recorded_history import DefinitionStore
from penstock.ingest.mysql.server import connection as server_connection
from penstock.pipelines.driver.batch_driver import BatchDriver
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.job import local_run
from penstock.pipelines.job.local_run import LocalRun
from penstock.pipelines.ledger.batch_logs import BatchLogs
from penstock.pipelines.tasks.read import BatchReader
from tests.integration.mysql.failing_calls import Countdown, Killed, die, lose_connection
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.without_spark import run_without_spark

SEEDS = range(int(os.environ.get("PENSTOCK_CHAOS_ROUNDS", "3")))
TABLES = ("t0", "t1", "t2", "t3")
FLAGS = ("--on-truncate", "delete-all", "--on-drop", "delete-all", "--on-rename-column", "rename")
KILLS = (
    (DefinitionStore, "add"),
    (BatchLogs, "plan"),
    (BatchLogs, "finish"),
    (BatchDriver, "take"),
    (Commits, "commit"),
)
ACTIONS = {
    "create": 3,
    "insert": 7,
    "delete": 2,
    "update": 2,
    "add_column": 2,
    "drop_column": 1,
    "rename_column": 1,
    "widen_column": 1,
    "truncate": 1,
    "drop": 1,
    "rename": 1,
}


@dataclass
class Play:
    """Random statements on a server, and runs of a pipeline between them. `told` is the list of what was done."""

    server: Playground
    folder: Path
    draw: random.Random
    columns: dict[str, list[str]] = field(default_factory=dict)  # of the tables that exist
    told: list[str] = field(default_factory=list)
    excluded: set[str] = field(default_factory=set)  # tables that a run excluded: what is dropped then is not followed
    numbers: int = 0

    def __post_init__(self) -> None:
        self.included = self.draw.sample(TABLES, self.draw.randint(1, len(TABLES)))
        self.rows = self.draw.choice((None, None, 3, 20))

    def run(self) -> None:
        for _ in range(self.draw.randint(2, 6)):
            for _ in range(self.draw.randint(1, 5)):
                self.act()
            if self.draw.random() < 0.25:
                self.included = self.draw.sample(TABLES, self.draw.randint(1, len(TABLES)))
            if self.columns.keys() & set(self.included):
                self.run_with_trouble()
        if not self.columns:
            self.create("t0")
        self.included = list(TABLES)
        for _ in range(2):  # tables are read again by the batch after the one that finds the need
            run_here(self.sync)

    def act(self) -> None:
        action = self.draw.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        free = [table for table in TABLES if table not in self.columns]
        if not self.columns or (action == "create" and free):
            self.create(self.draw.choice(free))
        elif action in {"create", "insert"}:
            self.insert(self.draw.choice(list(self.columns)))
        elif action == "rename":
            if free:
                old, new = self.draw.choice(list(self.columns)), self.draw.choice(free)
                self.columns[new] = self.columns.pop(old)
                self.say(f"RENAME TABLE {old} TO {new}")
        else:
            self.change(action, self.draw.choice(list(self.columns)))

    def change(self, action: str, table: str) -> None:
        columns, new = self.columns[table], f"c{self._number()}"
        column = self.draw.choice(columns) if columns else None
        match action:
            case "delete":
                self.say(f"DELETE FROM {table} WHERE id % {self.draw.choice((2, 3))} = 0")
            case "add_column":
                columns.append(new)
                self.say(f"ALTER TABLE {table} ADD COLUMN {new} INT{self.draw.choice(('', ' DEFAULT 5'))}")
            case "truncate":
                self.say(f"TRUNCATE TABLE {table}")
            case "drop":
                del self.columns[table]
                self.say(f"DROP TABLE {table}")
            case "update" if column:
                self.say(f"UPDATE {table} SET {column} = {self.draw.randint(0, 9)}")
            case "drop_column" if column:
                columns.remove(column)
                self.say(f"ALTER TABLE {table} DROP COLUMN {column}")
            case "rename_column" if column:
                columns[columns.index(column)] = new
                self.say(f"ALTER TABLE {table} RENAME COLUMN {column} TO {new}")
            case "widen_column" if column:
                self.say(f"ALTER TABLE {table} MODIFY {column} BIGINT")

    def create(self, table: str) -> None:
        self.columns[table] = [f"c{self._number()}" for _ in range(self.draw.randint(0, 2))]
        columns = ", ".join(["id INT PRIMARY KEY", *(f"{column} INT" for column in self.columns[table])])
        self.say(f"CREATE TABLE {table} ({columns})")
        self.insert(table)

    def insert(self, table: str) -> None:
        columns = self.columns[table]
        for _ in range(self.draw.randint(1, 4)):
            number = self._number()
            values = [str(number if self.draw.random() < 0.7 else self.draw.randint(1, number))]
            values += self.draw.choices(("1", "2", "NULL", "77"), k=len(columns))
            self.say(f"REPLACE INTO {table} ({', '.join(['id', *columns])}) VALUES ({', '.join(values)})")

    def say(self, sql: str) -> None:
        self.told.append(sql)
        self.server.run(sql)

    def run_with_trouble(self) -> None:
        """Run once, perhaps with a lost connection or a kill at some point."""
        trouble, connection = self.draw.random(), server_connection.GuardedConnection
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server_connection, "_PAUSE_S", 0.0)
            if trouble < 0.3:
                lost = Countdown(self.draw.randint(1, 60), lose_connection)
                self.told.append(f"-- the connection is lost at statement {lost.left}")
                patch.setattr(connection, "query", lost.around(connection.query))
            elif trouble < 0.6:
                place, name = self.draw.choice(KILLS)
                kill = Countdown(self.draw.randint(1, 3), die, after=self.draw.random() < 0.5)
                self.told.append(f"-- killed {'after' if kill.after else 'before'} {name} {kill.left}")
                patch.setattr(place, name, kill.around(getattr(place, name)))
            try:
                run_here(self.sync)
            except (PenstockError, Killed) as error:
                self.told.append(f"--   {error!r}"[:150])

    @property
    def sync(self) -> Sync:
        self.told.append(f"-- run {sorted(self.included)}")
        self.excluded |= set(TABLES) - set(self.included)
        limit = ("--max-batch-rows", str(self.rows)) if self.rows else ()
        flags = (*FLAGS, *limit, "--checkpoint", f"{self.folder}/checkpoint")
        return Sync(self.server, self.folder, flags=(*flags, "--including-tables", "|".join(sorted(self.included))))

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers


def run_here(sync: Sync) -> None:
    """Run without Spark, also where a user's run would start it: tables that are read again, batches of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalRun, "_check_start", LocalRun._next_batch)
        patch.setattr(local_run, "TIMES_SMALL", 10**9)
        patch.setattr(BatchReader, "leaves_much", lambda *_: False)
        run_without_spark(sync.spec)


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_are_equal_to_the_server_after_random_statements(server: Playground, tmp_path: Path, seed: int) -> None:
    play = Play(server, tmp_path, random.Random(seed))
    try:
        play.run()
        sync = play.sync
        assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
        dropped = [table for table in sync.tables() if table not in {*play.columns, *play.excluded}]
        assert [table for table in dropped if sync.target(table).scan().to_arrow().num_rows] == []
    except BaseException:
        print("\n".join(play.told))
        raise
