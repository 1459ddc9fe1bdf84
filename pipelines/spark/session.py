"""The Spark session of a pipeline.

Its settings are chosen by measurement for what Spark does here: planning, shuffling blobs and storing offsets.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import penstock
from penstock.errors import ConfigError
from penstock.pipelines.spark.java import java_home, jvm_start
from penstock.pipelines.spark.masters import check_master, registering
from penstock.pipelines.spark.named_programs import check_spark_home, check_worker_python
from penstock.pipelines.spark.quick_start import use_flags, use_lean_home
from penstock.pipelines.spark.versions import check_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

DAEMON = "penstock.pipelines.spark.worker_daemon"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
LOG_FLAG = f"-Dlog4j2.configurationFile=file:{LOG_SETTINGS}"
# As on a cluster. A local master without this number in its URL does not try a task again.
TASK_ATTEMPTS = 4
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has started the JVM
_REMOTE = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"}

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
_SETTINGS = {
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


class JvmAhead(Protocol):
    """A JVM that was started before the session is opened."""

    def gateway(self) -> JavaGateway | None:
        """Return PySpark's connection when the JVM is ready, or None if the JVM has ended."""
        ...


def active_session() -> SparkSession | None:
    """Return the session of this process, or None. Raise ConfigError for a Spark Connect session."""
    if "pyspark.sql" not in sys.modules and not _REMOTE & os.environ.keys():
        return None  # nobody made one, and importing PySpark takes long
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    if is_remote() or "SPARK_REMOTE" in os.environ:
        raise ConfigError(
            "the session is a Spark Connect session, and batches must be planned and committed in the driver",
            hint="unset SPARK_REMOTE, and start the pipeline with  penstock run --master URL  or  spark-submit",
        )
    return SparkSession.getActiveSession()


def open_session(
    name: str,
    *,
    master: str | None = None,
    cores: int | None = None,
    settings: Mapping[str, str] | None = None,
    stderr: int | None = None,
    first: JvmAhead | None = None,
    plans: bool = True,
) -> SparkSession:
    """Return the running session if there is one (spark-submit, a notebook), or else a new one.

    `master` defaults to this machine with `cores` tasks at a time (all cores), each tried four times. `settings`
    override the defaults. For a master on other machines the package is sent as a zip; its dependencies must be
    installed there. `stderr` is the file descriptor for the stderr of Spark's processes if they are started here.
    `first` is a JVM that was started ahead. `plans`: data sources in Python are used, which Spark plans in a process of
    the workers' Python on this machine. Without them the Python may be one that only executors have, from an archive.
    """
    check_version()  # first, because PySpark before 4.0 may fail to import
    from pyspark.sql import SparkSession

    running = active_session()
    if running is not None:
        return running
    if SUBMITTED in os.environ and master is None:
        return _submitted_session(name, settings or {})
    prepare_environment()
    master = master or f"local[{cores or os.cpu_count() or 1},{TASK_ATTEMPTS}]"
    _prepare_place(master, plans=plans)
    wanted = session_settings(master, settings or {})
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    with jvm_start(), registering(master):
        if stderr is not None or first is not None:
            _launch({"spark.app.name": name, "spark.master": master, **wanted}, stderr, first)
        session = builder.getOrCreate()
    _quiet(session)
    if not is_local(master):
        from penstock.pipelines.spark.code_zip import zip_code

        session.sparkContext.addPyFile(str(zip_code(Path(tempfile.mkdtemp(prefix="penstock-")))))
    return session


def _prepare_place(master: str, *, plans: bool) -> None:
    """Check the programs and the master that a session needs, before a JVM is started for it."""
    check_spark_home()
    if plans or is_local(master):
        check_worker_python()
    if is_local(master):
        use_lean_home()
    else:
        check_master(master)


def _launch(settings: Mapping[str, str], stderr: int | None, first: JvmAhead | None) -> None:
    """Connect to the JVM that was started ahead, or start one as Spark would, with another stderr.

    Does nothing if this process already has a JVM.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = None if first is None else first.gateway()
        SparkContext._ensure_initialized(gateway=gateway or launch_gateway(conf, {"stderr": stderr}))


def find_data_sources(session: SparkSession) -> None:
    """Let Spark look for data sources among the installed packages, which it does before it registers the first one.

    It starts a Python process for that, so it is worth doing while this process is busy otherwise.
    """
    session._jsparkSession.sessionState().dataSourceManager().dataSourceExists("penstock")


def _quiet(session: SparkSession) -> None:
    """Silence what PySpark prints about errors that are raised too.

    Its accumulator server prints a traceback when a JVM ends without notice; accumulators are not used here. A logger
    prints each error of a statement as one line of JSON with the stack of the JVM.
    """
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _submitted_session(name: str, settings: Mapping[str, str]) -> SparkSession:
    """Return the session of a spark-submit application: its master and settings win, the defaults only fill gaps."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # The settings of spark-submit are system properties of its JVM, which SparkConf can read only after the
    # connection.
    SparkContext._ensure_initialized()
    given = SparkConf()
    builder = SparkSession.builder.appName(name)
    for key, value in (_SETTINGS | dict(settings)).items():
        if key in settings or not given.contains(key):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def jvm_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what a JVM must know when it starts; the other settings of a session can follow."""
    flags = " ".join(filter(None, [JVM_FLAGS, use_flags(), LOG_FLAG]))
    memory = "spark.driver.memory"
    return {memory: _SETTINGS[memory], "spark.driver.extraJavaOptions": flags, **settings}


def session_settings(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    ours = _SETTINGS | jvm_settings({})
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
