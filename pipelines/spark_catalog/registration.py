"""Registers the format, and a catalog of tables by name, with a session. Spark is imported only by its user."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.references import masked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

log = logging.getLogger(__name__)

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(
    session: SparkSession,
    catalog: str | None = None,
    warehouse: str | PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Let `session` read and write tables with `format("penstock")`, with filter pushdown, and read source tables.

    The latter are streams of changes: `format("mysql-cdc")`, `"postgres-cdc"`, `"kafka-cdc"`, one for each connector.

    With `catalog` and `warehouse`, the tables of the warehouse also have names in SQL, such as `lake.db.t`. `options`
    are options of the catalog (`metastore`, ...) and of its store; secrets must be references such as `${NAME}`. Called
    twice it changes nothing.
    """
    from penstock.pipelines.spark.versions import check_version

    check_version()
    if catalog is None and (warehouse is not None or options):
        raise ConfigError("a warehouse needs the name of its catalog", hint='register(spark, catalog="lake", ...)')
    from penstock.pipelines.spark_catalog.source import CatalogDataSource, PaimonDataSource
    from penstock.pipelines.spark_cdc.source import register_sources

    _warn_of_another_python(session)
    _register_format(session, CatalogDataSource)
    # Refused, and not needed, in a session with Paimon's own jar.
    _register_format(session, PaimonDataSource)
    register_sources(session)
    # Definitions of Spark's declarative pipelines may not set anything, and call this with settings of the pipeline.
    if session.conf.get(PUSH_DOWN, None) != "true":
        session.conf.set(PUSH_DOWN, "true")
    if catalog is None:
        from penstock.pipelines.spark_catalog.session_names import refuse_empty_names_if_possible

        refuse_empty_names_if_possible(session)
        return
    if warehouse is None:
        raise ConfigError(f"the catalog {catalog!r} has no warehouse", hint="warehouse='/path or URL'")
    _register_catalog(session, catalog, {"warehouse": place_of(warehouse, options or {}), **(options or {})})


def _warn_of_another_python(session: SparkSession) -> None:
    """Log a warning if Spark on this machine runs tasks with a Python that may not have the packages of this one."""
    context = getattr(session, "_sc", None)  # a session of Spark Connect has none
    if context is None or not str(context.master).startswith("local"):
        return
    found = shutil.which(context.pythonExec)
    # Links are not followed: the Python of a virtual environment is a link to the one that it was made with.
    if found is None or Path(found).parent.absolute() != Path(sys.executable).parent.absolute():
        log.warning(
            "event=another_python driver=%s tasks=%s: Spark runs tasks with a Python that may lack Penstock; set "
            "PYSPARK_PYTHON=%s before the session starts",
            sys.executable,
            found or context.pythonExec,
            sys.executable,
        )


def _register_format(session: SparkSession, source: type[DataSource]) -> None:
    from pyspark.errors import AnalysisException

    try:
        session.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 refuses to register a source that it has found itself among the installed packages, though it is the
        # same one. Every version refuses a name that a jar has.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def place_of(warehouse: str | PathLike[str], options: Mapping[str, str]) -> str:
    """Return the warehouse as settings of a session name it."""
    from penstock.table.catalog.registry import DEFAULT, OPTION, catalog_kind

    if "://" in str(warehouse) or catalog_kind(options.get(OPTION, DEFAULT)).names_warehouse:
        return str(warehouse)
    # Spark's processes have other working folders.
    return os.path.abspath(warehouse)  # noqa: PTH100


def _register_catalog(session: SparkSession, catalog: str, options: Mapping[str, str]) -> None:
    from penstock.pipelines.spark.versions import Feature
    from penstock.pipelines.spark_catalog.catalog_jar import CLASS_NAME

    Feature.CATALOG.require()
    if not catalog.isidentifier() or catalog == "spark_catalog":
        raise ConfigError(f"{catalog!r} cannot be the name of a catalog", hint="letters, digits and _, such as lake")
    for name, value in options.items():
        if masked(name, value) == "***":
            raise ConfigError(
                "settings of a session are visible to all its users, and this one is a secret",
                option=name,
                hint=f"set an environment variable, and pass {name}='${{NAME}}'",
            )
    prefix = f"spark.sql.catalog.{catalog}"
    wanted = {prefix: CLASS_NAME, **{f"{prefix}.{name}": value for name, value in options.items()}}
    if all(session.conf.get(key, None) == value for key, value in wanted.items()):
        return
    # Spark loads the class of a catalog when its name is first used, so the jar must be there before the settings
    # are.
    _add_jar(session)
    for key, value in wanted.items():
        session.conf.set(key, value)


def _add_jar(session: SparkSession) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from penstock.pipelines.spark_catalog.catalog_jar import BY_PATH, catalog_jar, jar_without_session
    from penstock.pipelines.spark_catalog.session_names import classic_jvm, refuse_empty_names

    jvm = classic_jvm(session)
    path = jar_without_session() if jvm is None else catalog_jar(jvm, session.version)
    try:
        if jvm is None:
            session.addArtifact(str(path))
        else:
            session.sql(f"ADD JAR '{path}'")
        refuse_empty_names(session)
    except (PySparkException, Py4JError) as error:
        cause = str(getattr(error, "java_exception", None) or error)
        raise ConfigError(
            "the session refuses the jar of the catalog", jar=path, reason=cause.partition("\n")[0], hint=BY_PATH
        ) from error
