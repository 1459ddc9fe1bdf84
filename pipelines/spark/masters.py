"""Checks of a standalone Spark master on another machine.

They find out whether the master answers, why a session cannot be opened, and whether it still knows an application.

Spark itself tries for a minute to open a session, and then ends with an error about a context that was stopped.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.pipelines.errors import MasterUnreachable

if TYPE_CHECKING:
    from pyspark import SparkContext

_STANDALONE = "spark://"
_SECONDS = 10.0  # for a connection
_HINT = (
    "check that the master runs and that this machine reaches it: its web page shows the address  spark://HOST:PORT . "
    "Nothing was read or written"
)
# The texts of Spark in a driver that a master did not accept, in the order in which they come.
_REFUSED = ("All masters are unresponsive", "Cannot call methods on a stopped SparkContext")


def check_master(master: str) -> None:
    """Raise MasterUnreachable if no address of a standalone master accepts a connection.

    Masters of other kinds are not checked: how they are reached is in files that only Spark reads.
    """
    if not master.startswith(_STANDALONE):
        return
    reasons: dict[str, str] = {}
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(
                "the address of the Spark master has no host or no port", master=master, hint="spark://HOST:7077"
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
        except (OSError, OverflowError) as reason:
            reasons[address] = str(reason)
        else:
            return
    raise MasterUnreachable(
        "no Spark master answers at this address",
        master=master,
        reason="; ".join(dict.fromkeys(reasons.values())),
        hint=_HINT,
    )


@contextmanager
def registering(master: str) -> Iterator[None]:
    """Raise MasterUnreachable if a session cannot be opened because the master did not register the driver."""
    # Imported here: check_master is called where PySpark may be missing.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        if not master.startswith(_STANDALONE) or not any(text in str(error) for text in _REFUSED):
            raise
        raise MasterUnreachable(
            "the Spark master did not register this driver",
            master=master,
            hint=(
                "the master must have the version of Spark that the driver has, and must be able to connect to the "
                "driver's machine (spark.driver.host): the log of the master says why. Nothing was read or written"
            ),
        ) from error


LOOK_SECONDS = 30.0
# Workers replace a lost executor within seconds, unless the machine is busy.
WITHOUT_EXECUTORS_SECONDS = 60.0
# A master with a recovery mode connects to its applications again. If there are several masters, this takes about a
# minute: so long ZooKeeper waits for the former one.
RECOVERY_SECONDS = 120.0
_ALL = (1 << 31) - 1  # how many executors Spark asks for, unless they are allocated dynamically
_LATE = "RpcTimeoutException"  # in the error of a request that was not answered in time


@dataclass(slots=True)
class MasterWatch:
    """Notices, while a batch runs, that a standalone master has forgotten the application.

    A master without a recovery mode that is started again tells the workers to end executors of applications that it
    does not know. The driver waits for new ones, and would wait for ever: nobody starts them.
    """

    context: SparkContext
    clock: Callable[[], float] = time.monotonic
    _looked: float = field(default=0.0, init=False)
    _alone_since: float | None = field(default=None, init=False)
    _unconnected_since: float | None = field(default=None, init=False)

    def look(self) -> None:
        """Raise MasterUnreachable if there were no executors for a minute, and a master that answers provides none."""
        pause = self.clock() - self._looked
        if pause < LOOK_SECONDS or not self.context.master.startswith(_STANDALONE):
            return
        has_executors = self._executors() > 0
        if has_executors or pause > 2 * LOOK_SECONDS:  # between two batches nobody looks
            self._alone_since = self._unconnected_since = None
        if not has_executors:
            self._check()
        self._looked = self.clock()  # later than before: a master may take long to answer

    def _check(self) -> None:
        now = self.clock()
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since >= WITHOUT_EXECUTORS_SECONDS and self._is_forgotten(now):
            raise MasterUnreachable(
                "the Spark master does not know this application any more, and all its executors are gone: the master "
                "was started again",
                master=self.context.master,
                application=self.context.applicationId,
                hint="run it again: it continues with the batch that was under way. A master with "
                "spark.deploy.recoveryMode  keeps its applications when it is started again",
            )

    def _executors(self) -> int:
        return int(self.context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # one is the driver

    def _is_forgotten(self, now: float) -> bool:
        from py4j.protocol import Py4JError

        if self.context.getConf().get("spark.dynamicAllocation.enabled", "false").strip().lower() == "true":
            return False  # the request would change how many executors Spark wants
        jvm = self.context._jvm
        assert jvm is not None
        nowhere = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})
        try:
            # What Spark asks for at its start; a master refuses it for an application that it does not know.
            is_known = self.context._jsc.sc().requestTotalExecutors(_ALL, 0, nowhere)
        except Py4JError as error:
            return self._is_left_alone(now, is_late=_LATE in str(error))
        self._unconnected_since = None
        return not is_known

    def _is_left_alone(self, now: float, *, is_late: bool) -> bool:
        """Return whether a master is reachable, but has not connected to this driver since its restart.

        The former connection is lost, and Spark waits for the master to make another one. A master that answers late
        (`is_late`) is only busy: its connection exists.
        """
        if is_late or not self._is_there():
            self._unconnected_since = None
            return False
        self._unconnected_since = now if self._unconnected_since is None else self._unconnected_since
        return now - self._unconnected_since >= RECOVERY_SECONDS

    def _is_there(self) -> bool:
        try:
            check_master(self.context.master)
        except MasterUnreachable:
            return False
        return True
