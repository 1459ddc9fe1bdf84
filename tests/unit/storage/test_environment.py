"""The clock, the zone and the randomness of a table's code."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.storage.environment import Environment, seeded
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from tests.unit.table.tables import new_table, rows

ROOT = Path(__file__).parents[3]
PACKAGES = ("storage", "formats", "table", "schema_evolution", "ingest", "pipelines")
SUMMER = 1_780_000_000_123
ZONES = [("UTC", 0), ("Asia/Shanghai", 8), ("America/New_York", -4)]


@pytest.fixture(params=ZONES, ids=[zone for zone, _ in ZONES])
def hours(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Set the time zone of this process, and return its distance from UTC in summer."""
    zone, hours = request.param
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    yield hours
    monkeypatch.undo()
    time.tzset()


def test_local_time_follows_the_zone_of_the_machine(hours: int) -> None:
    assert Environment(now_millis=lambda: SUMMER).local_millis() == SUMMER + hours * 3_600_000


def test_files_have_the_local_time_of_their_environment(tmp_path: Path, hours: int) -> None:
    """The zone of the machine must not show in a table whose environment is seeded."""
    table, seen = new_table(tmp_path), []
    for turn, environment in enumerate((seeded(1, SUMMER, 0), Environment(now_millis=lambda: SUMMER))):
        table = Table(replace(table.store, ambient=environment))
        with table.writer() as writer:
            writer.write(rows(table, (turn, "", None)))
            writer.commit()
        files = live_entries(table.store, table.store.snapshots.get(turn + 1))
        seen.append([file.file.creation_millis for file in files])
    local = SUMMER + hours * 3_600_000
    assert seen == [[SUMMER], [SUMMER, local]]


def clocked_waits(text: str) -> Iterator[str]:
    """Yield the functions that wait and read the clock of the machine, which may be set meanwhile."""
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            called = {ast.unparse(call.func) for call in ast.walk(function) if isinstance(call, ast.Call)}
            sleeps = any(name.rpartition(".")[2] == "sleep" for name in called)
            if sleeps and any(name == "time.time" or name.endswith(".now_millis") for name in called):
                yield function.name


def test_no_wait_is_measured_by_a_clock_that_may_be_set() -> None:
    packages = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    found = {f"{path.relative_to(ROOT)}:{name}" for path in packages for name in clocked_waits(path.read_text("utf-8"))}
    assert found == set(), "durations are measured by elapsed_millis or time.monotonic"


def test_a_wait_by_the_clock_is_found() -> None:
    assert list(clocked_waits("def f():\n    end = time.time() + 5\n    time.sleep(1)\n")) == ["f"]
    assert list(clocked_waits("def f():\n    end = time.monotonic() + 5\n    time.sleep(1)\n")) == []
