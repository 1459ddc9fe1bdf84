"""What every test may ask for: the Java oracle, and a loud word on what could not run."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.oracle.client import Oracle, what_is_missing

JVMS = 2


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Oracle]:
    """Java Paimon, started once for each test process; two processes of one run may have it."""
    if (reason := what_is_missing()) is not None:
        pytest.skip(reason)
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    with one_of(shared, "jvm", JVMS), Oracle.started(log=own / "oracle.log") as running:
        yield running


@contextmanager
def one_of(folder: Path, name: str, places: int) -> Iterator[None]:
    """Hold one of `places` places until the block ends; a process more waits for one."""
    for turn in range(2400):
        with (folder / f"{name}-{turn % places}").open("w") as place:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.1)
                continue
            yield
            return
    raise TimeoutError(f"{places} test processes hold a {name} already: run pytest with -n {places} at most")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.java)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly which tests did not run, and why."""
    why: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        why[reason] = why.get(reason, 0) + 1
    if why:
        terminalreporter.section("NOT RUN", sep="!", red=True)
        for reason, count in sorted(why.items()):
            terminalreporter.line(f"{count} tests: {reason.removeprefix('Skipped: ')}")
