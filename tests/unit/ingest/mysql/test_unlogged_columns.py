"""Columns that are added in the binlog: which of them have values in older rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.ingest.mysql import unlogged_columns
from penstock.ingest.mysql.ddl.history import DefinitionVersion, SchemaHistory
from penstock.ingest.mysql.ddl.query import Query
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.unlogged_columns import filled_columns, with_filled
from penstock.ingest.source import Barrier

T = ("shop", "t")
FILE = "binlog.000001"


def filled(*statements: str, with_values: tuple[str, ...] = (), **settings: Any) -> dict[tuple[str, str], list[str]]:
    """Return the filled columns of the last statement; the server says that `with_values` have values now."""
    history = SchemaHistory()
    for number, statement in enumerate(("CREATE TABLE t (id INT PRIMARY KEY, a INT)", *statements)):
        changes = history.apply(
            Query(statement, "shop", ansi_quotes=False, backslash_escapes=True), FILE, 100 * (number + 1)
        )
    (change,) = changes
    version = DefinitionVersion(T, FILE, 100 * (len(statements) + 1), change.definition)
    chosen: Any = SimpleNamespace(**{"fills_added_columns": True, "reads_tables": True, **settings})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unlogged_columns, "columns_with_values", lambda *_, **__: with_values)
        facts = SimpleNamespace(is_mariadb=False)
        return filled_columns(
            cast("Any", None), cast("Any", facts), chosen, history, [(version, change.filled_columns)]
        )


@pytest.mark.parametrize(
    ("definition", "is_filled"),
    [
        ("b INT", False),
        ("b INT NULL DEFAULT NULL", False),
        ("b INT DEFAULT NULL COMMENT 'default 7'", False),
        ("b INT DEFAULT 7", True),
        ("b INT DEFAULT (1 + 2) AFTER id", True),
        ("b INT NOT NULL", True),
        ("b INT AUTO_INCREMENT UNIQUE", True),
        ("b INT AS (a * 2) STORED", True),
        ("b INT GENERATED ALWAYS AS (a * 2)", True),
        ("b DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", True),
    ],
)
def test_a_statement_shows_which_columns_have_values(definition: str, is_filled: bool) -> None:
    assert filled(f"ALTER TABLE t ADD COLUMN {definition}") == ({T: ["b"]} if is_filled else {})


def test_the_server_knows_values_that_the_statement_does_not_show() -> None:
    assert filled("ALTER TABLE t ADD b TIMESTAMP", with_values=("id", "b")) == {T: ["b"]}
    assert filled("ALTER TABLE t MODIFY a BIGINT", with_values=("id", "a")) == {}


def test_a_column_with_the_name_of_a_dropped_one_lost_its_values() -> None:
    assert filled("ALTER TABLE t DROP a", "ALTER TABLE t ADD a INT") == {T: ["a"]}
    assert filled("ALTER TABLE t DROP a", "ALTER TABLE t ADD b INT") == {}


@pytest.mark.parametrize("settings", [{"fills_added_columns": False}, {"reads_tables": False}])
def test_columns_stay_null_with_settings_that_do_not_fill_them(settings: dict[str, bool]) -> None:
    assert filled("ALTER TABLE t ADD b INT DEFAULT 7", **settings) == {}


def test_the_batch_asks_for_the_table_to_be_read_again() -> None:
    progress = Progress("server", LogPosition(FILE, 4))
    assert with_filled(progress, {}, {}) == progress
    assert with_filled(progress, {T: ["b"]}, {}).batch.barriers == (Barrier("added-columns", *T, (("b", "b"),)),)


def test_a_column_that_is_renamed_or_dropped_in_the_same_batch_is_not_read_again() -> None:
    history, place = SchemaHistory(), 0
    versions = []
    for sql in (
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "ALTER TABLE t ADD COLUMN (a INT DEFAULT 1, b INT DEFAULT 2, c INT DEFAULT 3)",
        "ALTER TABLE t CHANGE COLUMN a d INT",
        "ALTER TABLE t DROP COLUMN b",
    ):
        place += 100
        (change,) = history.apply(Query(sql, "shop", ansi_quotes=False, backslash_escapes=True), FILE, place)
        versions.append((DefinitionVersion(T, FILE, place, change.definition), change.filled_columns))
    settings: Any = SimpleNamespace(fills_added_columns=True, reads_tables=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unlogged_columns, "columns_with_values", lambda *_, **__: ())
        facts: Any = SimpleNamespace(is_mariadb=False)
        assert filled_columns(cast("Any", None), facts, settings, history, versions) == {T: ["c"]}
