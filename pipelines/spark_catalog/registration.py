"""Registers the format, and a catalog of tables by name, with a session. Spark is imported only by its user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.references import masked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    are those of the catalog (`metastore`, ...) and of its store; secrets must be references such as `${NAME}`. Called
    twice it changes nothing.
    """
    from penstock.pipelines.spark_catalog.source import CatalogDataSource
    from penstock.pipelines.spark_cdc.source import register_sources

    session.dataSource.register(CatalogDataSource)
    register_sources(session)
    # Definitions of Spark's declarative pipelines may not set anything, and call this with settings of the pipeline.
    if session.conf.get(PUSH_DOWN, None) != "true":
        session.conf.set(PUSH_DOWN, "true")
    if catalog is None:
        if warehouse is not None or options:
            raise ConfigError("a warehouse needs the name of its catalog", hint='register(spark, catalog="lake", ...)')
        return
    if warehouse is None:
        raise ConfigError(f"the catalog {catalog!r} has no warehouse", hint="warehouse='/path or URL'")
    _register_catalog(session, catalog, {"warehouse": _place(warehouse, options or {}), **(options or {})})


def _place(warehouse: str | PathLike[str], options: Mapping[str, str]) -> str:
    from penstock.table.catalog.registry import DEFAULT, NAMED_WAREHOUSE, OPTION

    if "://" in str(warehouse) or options.get(OPTION, DEFAULT).strip().lower() in NAMED_WAREHOUSE:
        return str(warehouse)
    # Spark's processes have other working folders.
    return os.path.abspath(warehouse)  # noqa: PTH100


def _register_catalog(session: SparkSession, catalog: str, options: Mapping[str, str]) -> None:
    from penstock.pipelines.spark_catalog.catalog_jar import CLASS_NAME

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
    from pyspark.sql.utils import is_remote

    from penstock.pipelines.spark_catalog.catalog_jar import catalog_jar, jar_without_session

    jvm = None if is_remote() else getattr(session, "_jvm", None)
    if jvm is None:
        session.addArtifact(str(jar_without_session()))
    else:
        session.sql(f"ADD JAR '{catalog_jar(jvm, session.version)}'")
