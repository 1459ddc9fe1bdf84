"""The Spark session of a pipeline: opens one, or uses that of the process."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.errors import ConfigError
from penstock.pipelines.spark.java import jvm_start
from penstock.pipelines.spark.masters import check_master, registering
from penstock.pipelines.spark.named_programs import check_spark_home, check_worker_python
from penstock.pipelines.spark.quick_start import use_lean_home
from penstock.pipelines.spark.session_settings import SETTINGS, is_local, prepare_environment, session_settings
from penstock.pipelines.spark.versions import check_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

# As on a cluster. A local master without this number in its URL does not try a task again.
TASK_ATTEMPTS = 4
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has started the JVM
_REMOTE = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"}


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

    from penstock.pipelines.spark.errors import opening

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
    with jvm_start(), opening(), registering(master):
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

    It starts processes for that, so it is worth doing while this process is busy otherwise. In a JVM that was started
    ahead, Spark finds no Python for it.
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
    for key, value in (SETTINGS | dict(settings)).items():
        if key in settings or not given.contains(key):
            builder = builder.config(key, value)
    return builder.getOrCreate()
