"""A standalone master that does not answer, or does not accept the driver, is reported before Spark tries for long."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JError

from penstock.errors import ConfigError
from penstock.pipelines.errors import MasterUnreachable
from penstock.pipelines.spark.masters import MasterWatch, check_master, registering
from penstock.pipelines.spark.session import open_session
from tests.servers.launch import free_port


def test_a_master_that_does_not_answer_is_named_before_a_jvm_starts() -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    with pytest.raises(MasterUnreachable, match="no Spark master answers") as caught:
        open_session("shop", master=master)
    assert caught.value.facts["master"] == master
    assert "Connection refused" in str(caught.value.facts["reason"])
    assert caught.value.exit_code == 11


def test_a_python_that_only_executors_have_is_accepted_where_nothing_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with  --archives env.tar.gz#env:  an action runs Python in tasks only; a pipeline plans its batches here."""
    monkeypatch.setenv("PYSPARK_PYTHON", "env/bin/python")
    with pytest.raises(ConfigError, match="PYSPARK_PYTHON"):
        open_session("shop", master=f"spark://127.0.0.1:{free_port()}")
    with pytest.raises(MasterUnreachable):  # the next check
        open_session("penstock compact", master=f"spark://127.0.0.1:{free_port()}", plans=False)


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("master", ["spark://master", "spark://master:seven", "spark://:7077", "spark://"])
def test_an_address_without_host_or_port_is_refused(master: str) -> None:
    with pytest.raises(ConfigError, match="no host or no port"):
        check_master(master)


@pytest.mark.parametrize("master", ["spark://127.0.0.1:99999", "spark://no-such-host.invalid:7077"])
def test_an_address_that_cannot_exist_is_reported(master: str) -> None:
    with pytest.raises(MasterUnreachable):
        check_master(master)


@pytest.mark.parametrize("master", ["yarn", "k8s://https://127.0.0.1:1", "local[2]"])
def test_other_kinds_of_masters_are_left_to_spark(master: str) -> None:
    check_master(master)


def test_a_driver_that_the_master_does_not_register_is_named() -> None:
    stopped = Py4JError("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.")
    with pytest.raises(MasterUnreachable, match="did not register this driver"), registering("spark://m:7077"):
        raise stopped
    for master, error in (("local[2]", stopped), ("spark://m:7077", Py4JError("anything else"))):
        with pytest.raises(Py4JError), registering(master):
            raise error


class Jvm:
    """A session's JVM with a number of executors, whose master knows the application, or not, or does not answer."""

    def __init__(self, master: str, executors: int, answer: bool | str | None, *, dynamic: str = "false") -> None:
        self.master, self.executors, self.answer, self.applicationId = master, executors, answer, "app-1"
        self._jsc = SimpleNamespace(sc=lambda: self)
        self._jvm = MagicMock()
        self.conf = {"spark.dynamicAllocation.enabled": dynamic}

    def getConf(self) -> dict[str, str]:
        return self.conf

    def getExecutorMemoryStatus(self) -> SimpleNamespace:
        return SimpleNamespace(size=lambda: self.executors + 1)

    def requestTotalExecutors(self, *_: object) -> bool:
        if self.answer is None or isinstance(self.answer, str):
            raise Py4JError(self.answer or "the connection is lost")
        return self.answer


class Watched:
    """A watch over a session, by a clock that only moves when somebody looks or waits."""

    def __init__(self, jvm: Jvm) -> None:
        self.now = 100.0
        self.watch = MasterWatch(jvm, lambda: self.now)  # type: ignore[arg-type]

    def look(self, seconds: int) -> None:
        for _ in range(2 * seconds):
            self.watch.look()
            self.now += 0.5


def watched(jvm: Jvm, seconds: int) -> None:
    Watched(jvm).look(seconds)


def test_a_master_that_has_forgotten_the_application_ends_a_run_without_executors() -> None:
    forgotten = Jvm("spark://m:7077", 0, answer=False)
    watched(forgotten, 50)
    with pytest.raises(MasterUnreachable, match="does not know this application any more") as caught:
        watched(forgotten, 80)
    assert caught.value.facts["application"] == "app-1"


def test_a_master_that_was_started_again_is_waited_for_three_minutes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = Jvm(f"spark://127.0.0.1:{server.getsockname()[1]}", 0, answer=None)
        watched(silent, 170)
        with pytest.raises(MasterUnreachable, match="does not know this application any more"):
            watched(silent, 200)


@pytest.mark.parametrize(
    "jvm",
    [
        Jvm("spark://m:7077", 1, answer=False),
        Jvm("spark://m:7077", 0, answer=True),
        Jvm("spark://127.0.0.1:1", 0, answer=None),
        Jvm("spark://m:7077", 0, answer=False, dynamic="true"),
        Jvm("spark://m:7077", 0, answer=False, dynamic=" TRUE"),
        Jvm("local[2]", 0, answer=False),
    ],
    ids=["has executors", "knows it", "is not there", "dynamic", "dynamic as Spark reads it", "local"],
)
def test_a_run_waits_for_executors_that_may_come(jvm: Jvm) -> None:
    watched(jvm, 300)


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The masters that accept connections."""
    found: set[str] = set()

    def check(master: str) -> None:
        if master not in found:
            raise MasterUnreachable("no Spark master answers at this address", master=master)

    monkeypatch.setattr("penstock.pipelines.spark.masters.check_master", check)
    return found


def test_a_master_that_comes_back_late_may_still_recover_the_application(reachable: set[str]) -> None:
    jvm = Jvm("spark://m:7077", 0, answer=None)
    watch = Watched(jvm)
    watch.look(600)
    reachable.add(jvm.master)
    watch.look(100)
    jvm.answer = True
    watch.look(600)
    jvm.answer = None
    watch.look(100)
    with pytest.raises(MasterUnreachable):
        watch.look(60)


def test_executors_that_were_missing_before_a_pause_do_not_count_after_it(reachable: set[str]) -> None:
    jvm = Jvm("spark://m:7077", 0, answer=None)
    reachable.add(jvm.master)
    watch = Watched(jvm)
    watch.look(20)
    watch.now += 3600
    watch.look(170)
    with pytest.raises(MasterUnreachable):
        watch.look(60)


def test_a_master_that_answers_late_ends_no_run(reachable: set[str]) -> None:
    late = "org.apache.spark.rpc.RpcTimeoutException: Futures timed out after [120 seconds]"
    jvm = Jvm("spark://m:7077", 0, answer=late)
    reachable.add(jvm.master)
    watched(jvm, 900)
