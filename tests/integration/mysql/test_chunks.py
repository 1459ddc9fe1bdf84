"""Tables cut into chunks: every row in exactly one, whatever the key; and chunks as of exact positions."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import threading
import time
from collections import Counter

import pymysql
import pytest

from penstock.ingest.mysql.binlog.log_plan import PlanLimits
from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.read_range import read_range
from penstock.ingest.mysql.server.catalog import list_tables
from penstock.ingest.mysql.server.connection import connected
from penstock.ingest.mysql.snapshot.chunk import Chunk, ChunkCursor, ChunkOptions
from penstock.ingest.mysql.snapshot.chunk_as_of import read_as_of
from penstock.ingest.mysql.snapshot.chunks import next_chunks, start_chunks
from penstock.ingest.mysql.snapshot.read import SnapshotOptions, read_chunk
from penstock.ingest.mysql.values.rules import ValueRules
from tests.integration.mysql.literals import TYPES, text
from tests.integration.mysql.playground import DATABASE, Playground

# A zero date that became null or the epoch would be the same key as another one.
RULES = ValueRules(zero_date="text", time="text")
LOG = BinlogOptions(rules=RULES)
KEYS = {
    "a INT": ["INT"],
    "a BIGINT UNSIGNED": ["BIGINT UNSIGNED"],
    "a DECIMAL(10,2)": ["DECIMAL(10,2)"],
    "a VARCHAR(20)": ["VARCHAR(20)"],
    "a VARCHAR(40) CHARACTER SET latin1": ["VARCHAR(40) CHARACTER SET latin1"],
    "a VARCHAR(40) CHARACTER SET gbk": ["VARCHAR(40) CHARACTER SET gbk"],
    "a VARBINARY(30)": ["BINARY(4)"],
    "a BINARY(4)": ["BINARY(4)"],
    "a DATETIME(3)": ["DATETIME(3)"],
    "a TIME(3)": ["TIME(3)"],
    "a DATE": ["DATE"],
    "a CHAR(2), b INT": ["a", "INT"],
    "a TINYINT, b VARCHAR(20), c DATE": ["TINYINT", "VARCHAR(20)", "DATE"],
    "a INT, b ENUM('x','y')": ["INT", "e"],
}
DRAWS = {**TYPES, "a": text("abAB", 2), "e": lambda dice: dice.choice(["'x'", "'y'"])}


def fill(server: Playground, key: str, rows: int, seed: int = 1) -> None:
    names = ", ".join(part.split()[0] for part in key.split(", ") if part[1:2] == " ")
    server.run(f"CREATE TABLE t ({key.replace(', ', ' NOT NULL, ')} NOT NULL, v INT, PRIMARY KEY ({names}))")
    dice = random.Random(f"{key} {seed}")
    for number in range(rows):
        values = ", ".join(DRAWS[kind](dice) for kind in KEYS[key])
        server.run(f"INSERT IGNORE INTO t VALUES ({values}, {number})")


def chunks_of(server: Playground, options: ChunkOptions, at_once: int = 3) -> tuple[ChunkCursor, list[Chunk]]:
    found = []
    with connected(server.address) as connection:
        table = next(table for table in list_tables(connection) if table.name == (DATABASE, "t"))
        cursor = first = start_chunks(connection, table, options)
        while not cursor.done:
            some, cursor = next_chunks(connection, cursor, at_once)
            assert 0 < len(some) <= at_once
            found += some
            cursor = ChunkCursor.from_json(json.loads(json.dumps(cursor.to_json())))
    assert [chunk.is_last for chunk in found] == [False] * (len(found) - 1) + [True]
    assert [chunk.number for chunk in found] == list(range(len(found)))
    return first, pickle.loads(pickle.dumps(found))


def rows_of(server: Playground, chunk: Chunk) -> list[tuple]:
    batches = read_chunk(server.address, chunk, SnapshotOptions(block_bytes=4000, rules=RULES))
    return [tuple(map(repr, row.values())) for batch in batches for row in batch.rows.to_pylist()]


@pytest.mark.parametrize("key", KEYS)
def test_every_row_is_in_exactly_one_chunk_and_no_chunk_is_large(server: Playground, key: str) -> None:
    fill(server, key, 130)
    cursor, chunks = chunks_of(server, ChunkOptions(rows=10))
    assert cursor.way != "whole"
    found = [rows_of(server, chunk) for chunk in chunks]
    whole = rows_of(server, Chunk(DATABASE, "t", 0))
    assert Counter(row for rows in found for row in rows) == Counter(whole)
    if cursor.way == "walk" and "ENUM" not in key:
        assert all(len(rows) <= 10 for rows in found)


def test_a_dense_integer_key_is_divided_evenly_and_a_sparse_one_by_queries(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)")
    server.run("INSERT INTO t VALUES " + ", ".join(f"({number})" for number in range(5, 1005)), "ANALYZE TABLE t")
    cursor, chunks = chunks_of(server, ChunkOptions(rows=100))
    assert cursor.way == "even"
    assert 5 <= len(chunks) <= 20
    server.run("INSERT INTO t VALUES (2000000000)", "ANALYZE TABLE t")
    cursor, _ = chunks_of(server, ChunkOptions(rows=100))
    assert cursor.way == "walk"


def test_crowded_keys_are_divided_by_queries(server: Playground) -> None:
    """The last of five hundred dense keys is far away, so that they would all lie in one chunk of an even cut."""
    server.run("CREATE TABLE t (id INT PRIMARY KEY)")
    server.run("INSERT INTO t VALUES " + ", ".join(f"({number})" for number in range(1, 501)))
    server.run("INSERT INTO t VALUES (100000)", "ANALYZE TABLE t")
    cursor, chunks = chunks_of(server, ChunkOptions(rows=10))
    assert cursor.way == "even"
    found = [rows_of(server, chunk) for chunk in chunks]
    assert sum(map(len, found)) == 501
    assert max(map(len, found)) == 10


def test_an_empty_table_is_one_empty_chunk(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)")
    _, chunks = chunks_of(server, ChunkOptions())
    assert len(chunks) == 1
    assert rows_of(server, chunks[0]) == []


def test_chunks_of_wide_rows_have_fewer_rows(server: Playground) -> None:
    server.run("CREATE TABLE t (id VARCHAR(10) PRIMARY KEY, v TEXT)")
    server.run(
        "INSERT INTO t VALUES " + ", ".join(f"('k{n}', REPEAT('x', 4000))" for n in range(100)), "ANALYZE TABLE t"
    )
    cursor, chunks = chunks_of(server, ChunkOptions(rows=50, bytes=40_000))
    assert cursor.step < 50
    assert len(chunks) > 5


def test_a_table_without_key_is_one_chunk(server: Playground) -> None:
    server.run("CREATE TABLE t (a INT, b INT, UNIQUE (a))", "INSERT INTO t VALUES (1, 1), (NULL, 2)")
    cursor, chunks = chunks_of(server, ChunkOptions())
    assert cursor.way == "whole"
    assert [chunk.condition for chunk in chunks] == ["TRUE"]


def test_a_unique_key_is_used_without_a_primary_key(server: Playground) -> None:
    server.run(
        "CREATE TABLE t (a INT, b INT NOT NULL, UNIQUE (a), UNIQUE (b))", "INSERT INTO t VALUES (1, 1), (NULL, 2)"
    )
    cursor, _ = chunks_of(server, ChunkOptions())
    assert cursor.key == ("b",)


def test_rows_inserted_behind_the_end_during_planning_are_included(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)")
    server.run("INSERT INTO t VALUES " + ", ".join(f"({number})" for number in range(100)), "ANALYZE TABLE t")
    with connected(server.address) as connection:
        table = next(table for table in list_tables(connection) if table.name == (DATABASE, "t"))
        cursor = start_chunks(connection, table, ChunkOptions(rows=20))
        some, cursor = next_chunks(connection, cursor, 2)
        server.run("INSERT INTO t VALUES " + ", ".join(f"({number})" for number in range(100, 200)))
        while not cursor.done:
            more, cursor = next_chunks(connection, cursor, 2)
            some += more
    assert sorted(int(row[0]) for chunk in some for row in rows_of(server, chunk)) == list(range(200))


def test_a_column_added_between_planning_and_reading_is_read(server: Playground) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    _, chunks = chunks_of(server, ChunkOptions())
    server.run("ALTER TABLE t ADD v INT DEFAULT 7 FIRST")
    assert rows_of(server, chunks[0]) == [("7", "1")]
    server.run("DROP TABLE t")
    assert rows_of(server, chunks[0]) == []


@pytest.mark.parametrize(
    "key", ["a INT", "a VARCHAR(20)", "a CHAR(2), b INT", "a VARCHAR(40) CHARACTER SET latin1", "a DATETIME(3)"]
)
def test_chunks_as_of_a_position_and_the_later_binlog_equal_the_table(server: Playground, key: str) -> None:
    """Rows change while chunks are read."""
    fill(server, key, 120)
    writer = Playground(server.flavour, server.port)
    writer.run(f"USE {DATABASE}", "SET sql_mode = ''")
    stop = threading.Event()

    def write() -> None:
        dice = random.Random(9)
        number = 1000
        while not stop.is_set():
            number += 1
            values = ", ".join(DRAWS[kind](dice) for kind in KEYS[key])
            statements = [
                "DELETE FROM t ORDER BY RAND() LIMIT 1",
                f"UPDATE IGNORE t SET a = {DRAWS[KEYS[key][0]](dice)} ORDER BY RAND() LIMIT 2",
                f"UPDATE t SET v = {number} ORDER BY RAND() LIMIT 5",
                f"INSERT IGNORE INTO t VALUES ({values}, {number})",
                f"INSERT IGNORE INTO t VALUES ({values}, {number})",
            ]
            with contextlib.suppress(pymysql.MySQLError):  # two keys that the collation calls equal, a deadlock
                writer.run(dice.choice(statements))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        at = server.here()
        _, chunks = chunks_of(server, ChunkOptions(rows=15))
        names = [part.split()[0] for part in key.split(", ")]
        state: dict[tuple, dict] = {}
        for chunk in chunks:
            for batch in read_as_of(server.address, chunk, at, SnapshotOptions(RULES), LOG, 6070):
                for row in batch.rows.to_pylist():
                    identity = tuple(row[name] for name in names)
                    assert identity not in state, "a key in two chunks"
                    state[identity] = row
            time.sleep(0.02)  # let the writer in between
    finally:
        stop.set()
        thread.join()
    apply_log(server, at, names, state)
    table = {
        tuple(row[name] for name in names): row for row in server.snapshot("t", SnapshotOptions(RULES)).to_pylist()
    }
    assert state == table


def apply_log(server: Playground, at: LogPosition, names: list[str], state: dict[tuple, dict]) -> None:
    (plan,) = server.plans(at, PlanLimits())
    for part in plan.ranges:
        for batch in read_range(server.address, part, LOG, 6071):
            for row, kind in zip(batch.rows.to_pylist(), batch.kinds, strict=True):
                identity = tuple(row[name] for name in names)
                if kind in {1, 3}:
                    state.pop(identity)
                else:
                    state[identity] = row
