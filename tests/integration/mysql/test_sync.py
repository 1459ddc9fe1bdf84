"""Paimon's MySQL actions against real servers: snapshot, log, restart; names, keys and types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.tasks.batch_report import BatchReport
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

ROOT = Path(__file__).resolve().parents[3]


def fill(server: Playground, count: int) -> None:
    server.run(
        "CREATE TABLE orders (id INT PRIMARY KEY COMMENT 'the key', name VARCHAR(20) NOT NULL, paid TINYINT(1),"
        " price DECIMAL(10, 2), at TIMESTAMP(3) NULL, tags SET('a', 'b')) COMMENT 'what was bought'",
    )
    values = ", ".join(
        f"({n}, 'name {n}', {n % 2}, {n}.25, '2026-01-01 00:00:{n % 60:02}.123', 'a,b')" for n in range(count)
    )
    server.run(f"INSERT INTO orders VALUES {values}")


def test_a_table_is_copied_followed_and_continued_after_a_restart(server: Playground, tmp_path: Path) -> None:
    fill(server, 500)
    sync = Sync(server, tmp_path, "orders", ["table-name=orders", "scan.incremental.snapshot.chunk.size=100"])
    sync.run()
    assert sync.ids() == list(range(500))
    first = sync.rows()[3]
    assert (first["name"], first["paid"], str(first["price"]), first["tags"]) == ("name 3", True, "3.25", ["a", "b"])
    schema = sync.target().store.schema()
    types = {field.name: (field.type.nullable, field.description) for field in schema.fields}
    assert types["id"] == (False, "the key")
    assert types["name"] == (False, None)
    assert types["paid"] == (True, None)
    assert (schema.primary_keys, schema.comment) == (("id",), "what was bought")
    server.run(
        "UPDATE orders SET name = 'changed', paid = 1 WHERE id < 10",
        "DELETE FROM orders WHERE id BETWEEN 10 AND 19",
        "INSERT INTO orders (id, name) VALUES (1000, 'new')",
        "UPDATE orders SET id = 2000 WHERE id = 20",
    )
    sync.run()
    rows = {row["id"]: row for row in sync.rows()}
    assert set(rows) == {*range(10), *range(21, 500), 1000, 2000}
    assert (rows[3]["name"], rows[3]["paid"], rows[1000]["name"], rows[2000]["name"]) == (
        "changed",
        True,
        "new",
        "name 20",
    )
    before = sync.target().store.snapshots.latest_id()
    sync.run()
    assert sync.target().store.snapshots.latest_id() == before


def test_a_database_is_captured_with_tables_of_every_size_and_later_ones(server: Playground, tmp_path: Path) -> None:
    fill(server, 50)
    server.run(
        "CREATE TABLE empty_one (id INT PRIMARY KEY, v VARCHAR(5))",
        "CREATE TABLE keyless (id INT)",
        "CREATE TABLE pairs (a VARCHAR(10), b INT, v INT, PRIMARY KEY (a, b))",
        "INSERT INTO pairs VALUES ('x', 1, 1), ('y', 2, 2)",
    )
    sync, reports = Sync(server, tmp_path, flags=["--table-prefix", "my_"]), list[BatchReport]()
    sync.run(on_batch=lambda _, report: reports.append(report))
    assert sync.tables() == ["my_empty_one", "my_orders", "my_pairs"]
    reason = f"the source table has no primary key (source {DATABASE}.keyless)"
    assert reports[-1].stats.left_out == {"ods.my_keyless": reason}
    server.run("INSERT INTO keyless VALUES (1), (2)", "ALTER TABLE keyless ADD PRIMARY KEY (id)")
    sync.run(on_batch=lambda _, report: reports.append(report))
    assert sync.ids("my_keyless") == [1, 2]
    assert reports[-1].stats.left_out == {}
    assert sync.ids("my_orders") == list(range(50))
    assert sync.rows("my_empty_one") == []
    server.run(
        "CREATE TABLE later (id INT PRIMARY KEY, v VARCHAR(5))",
        "CREATE TABLE later_empty (id INT PRIMARY KEY, v VARCHAR(5))",
        "INSERT INTO later VALUES (1, 'a')",
        "INSERT INTO empty_one VALUES (7, 'b')",
    )
    sync.run()
    assert sync.tables() == ["my_empty_one", "my_keyless", "my_later", "my_later_empty", "my_orders", "my_pairs"]
    assert (sync.ids("my_later"), sync.ids("my_empty_one")) == ([1], [7])


def test_an_empty_selection_is_reported(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE keyless (id INT)")
    with pytest.raises(ConfigError, match="has a primary key"):
        Sync(server, tmp_path).run()
    with pytest.raises(ConfigError, match="no table of the server"):
        Sync(server, tmp_path, conf=[f"database-name={DATABASE}x"]).run()


@pytest.mark.mysql
@pytest.mark.spark
def test_the_command_writes_a_database_through_spark_and_resumes(mysql: Playground, tmp_path: Path) -> None:
    server = mysql
    server.start_over()
    fill(server, 300)
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=50"])
    for number in range(2):
        words = [sync.command.replace("-", "_"), *sync.words, "--parallelism", "2"]
        command = [sys.executable, "-m", "penstock.pipelines.commands.main", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr
        assert sync.ids("orders") == list(range(number, 300 + 10 * number))
        more = ", ".join(f"({n}, 'more')" for n in range(300, 310))
        server.run("DELETE FROM orders WHERE id = 0", f"REPLACE INTO orders (id, name) VALUES {more}")


def test_an_invalid_key_is_reported_with_its_table(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE good (id INT PRIMARY KEY)", "CREATE TABLE odd (tags SET('a', 'b') PRIMARY KEY)")
    with pytest.raises(ConfigError, match="cannot be in a primary key") as error:
        Sync(server, tmp_path).run()
    assert error.value.facts["source"] == "play.odd"
    sync = Sync(server, tmp_path, flags=["--excluding-tables", "odd"])
    sync.run()
    assert sync.tables() == ["good"]
