"""The settings of a Spark session, its JVM and its processes.

They are chosen by measurement for what Spark does here: planning, shuffling blobs and storing offsets.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.errors import ConfigError
from penstock.pipelines.spark.java import java_home
from penstock.pipelines.spark.quick_start import use_flags

if TYPE_CHECKING:
    from collections.abc import Mapping


DAEMON = "penstock.pipelines.spark.worker_daemon"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
LOG_FLAG = f"-Dlog4j2.configurationFile=file:{LOG_SETTINGS}"
# A JVM that only moves blobs has no hot code: the second compiler and code generation cost more than they save.
# Blobs are garbage soon: a small young generation is collected before it occupies hundreds of MiB, and leaves more of
# the heap to large rows. Metaspace below 192 MiB needs no collections of the whole heap.
JVM_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms192m -Xmn64m -XX:MetaspaceSize=192m"
# On a single machine, shuffled data is read again within seconds, mostly from memory, and no executor is lost
# meanwhile.
SHUFFLE_GUARDS = (
    "spark.shuffle.compress",
    "spark.shuffle.checksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
)
# What Spark offers for queries costs more than it saves for small plans that only move blobs: the UI, adaptive
# plans, generated code and progress metrics are switched off. Arrow batches are limited by their bytes, for which
# Spark's default of 64 MiB stays: blobs of hundreds of MiB have ended JVMs of this size.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.python.worker.reuse": "true",
    "spark.scheduler.mode": "FAIR",  # compaction runs beside the batches, in a separate pool
    "spark.driver.memory": "1g",
}


def jvm_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what a JVM must know when it starts; the other settings of a session can follow."""
    flags = " ".join(filter(None, [JVM_FLAGS, use_flags(), LOG_FLAG]))
    memory = "spark.driver.memory"
    return {memory: SETTINGS[memory], "spark.driver.extraJavaOptions": flags, **settings}


def session_settings(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    ours = SETTINGS | jvm_settings({})
    if is_local(master):
        # No other machine has to reach this driver, and a host name that does not resolve must not stop it.
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        ours["spark.python.daemon.module"] = DAEMON
        ours |= dict.fromkeys(SHUFFLE_GUARDS, "false")
        ours["spark.sql.shuffle.partitions"] = str(local_cores(master))
    return ours | dict(settings)


def prepare_environment() -> None:
    """Set the environment that the JVM and its Python processes inherit.

    Changes os.environ; called twice it changes nothing.
    """
    os.environ["JAVA_HOME"] = str(java_home())
    # Otherwise Spark starts the python3 of PATH, which may lack this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # By default glibc creates up to eight malloc arenas per core, which retain freed memory: a tenth of a run's memory.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not has_address():
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # Spark resolves the host name before it reads any setting
    home = package_home()
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if home not in paths:
        # Spark's Python processes need the package, also where it is not installed but run from the source tree.
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, paths)])


def has_address() -> bool:
    """Return whether this machine's host name resolves to an address; in some containers and networks it does not."""
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return True


def package_home() -> str:
    """Return the folder to put on a path so that `import penstock` works: site-packages, or the source tree itself."""
    module = Path(penstock.__file__).resolve()
    return str(module.parent.parent if module.name == "__init__.py" else module.parent)


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def local_cores(master: str) -> int:
    # local, local[2], local[*] or local[2,4], whose second number is the attempts per task.
    inside = master.removeprefix("local").strip("[]").partition(",")[0].strip()
    if inside == "*":
        return os.cpu_count() or 1
    if inside and not inside.isdecimal():
        raise ConfigError("the local Spark master is not valid", master=master, hint="use for example local[2]")
    return int(inside or 1)
