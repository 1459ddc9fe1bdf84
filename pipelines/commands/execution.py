"""The executor of a command: processes of this machine, or a Spark master."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Flags
from penstock.pipelines.commands.target import number, text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.table.operations.executor import Executor

ON_SPARK = (
    Flag("master", "Spark master to run on (default: this machine, without Spark)", metavar="URL"),
    Flag("spark-conf", "setting of the Spark session; may be repeated", "pairs", "K=V"),
)
EXECUTION = (
    Flag(
        "parallelism",
        "how much runs at a time: tasks of Spark (default: all slots), or processes of this machine (default: one per "
        "core, if there is enough to do)",
        metavar="N",
    ),
    *ON_SPARK,
)


def also(*names: str) -> tuple[Flag, ...]:
    """Return flags of Paimon's commands that mean the same as --parallelism: a unit is read and written by one task."""
    return tuple(Flag(name, "the same as --parallelism", metavar="N") for name in names)


@contextmanager
def executor_of(flags: Flags, name: str, *, waits: bool = False) -> Iterator[Executor]:
    """Yield the executor that the flags choose: Spark with --master, in spark-submit and beside a running session.

    Otherwise these are processes, or threads for a command that only `waits` for the store. Ends the session that it
    started.
    """
    parallelism = parallelism_of(flags)
    if not on_spark(flags):
        from penstock.table.operations.executor import STORE_REQUESTS, ProcessPool, Threads

        yield Threads(parallelism or STORE_REQUESTS) if waits else ProcessPool(parallelism)
        return
    from py4j.protocol import Py4JError

    from penstock.pipelines.spark.session import open_session
    from penstock.pipelines.spark.units import SparkUnits

    running, settings = _running_session(), pairs(flags.get("spark-conf", ()))
    session = running or open_session(f"penstock {name}", master=text(flags, "master"), settings=settings, plans=False)
    try:
        yield SparkUnits(session, parallelism)
    finally:
        if running is None:
            with suppress(Py4JError, OSError):  # the JVM may have ended already
                session.stop()


def on_spark(flags: Flags) -> bool:
    """Return whether the command runs on Spark: with --master, in spark-submit and beside a running session."""
    if _running_session() is not None or "master" in flags or "PYSPARK_GATEWAY_PORT" in os.environ:
        return True
    if "spark-conf" in flags:
        raise ConfigError("--spark-conf needs Spark", hint="add --master URL")
    return False


def parallelism_of(flags: Flags) -> int | None:
    """Return the number that --parallelism or one of Paimon's flags with the same meaning sets."""
    names = ("parallelism", "sink-parallelism", "scan-parallelism")
    numbers = {name: value for name in names if (value := number(flags, name)) is not None}
    for name, value in numbers.items():
        if value < 1:
            raise ConfigError(f"--{name} cannot be {value}", hint="1 or more")
    if len(set(numbers.values())) > 1:
        raise ConfigError(
            f"{' and '.join(f'--{name}' for name in numbers)} differ",
            hint="use --parallelism: one task both reads and writes a unit",
        )
    return next(iter(numbers.values()), None)


def _running_session() -> SparkSession | None:
    # Importing pyspark takes long, and who has a session has imported it.
    if "pyspark" not in sys.modules:
        return None
    from penstock.pipelines.spark.session import active_session

    return active_session()
