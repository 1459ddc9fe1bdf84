"""Refuses statements that would create or change an entry of Spark's own catalog, but no Paimon table.

Spark does not ask a data source in Python about such statements, so a class in Java checks their plans.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.pipelines.spark.versions import Feature, installed
from penstock.pipelines.spark_catalog.catalog_jar import catalog_jar, jar_without_session

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_FUNCTION = ("penstock_session_names", "penstock.spark.SessionNamesFunction")


def refuse_empty_names_if_possible(session: SparkSession) -> None:
    """Add the refusals to a session without a catalog; log why if its host or its version of Spark prevents it."""
    from pyspark.errors import PySparkException

    if installed() < Feature.CATALOG.since:
        return
    try:
        if classic_jvm(session) is None:
            session.addArtifact(str(jar_without_session()))
        refuse_empty_names(session)
    except (PySparkException, ConfigError, OSError) as reason:
        log.warning(
            "event=names_not_checked: CREATE TABLE ... USING penstock with columns, and ALTER TABLE, in Spark's own "
            "catalog change an entry there and no table: %s",
            str(reason).partition("\n")[0],
        )


def refuse_empty_names(session: SparkSession) -> None:
    """Add the refusals to a session. Over Spark Connect the session must have the jar."""
    jvm = classic_jvm(session)
    if jvm is None:
        session.udf.registerJavaUDAF(*_FUNCTION)
        return
    _add_to_all_threads(jvm, catalog_jar(jvm, session.version))
    jvm.penstock.spark.SessionRules.addTo(session._jsparkSession)


def classic_jvm(session: SparkSession) -> JVMView | None:
    """Return the JVM of a session, None for a session of Spark Connect."""
    from pyspark.sql.utils import is_remote

    return None if is_remote() else getattr(session, "_jvm", None)


def _add_to_all_threads(jvm: Any, jar: Path) -> None:
    """Let all threads of the driver load the classes of a jar; ADD JAR does so for the thread that runs it alone."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    while loader is not None:
        # The class loader with which Spark was started: the loaders of all threads are below it.
        if loader.getClass().getName() == "org.apache.spark.util.MutableURLClassLoader":
            loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        loader = loader.getParent()
