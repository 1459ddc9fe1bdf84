"""Waits in tests: they fail by name, do not count a standstill, and have no limits that a busy machine exceeds."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import at_most, repeated, until

ROOT = Path(__file__).parents[2]
LEAST_S = 60  # a process may stand still for 20 seconds, and its peers after it
# Limits of waits for threads, processes and sockets, and what times since a beginning are compared with.
_LIMIT = re.compile(
    r"\b(?:join|wait|communicate|acquire|settimeout|flush|init_transactions|commit_transaction|abort_transaction)"
    r"\((?:timeout=)?([\d.]+)\)"
    r"|\btimeout=([\d.]+)\b|\blist_topics\([^()]*, ([\d.]+)\)"
)
_ELAPSED = re.compile(r"\b(?:monotonic|perf_counter|time)\(\) - \w+ <=? ?([\d.]*)")
# Waits whose end is no error: something must not happen meanwhile, or a bound that has room for a standstill.
MEANT = {
    "chaos/test_soak.py": "the time of the run",
    "integration/postgres/test_connection.py": "a second attempt waits for the first",
    "interop/shared_catalog.py": "Java waits while a lock is held",
    "unit/test_waiting.py": "examples",
}
# Files whose counts are of calls that the product makes for each batch, however long that takes.
CALLED_BACK = {"integration/mysql/test_modes.py", "integration/postgres/test_trouble.py"}


def short_limits(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        found = [limit for match in _LIMIT.finditer(line) for limit in match.groups() if limit]
        # The pause of a loop that an event ends, as in `while not over.wait(0.01)`, is no limit.
        if _ELAPSED.search(line) or any(float(limit) < LEAST_S and "while " not in line for limit in found):
            yield f"{number}: {line.strip()}"


def counted_by_the_clock(text: str) -> Iterator[str]:
    """Yield the assertions on how often something happened beside a test that has made a fixed number of turns."""
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef) and any(isinstance(node, ast.For) for node in ast.walk(function)):
            beside = {name for node in ast.walk(function) for name in _of_others(node)}
            for node in ast.walk(function):
                if isinstance(node, ast.Assert) and _is_more_than_one_of(node.test, beside):
                    yield f"{node.lineno}: {ast.unparse(node.test)}"


def _of_others(node: ast.AST) -> Iterator[str]:
    """Yield the names of what a context manager or a thread changes while a test does something else."""
    if isinstance(node, ast.With):
        yield from (ast.unparse(item.optional_vars) for item in node.items if item.optional_vars is not None)
    if isinstance(node, ast.Nonlocal):
        yield from node.names


def _is_more_than_one_of(test: ast.expr, names: set[str]) -> bool:
    match test:
        case ast.Compare(left=counted, ops=[ast.Gt() | ast.GtE()], comparators=[ast.Constant(value=int(least))]):
            found = {node.id for node in ast.walk(counted) if isinstance(node, ast.Name)}
            return least > 1 and bool(found & names)
    return False


def test_no_test_counts_what_happens_by_the_clock() -> None:
    counted = {
        f"{place}:{line}"
        for folder in ("chaos", "integration", "acceptance", "interop", "fuzz")
        for path in (ROOT / "tests" / folder).rglob("*.py")
        if (place := str(path.relative_to(ROOT / "tests"))) not in CALLED_BACK
        for line in counted_by_the_clock(path.read_text(encoding="utf-8"))
    }
    assert counted == set(), "repeat turns until enough has happened: tests.waiting.repeated"


def test_counts_by_the_clock_are_found() -> None:
    turns = "def f():\n with proxied() as proxy:\n  for _ in range(9):\n   run()\n"
    assert list(counted_by_the_clock(f"{turns}  assert proxy.cut > 5")) == ["5: proxy.cut > 5"]
    assert list(counted_by_the_clock(f"{turns}  assert len(proxy.cuts) >= 5")) == ["5: len(proxy.cuts) >= 5"]
    assert list(counted_by_the_clock(f"{turns}  assert proxy.cut > 0")) == []
    assert list(counted_by_the_clock(f"{turns}  assert len(rows()) > 5")) == []
    assert list(counted_by_the_clock(turns.replace("range(9)", "repeated(9, lambda: proxy.cut > 5, 'cuts')"))) == []


def test_no_test_has_a_limit_that_a_busy_machine_exceeds() -> None:
    short = {
        f"{place}:{line}"
        for path in (ROOT / "tests").rglob("*.py")
        if (place := str(path.relative_to(ROOT / "tests"))) not in MEANT
        for line in short_limits(path.read_text(encoding="utf-8"))
    }
    assert short == set(), "wait with tests.waiting, or for a minute and more"


@pytest.mark.parametrize(
    ("line", "is_short"),
    [
        ("thread.join(10)", True),
        ("process.communicate(timeout=5)", True),
        ("subprocess.run(words, check=True, timeout=30)", True),
        ("assert time.monotonic() - began < 3", True),
        ("producer.flush(30)", True),
        ("admin.list_topics(topic, 10)", True),
        ("wire.settimeout(5)", True),
        ("while not over.wait(0.01):", False),
        ("assert process.wait(240) == 0", False),
        ("assert time.monotonic() - began > 0.2", False),
    ],
)
def test_short_limits_are_found(line: str, is_short: bool) -> None:
    assert bool(list(short_limits(line))) == is_short


def test_a_wait_without_end_says_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.1 s for: the moon"):
        until(lambda: False, "the moon", 0.1)
    with pytest.raises(AssertionError, match=r"waited 0\.1 s for: the sun"):
        until(lambda: False, lambda: "the sun", 0.1)
    until(lambda: True, "nothing", 0.0)


def test_turns_are_repeated_until_enough_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(repeated(3, lambda: True, "nothing")) == [0, 1, 2]
    seen: list[int] = []
    for number in repeated(2, lambda: len(seen) > 4, "five turns"):
        seen.append(number)  # noqa: PERF402  - the turns are counted while they are made
    assert seen == [0, 1, 2, 3, 4]
    monkeypatch.setattr("tests.waiting.LIMIT_S", 0.1)
    with pytest.raises(AssertionError, match=r"waited 0\.1 s more for: the moon"):
        list(repeated(2, lambda: False, "the moon"))


def test_a_block_that_needs_too_long_fails() -> None:
    with pytest.raises(AssertionError, match=r"more than 0\.1 s"), at_most(0.1):
        time.sleep(0.5)
    with at_most(60):
        pass


@pytest.mark.slow
def test_the_time_in_which_the_process_is_stopped_does_not_count() -> None:
    wake = f"import os, signal, time; time.sleep(1); os.kill({os.getpid()}, signal.SIGCONT)"
    with subprocess.Popen(["python3", "-c", wake]), at_most(0.9):
        os.kill(os.getpid(), signal.SIGSTOP)
