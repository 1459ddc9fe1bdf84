"""Fixtures of all tests, such as the Java oracle, and a report of tests that could not run."""

from __future__ import annotations

import decimal
import fcntl
import gc
import importlib.util
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from penstock.storage.private_folder import private_folder
from tests import busy
from tests.interop.oracle.client import Oracle
from tests.interop.pypaimon.client import Pypaimon
from tests.order import FileScheduling, further_place, rank
from tests.servers.launch import IMAGES, image_variable

JVMS = 3  # as many as `make test` has workers
# The same examples for each change, so that a red run is the change's own doing; new ones every night.
settings.register_profile(
    "change",
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    # They compare instants, which a busy machine makes late.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("check", settings.get_profile("change"), max_examples=20)
settings.register_profile("night", max_examples=10_000, deadline=None, database=None, print_blob=True)
# What a mark needs on the PATH, and cannot fetch for itself.
TOOLS = {
    "java": ("java", "javac", "mvn"),
    "kafka": ("java", "mvn"),
    "pulsar": ("java", "mvn"),
    "hdfs": ("java", "mvn"),
    "hive": ("java",),
    "azure": ("node", "npm"),
    "s3gateway": ("go",),
    "postgres": ("apt-get",),
    "mysql": ("apt-get", "dpkg-deb"),
    "browser": ("chromium",),
    "docker": ("docker",),
}
# Most JVMs of tests live for seconds: the second compiler costs more than it saves, as in `JVM_FLAGS` of the product.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# JVMs that spark-submit, spark-sql and plain sessions start, and the masters and workers of standalone clusters.
JVM_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS")
# Tests that began and did not end yet, and when.
_running: dict[str, float] = {}
_began = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--check", action="store_true", help="20 examples, for an answer while one waits")
    parser.addoption(
        "--night", action="store_true", help="all failures and 10,000 examples, where each change has some"
    )
    parser.addoption(
        "--busy",
        type=int,
        metavar="SEED",
        help="let the run, its servers and JVMs stand still at random (tests/busy.py)",
    )
    parser.addoption(
        "--further-until",
        type=float,
        metavar="SECONDS",
        help="leave out further tests (tests/order.py) once the run has taken so long",
    )
    parser.addoption(
        "--failed-to", type=Path, metavar="FILE", help="write the names of the tests that failed, a line for each"
    )
    parser.addoption(
        "--docker",
        action="append",
        default=[],
        metavar="KIND=IMAGE",
        help="start servers of a kind from a Docker image: mysql=mysql:8.4, mariadb=mariadb:12, mongodb=mongo:8",
    )


def pytest_configure(config: pytest.Config) -> None:
    for given in config.getoption("--docker"):
        kind, _, image = given.partition("=")
        if kind not in IMAGES or not image:
            raise pytest.UsageError(f"--docker {given}: write KIND=IMAGE, where KIND is one of {', '.join(IMAGES)}")
        if importlib.util.find_spec("testcontainers") is None:
            raise pytest.UsageError(f"--docker {given} needs the package testcontainers: run `make env`")
        os.environ[image_variable(kind)] = image
    profile = next((name for name in ("night", "check") if config.getoption(f"--{name}")), "change")
    settings.load_profile(profile)
    for variable in JVM_VARIABLES:
        os.environ.setdefault(variable, SHORT_LIVED)
    # By default xdist starts the files with most tests first, and the longest have one test.
    config.option.loadscopereorder = False
    if hasattr(config, "workerinput"):
        _set_temporary_folder(config)
    else:
        # A run that is ended from outside still says what failed so far, and what it was at.
        signal.signal(signal.SIGTERM, _ended)


def _set_temporary_folder(config: pytest.Config) -> None:
    """Give this worker a temporary folder of its own, and delete it at the end.

    The caches on local disk are in it. In one that all runs of a machine share there are thousands of files of tables
    that no longer exist, and each write with a lookup lists them all.
    """
    folder = tempfile.mkdtemp(prefix="penstock-tests-")
    Path(folder).chmod(0o755)  # PostgreSQL runs as a user of its own, which enters it
    os.environ["TMPDIR"], tempfile.tempdir = folder, None
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def _ended(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


_PLAIN = logging.Formatter("%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """Let captured logs be plain text.

    After an error of Spark's SQL there are loggers of PySpark that do not propagate. pytest adds its handlers to them,
    and they let these handlers write JSON.
    """
    for handler in logging.root.handlers:
        if type(handler.formatter).__name__ == "JSONFormatter":
            handler.setFormatter(_PLAIN)


@pytest.fixture(autouse=True)
def own_log_settings() -> Iterator[None]:
    """Undo what a test has set for our logs by a command.

    Otherwise later tests of the process would capture lines that they do not capture when they run alone.
    """
    own = logging.getLogger("penstock")
    level, handlers = own.level, own.handlers[:]
    yield
    own.setLevel(level)
    own.handlers[:] = handlers


@pytest.fixture(autouse=True)
def settings_of_the_process() -> Iterator[None]:
    """Fail a test that leaves other settings of the process than it found: later tests would run under them."""
    before = _settings_of_the_process()
    yield
    after = _settings_of_the_process()
    left = {name: (before[name], value) for name, value in after.items() if value != before[name]}
    assert not left, f"the test has left other settings of the process than it found: {left}"


def _settings_of_the_process() -> dict[str, object]:
    return {
        "current folder": Path("/proc/self/cwd").readlink(),
        "time zone": time.tzname,
        "limit of sockets": socket.getdefaulttimeout(),
        "turns of threads": sys.getswitchinterval(),
        "garbage collection": gc.isenabled(),
        "disabled logs": logging.root.manager.disable,
        "decimal digits": decimal.getcontext().prec,
    }


@pytest.fixture(scope="module", autouse=True)
def local_caches(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete a worker's local caches after each file; they are made again where a table misses them."""
    yield
    if hasattr(request.config, "workerinput"):
        for name in ("lookup", "keys"):
            shutil.rmtree(private_folder(name), ignore_errors=True)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def night(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--night"))


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Oracle]:
    """Java Paimon, started once for each test process; as many processes of one run as `JVMS` may have it."""
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    with one_of(shared, "jvm", JVMS), Oracle.started(log=own / "oracle.log") as running:
        yield running


@pytest.fixture(scope="session")
def pypaimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pypaimon]:
    """pypaimon in its own environment and process."""
    with Pypaimon.started(tmp_path_factory.mktemp("pypaimon")) as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def busy_machine(request: pytest.FixtureRequest) -> Iterator[None]:
    seed = request.config.getoption("--busy")
    with nullcontext() if seed is None else busy.machine(seed):
        yield


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
    marks = {"oracle": pytest.mark.java, "pypaimon": pytest.mark.pypaimon}
    for item in items:
        for fixture in marks.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(marks[fixture])
    for item in items if items and items[0].config.getoption("--busy") is not None else ():
        item.add_marker(pytest.mark.timeout(3600), append=False)  # the time in which it stands still is not its own
    # Stable, so that the tests of a file keep their order, and equal in all workers.
    items.sort(key=lambda item: rank(item.nodeid))


def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.getoption("--further-until")
    if until is not None and time.monotonic() - _began > until and further_place(item.nodeid) is not None:
        pytest.skip(f"TOO LATE: the run took longer than {until:.0f} s, so it leaves out the last of the further tests")
    for mark in item.iter_markers():
        absent = [tool for tool in TOOLS.get(mark.name, ()) if shutil.which(tool) is None]
        if absent:
            pytest.skip(f"CANNOT RUN HERE: tests marked {mark.name} need {', '.join(absent)} on the PATH")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without garbage collections: thousands of tests and modules are kept until the end anyway.

    Later collections do not visit them: one over all of them takes a second.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_runtest_logstart(nodeid: str) -> None:
    _running[nodeid] = time.monotonic()


def pytest_runtest_logfinish(nodeid: str) -> None:
    _running.pop(nodeid, None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly which tests did not end or did not run, and why."""
    _write_failed(terminalreporter)
    if _running:
        terminalreporter.section("NOT ENDED", sep="!", red=True)
        for test, began in _running.items():
            terminalreporter.line(f"{test} ran for {time.monotonic() - began:.0f} s")
    why: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        why[reason] = why.get(reason, 0) + 1
    if why:
        terminalreporter.section("NOT RUN", sep="!", red=True)
        for reason, count in sorted(why.items()):
            terminalreporter.line(f"{count} tests: {reason.removeprefix('Skipped: ')}")


def _write_failed(terminalreporter: pytest.TerminalReporter) -> None:
    file = terminalreporter.config.getoption("--failed-to")
    if file is not None:
        reports = (report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, []))
        file.write_text("".join(f"{test}\n" for test in sorted({report.nodeid for report in reports})))
