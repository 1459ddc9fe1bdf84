"""Partitions that a statement names by values: NULL is no text, and a day may be a literal of its type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.sql.interpreter import Interpreter


@pytest.fixture
def interpreter(tmp_path: Path) -> Iterator[Interpreter]:
    with Interpreter(penstock.Catalog(tmp_path, {"local.sync": "false"})) as opened:
        list(
            opened.run("CREATE DATABASE d; USE d; CREATE TABLE t (id INT, p STRING, day DATE) PARTITIONED BY (p, day)")
        )
        list(
            opened.run(
                "INSERT INTO t VALUES (1, 'NULL', DATE '2026-01-31'), (2, NULL, DATE '2026-01-31'), (3, 'x', NULL)"
            )
        )
        yield opened


def ids(interpreter: Interpreter) -> list[int]:
    *_, rows = interpreter.run("SELECT id FROM t ORDER BY id")
    return rows["id"].to_pylist()  # type: ignore[no-any-return]  # Arrow has no types


@pytest.mark.parametrize("statement", ["ALTER TABLE t DROP PARTITION", "TRUNCATE TABLE t PARTITION"])
def test_null_names_the_partition_without_a_value(interpreter: Interpreter, statement: str) -> None:
    list(interpreter.run(f"{statement} (p = NULL)"))
    assert ids(interpreter) == [1, 3]
    list(interpreter.run(f"{statement} (p = 'NULL', day = DATE '2026-01-31')"))
    assert ids(interpreter) == [3]
    list(interpreter.run(f"{statement} (day = null)"))
    assert ids(interpreter) == []


def test_listed_partitions_are_the_named_ones(interpreter: Interpreter) -> None:
    for value, count in (("NULL", 1), ("'NULL'", 1), ("x", 1), ("'y'", 0)):
        *_, listed = interpreter.run(f"SHOW PARTITIONS t PARTITION (p = {value})")
        assert listed.num_rows == count
    with pytest.raises(ConfigError, match="the table has no partition p=x, day=2026-01-31"):
        list(interpreter.run("ALTER TABLE t DROP PARTITION (p = x, day = '2026-01-31')"))
    with pytest.raises(ConfigError, match="the column 'p' is set twice"):
        list(interpreter.run("ALTER TABLE t DROP PARTITION (p = x, p = NULL)"))


@pytest.mark.parametrize("statement", ["ALTER TABLE t DROP PARTITION", "TRUNCATE TABLE t PARTITION"])
def test_the_name_of_the_default_partition_is_refused_beside_rows_with_that_text(
    interpreter: Interpreter, statement: str
) -> None:
    """The rows without a value were deleted, although a text of that name may be meant."""
    name = "__DEFAULT_PARTITION__"
    list(interpreter.run(f"INSERT INTO t VALUES (4, '{name}', NULL)"))
    with pytest.raises(ConfigError, match="means null, and a partition has this text as its value"):
        list(interpreter.run(f"{statement} (p = '{name}')"))
    assert ids(interpreter) == [1, 2, 3, 4]
    list(interpreter.run(f"{statement} (p = NULL)"))
    assert ids(interpreter) == [1, 3, 4]
    list(interpreter.run(f"DELETE FROM t WHERE p = '{name}'; INSERT INTO t VALUES (5, NULL, NULL)"))
    list(interpreter.run(f"{statement} (p = '{name}')"))
    assert ids(interpreter) == [1, 3]
