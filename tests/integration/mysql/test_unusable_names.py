"""A table or a column that anybody at the source may make, and that no table of the warehouse can be or have."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.job import build
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

UNUSABLE = [
    ("CREATE TABLE `tmp$x` (id INT PRIMARY KEY)", "INSERT INTO `tmp$x` VALUES (1)", "DROP TABLE `tmp$x`"),
    ("CREATE TABLE odd (id INT PRIMARY KEY, rowkind INT)", "INSERT INTO odd VALUES (1, 1)", "DROP TABLE odd"),
]


@pytest.fixture
def sync(server: Playground, tmp_path: Path) -> Sync:
    server.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    sync = Sync(server, tmp_path)
    sync.run()
    return sync


@pytest.mark.parametrize("statements", UNUSABLE, ids=["table", "column"])
def test_a_new_table_that_cannot_be_created_is_left_out_and_the_others_continue(
    sync: Sync, statements: tuple[str, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    create, insert, drop = statements
    sync.server.run(create, insert, "INSERT INTO a VALUES (2)")
    reports = []
    with caplog.at_level(logging.WARNING):
        sync.run(on_batch=lambda identity, report: reports.append(report))  # met at the start
    assert sync.ids("a") == [1, 2]
    assert "event=table_left_out" in caplog.text
    assert "--excluding-tables" in caplog.text
    assert any(report.stats.left_out for report in reports)
    assert [item.level for item in checked_spec(sync.spec) if "is excluded" in item.message] == ["warning"]
    sync.server.run(insert.replace("(1", "(2"), drop, "INSERT INTO a VALUES (3)")
    sync.run()
    assert sync.ids("a") == [1, 2, 3]
    reports.clear()
    sync.server.run(create, insert, drop, "INSERT INTO a VALUES (4)")
    sync.run(on_batch=lambda identity, report: reports.append(report))  # met in the log alone
    assert sync.ids("a") == [1, 2, 3, 4]
    assert any(report.stats.left_out for report in reports)
    assert sum(report.passed_over["rows.left.out"] for report in reports) == 1


def test_a_single_table_is_not_left_out(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE odd (id INT PRIMARY KEY, rowkind INT)")
    with pytest.raises(ConfigError, match="reserved"):
        Sync(server, tmp_path).run()


def test_a_table_that_can_be_created_later_is_copied_then(sync: Sync) -> None:
    sync.server.run("CREATE TABLE odd (id INT PRIMARY KEY, rowkind INT)", "INSERT INTO odd VALUES (1, 1)")
    sync.run()
    sync.run()
    sync.server.run("ALTER TABLE odd RENAME COLUMN rowkind TO kind", "INSERT INTO odd VALUES (2, 2)")
    sync.run()
    sync.run()
    assert [(row["id"], row["kind"]) for row in sync.rows("odd")] == [(1, 1), (2, 2)]


def test_a_table_with_a_new_unusable_column_is_parked_and_the_others_continue(sync: Sync) -> None:
    server = sync.server
    server.run("CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (1)")
    sync.run()
    server.run("ALTER TABLE b ADD _LEVEL INT", "INSERT INTO b VALUES (2, 2)", "INSERT INTO a VALUES (2)")
    sync.run()
    assert sync.ids("a") == [1, 2]
    job = build.job(sync.spec)
    assert list(job.parking().tables) == ["ods.b"]
    assert "--reset" in str(job.parking().error().hint)
    server.run("ALTER TABLE b DROP COLUMN _LEVEL", "INSERT INTO a VALUES (3)")
    sync.run()
    assert (sync.ids("a"), sync.ids("b")) == ([1, 2, 3], [1])
    Sync(server, sync.folder, flags=("--reset", "b")).run()
    assert sync.ids("b") == [1, 2]
