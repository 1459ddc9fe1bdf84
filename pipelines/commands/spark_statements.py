"""SQL statements on Spark, for `penstock sql --engine spark`: the warehouse is the current catalog of a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.spark_streams.script import SparkScript
    from penstock.table.catalog.settings import CatalogSettings

CATALOG = "lake"


@contextmanager
def spark_session(
    warehouse: str, options: Mapping[str, str], database: str | None, master: str | None, settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    """Yield a session in which the warehouse is the current catalog; end it if it was started here."""
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException

    from penstock.pipelines.spark.session import active_session, open_session
    from penstock.pipelines.spark_catalog.registration import register

    running = active_session()
    session = running or open_session("penstock sql", master=master, settings=settings)
    ignored: tuple[type[Exception], ...] = (Py4JError, OSError)  # the JVM may have ended already
    try:
        register(session, CATALOG, warehouse, options)
        try:
            session.sql(f"USE {CATALOG}" if database is None else f"USE {CATALOG}.`{database}`")
        except AnalysisException as reason:
            hint = f"a running session keeps the catalog {CATALOG} that it was registered with"
            raise ConfigError(f"Spark finds no database {database}", warehouse=warehouse, hint=hint) from reason
        yield session
    except KeyboardInterrupt:
        # The answer to the call that was interrupted is unread: py4j takes it for that of the next call, and then
        # raises errors such as KeyError. The JVM ends with this process.
        ignored = (Exception,)
        raise
    finally:
        if running is None:
            with suppress(*ignored):
                session.stop()


def script_of(
    session: SparkSession, settings: CatalogSettings, *, streaming: bool, until_caught_up: bool
) -> SparkScript:
    """Return what runs the statements of a script in a session of this module."""
    from penstock.pipelines.spark_streams.script import SparkScript
    from penstock.pipelines.spark_streams.stream_queries import StreamSession

    opened = StreamSession(session, settings, CATALOG)
    return SparkScript(opened, streaming=streaming, until_caught_up=until_caught_up)
