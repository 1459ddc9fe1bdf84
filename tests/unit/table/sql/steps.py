"""Cases of SQL: statements one after the other on an empty warehouse, and the result that a user expects of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table.sql.interpreter import Interpreter
from tests.invariants import check_invariants

Rows: TypeAlias = list[tuple[object, ...]]


@dataclass(frozen=True)
class Refused:
    """The statement is refused with a message that contains this text, and changes nothing."""

    part: str


@dataclass(frozen=True)
class Shown:
    """The first value of the result contains this text."""

    part: str


class Stream(str):
    """A statement that runs as a stream, until it has read what is there."""

    __slots__ = ()


Expected: TypeAlias = Rows | Refused | Shown
Step: TypeAlias = str | tuple[str, Expected]


def check_case(folder: Path, steps: tuple[Step, ...]) -> None:
    """Run the steps of a case; a step without a result has to succeed."""
    catalog = penstock.Catalog(folder / "warehouse", {"local.sync": "false"})
    catalog.create_database("default")
    with Interpreter(catalog, "default") as interpreter:
        for step in steps:
            sql, expected = (step, None) if isinstance(step, str) else step
            _check_step(catalog, interpreter, sql, expected)
    for name in catalog.tables("default"):
        check_invariants(catalog.table(f"default.{name}"))


def _check_step(catalog: penstock.Catalog, interpreter: Interpreter, sql: str, expected: Expected | None) -> None:
    if isinstance(expected, Refused):
        with pytest.raises(PenstockError) as refused:
            _found(catalog, interpreter, sql)
        assert expected.part in str(refused.value), sql
        return
    found = _found(catalog, interpreter, sql)
    if isinstance(expected, Shown):
        assert expected.part in str(found[0][0]), found
    elif expected is not None:
        assert sorted(found, key=repr) == sorted(expected, key=repr), sql


def _found(catalog: penstock.Catalog, interpreter: Interpreter, sql: str) -> Rows:
    return _streamed(catalog, sql) if isinstance(sql, Stream) else _rows(interpreter, sql)


def _rows(interpreter: Interpreter, sql: str) -> Rows:
    *_, last = interpreter.run(sql)
    return [tuple(row.values()) for row in last.to_pylist()]


def _streamed(catalog: penstock.Catalog, sql: str) -> Rows:
    with Interpreter(catalog, "default", until_caught_up=True) as interpreter:
        _, *results = interpreter.run(f"SET 'execution.runtime-mode' = 'streaming'; {sql}")
        return [tuple(row.values()) for result in results for row in result.to_pylist()]
