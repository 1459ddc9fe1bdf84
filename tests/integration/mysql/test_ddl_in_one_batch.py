"""Random DDL and rows, all read in one batch: it settles, and in the end the tables are as the server has them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pymysql
import pytest

from penstock.ingest.mysql.definition import schema_of
from penstock.ingest.mysql.server.catalog import definitions
from penstock.ingest.mysql.server.connection import connected
from penstock.schema_evolution.drift import ColumnRules, drift_of
from tests.fuzz.mutations import seeds
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

COMMENTS = ["", "", " COMMENT 'one'", " COMMENT 'two'", " COMMENT ''"]
# Columns of one name always come from one family: within it any type follows any other.
FAMILIES = {
    "i": ["TINYINT", "SMALLINT", "INT", "BIGINT"],
    "s": ["VARCHAR(5)", "VARCHAR(20)", "VARCHAR(200)", "TEXT", "CHAR(3)"],
    "f": ["FLOAT", "DOUBLE"],
    "d": ["DECIMAL(6,2)", "DECIMAL(12,2)", "DECIMAL(20,4)"],
    "t": ["DATETIME", "DATETIME(3)", "DATETIME(6)"],
    "b": ["VARBINARY(9)", "VARBINARY(90)", "BLOB"],
}
VALUES = {"i": "{0}", "s": "'{0}'", "f": "{0}.5", "d": "{0}.25", "t": "'2024-02-29 10:20:{0:02}'", "b": "x'{0:04}'"}


@dataclass
class History:
    """Statements that follow each other as they would at a busy team: what the server refuses is left out."""

    server: Playground
    dice: random.Random
    next_id: int = 0
    done: list[str] = field(default_factory=list)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            for sql in (self.ddl(), self.rows()):
                try:
                    self.server.run(sql)
                except pymysql.MySQLError:
                    continue
                self.done.append(sql)

    def column(self, family: str | None = None) -> str:
        return f"{family or self.dice.choice('isfdtb')}{self.dice.randint(0, 2)}"

    def definition(self, name: str) -> str:
        # Times stay nullable: NOT NULL would fill rows with zero dates, which no table here can hold.
        null = "" if name[0] == "t" else self.dice.choice(["", "", "NULL", "NOT NULL", "DEFAULT NULL"])
        return f"{name} {self.dice.choice(FAMILIES[name[0]])} {null}{self.dice.choice(COMMENTS)}"

    def place(self) -> str:
        return self.dice.choice(["", "", "FIRST", f"AFTER {self.column()}"])

    def ddl(self) -> str:
        dice, name = self.dice, self.column()
        other, table = self.column(name[0]), dice.choice(["a", "a", "b"])
        match dice.randrange(12):
            case 0 | 1 | 2:
                return f"ALTER TABLE {table} ADD COLUMN {self.definition(name)} {self.place()}"
            case 3 | 4:
                return f"ALTER TABLE {table} MODIFY COLUMN {self.definition(name)} {self.place()}"
            case 5:
                return f"ALTER TABLE {table} CHANGE COLUMN {name} {self.definition(other)} {self.place()}"
            case 6:
                return f"ALTER TABLE {table} RENAME COLUMN {name} TO {other}"
            case 7:
                return f"ALTER TABLE {table} DROP COLUMN {name}"
            case 8:
                return f"ALTER TABLE {table} COMMENT '{dice.choice(['', 'first', 'second'])}'"
            case 9:
                return f"ALTER TABLE {table} ADD ({self.definition(name)}, {self.definition(other + '9')})"
            case 10:
                return dice.choice(
                    [
                        f"ALTER TABLE {table} ADD INDEX {name} (id)",
                        f"ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT 7",
                        f"CREATE INDEX x{dice.randrange(1000)} ON {table} (id)",
                        "RENAME TABLE b TO c, c TO b",
                        "CREATE TABLE IF NOT EXISTS c LIKE a",
                        f"CREATE TABLE IF NOT EXISTS d (id INT PRIMARY KEY, {self.definition(name)}) COMMENT 'made'",
                    ]
                )
        return f"ALTER TABLE {table} MODIFY COLUMN {self.definition(name)}, COMMENT '{dice.choice(['x', 'y'])}'"

    def rows(self) -> str:
        table = self.dice.choice(["a", "a", "b", "c", "d"])
        if self.dice.random() < 0.3:
            return f"UPDATE {table} SET touched = touched + 1"
        names = [str(row[0]) for row in self.server.rows(f"SHOW COLUMNS FROM {table}")] if self.has(table) else ["id"]
        self.next_id += 1
        values = [VALUES[name[0]].format(self.next_id % 60) for name in names if name not in {"id", "touched"}]
        columns = ["id", *(name for name in names if name not in {"id", "touched"})]
        return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join([str(self.next_id), *values])})"

    def has(self, table: str) -> bool:
        return bool(self.server.rows(f"SHOW TABLES LIKE '{table}'"))


@pytest.mark.slow
@pytest.mark.parametrize("snapshot", [True, False])
def test_a_batch_of_ddl_has_the_final_schema_of_the_server(
    server: Playground, tmp_path: Path, snapshot: bool, request: pytest.FixtureRequest
) -> None:
    for number, dice in enumerate(seeds(request, 2, 60)):
        server.start_over()
        # The binlog still has what earlier tests wrote, so the run starts here and not at the earliest offset.
        begin = server.here()
        server.run(
            "CREATE TABLE a (id INT PRIMARY KEY, touched INT NOT NULL DEFAULT 0, i0 INT COMMENT 'one') COMMENT 'first'",
            "CREATE TABLE b (id INT PRIMARY KEY, touched INT NOT NULL DEFAULT 0, s0 VARCHAR(20)) COMMENT 'first'",
        )
        sync = Sync(server, tmp_path / str(number), conf=["debezium.include.schema.comments=true"])
        if snapshot:
            sync.run()
        history = History(server, dice)
        if not snapshot:
            place = [f"specific-offset.file={begin.file}", f"specific-offset.pos={begin.pos}"]
            sync.conf = [*sync.conf, *(f"scan.startup.{item}" for item in ("mode=specific-offset", *place))]
        history.run(40)
        # Rows from before a column was added or renamed have its values with their next image.
        server.run(*(f"UPDATE {name} SET touched = touched + 1" for name in "abc" if history.has(name)))
        server.run(*(f"UPDATE {name} SET id = id + 1000" for name in "d" if history.has(name)))
        sync.run()
        check(server, sync, history)
        versions = {name: sync.target(name).store.schema().id for name in sync.tables()}
        sync.run()
        assert versions == {name: sync.target(name).store.schema().id for name in sync.tables()}, history.done


def check(server: Playground, sync: Sync, history: History) -> None:
    names = [(DATABASE, str(row[0])) for row in server.rows("SHOW TABLES")]
    with connected(server.address) as connection:
        theirs = definitions(connection, names)
    assert set(sync.tables()) >= {table for _, table in names}, history.done
    for (_, table), definition in theirs.items():
        schema, source = sync.target(table).store.schema(), schema_of(definition)
        assert drift_of(source, table, schema, ColumnRules()).is_none, (table, history.done)
        comments = {item.name: item.description or "" for item in schema.fields}
        assert {item.name: item.comment or "" for item in source.fields} == {
            item.name: comments[item.name] for item in source.fields
        }, (table, history.done)
        assert (schema.comment or "") == (definition.comment or ""), (table, history.done)
        columns = [item.name for item in source.fields]
        here = {row["id"]: row for row in sync.rows(table)}
        for row in server.rows(f"SELECT {', '.join(columns)} FROM {table} ORDER BY id"):
            wanted = dict(zip(columns, row, strict=True))
            mine = here[wanted["id"]]
            assert {n: alike(mine[n]) for n in columns} == {n: alike(wanted[n]) for n in columns}, (table, history.done)


def alike(value: object) -> object:
    """CHAR is padded by nobody, DECIMALs of several scales are one number, floats are what a FLOAT keeps."""
    return (
        round(float(value), 4)
        if value is not None and not isinstance(value, str | bytes | int) and hasattr(value, "__float__")
        else value
    )
