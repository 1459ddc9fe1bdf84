"""A standalone Spark master on another machine: whether it answers, and what a session that cannot be opened means.

Spark itself tries for a minute, and then ends with an error about a context that was stopped.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import ConfigError
from penstock.pipelines.errors import MasterUnreachable

_STANDALONE = "spark://"
_SECONDS = 10.0  # for a connection
_HINT = (
    "check that the master runs and that this machine reaches it: its web page shows the address  spark://HOST:PORT . "
    "Nothing was read or written"
)
# What Spark says in a driver that a master did not accept, one of them after the other.
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
        if not host or not port.isdigit():
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
        if not master.startswith(_STANDALONE) or not any(one in str(error) for one in _REFUSED):
            raise
        raise MasterUnreachable(
            "the Spark master did not register this driver",
            master=master,
            hint=(
                "the master must have the version of Spark that the driver has, and must be able to connect to the "
                "driver's machine (spark.driver.host): the log of the master says why. Nothing was read or written"
            ),
        ) from error
