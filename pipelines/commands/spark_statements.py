"""SQL statements on Spark, for `penstock sql --engine spark`: the warehouse is the current catalog of a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.spark_streams.script import SparkScript
    from penstock.table.catalog.settings import CatalogSettings

CATALOG = "lake"


@dataclass(frozen=True, slots=True)
class _Former:
    """The current database and the settings of a running session, which it gets back after a command."""

    catalog: str
    database: str
    settings: Mapping[str, str | None]

    @classmethod
    def of(cls, session: SparkSession, names: Iterable[str]) -> _Former:
        settings = {name: session.conf.get(name, None) for name in names}
        return cls(session.catalog.currentCatalog(), session.catalog.currentDatabase(), settings)

    def restore(self, session: SparkSession) -> None:
        session.sql(f"USE `{self.catalog}`.`{self.database}`")
        for name, value in self.settings.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


@contextmanager
def spark_session(
    warehouse: str,
    options: Mapping[str, str],
    database: str | None,
    master: str | None,
    settings: Mapping[str, str],
    meanwhile: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[SparkSession]:
    """Yield a session in which the warehouse is the current catalog; end it if it was started here.

    `settings` apply only to a session that is started here. `meanwhile` also apply to a running session, which gets
    its former values back.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException

    from penstock.pipelines.spark.session import active_session, open_session
    from penstock.pipelines.spark_catalog.registration import register

    running = active_session()
    if running is not None:
        _refuse_other_warehouse(running, warehouse, options)
    session = running or open_session("penstock sql", master=master, settings=settings)
    ignored: tuple[type[Exception], ...] = (Py4JError, OSError)  # the JVM may have ended already
    former = None if running is None else _Former.of(running, meanwhile)
    try:
        for name, value in meanwhile.items():
            session.conf.set(name, value)
        register(session, CATALOG, warehouse, options)
        try:
            session.sql(f"USE {CATALOG}" if database is None else f"USE {CATALOG}.`{database}`")
        except AnalysisException as reason:
            hint = f"a running session keeps the catalog {CATALOG} that it was registered with"
            raise ConfigError(f"Spark finds no database {database}", warehouse=warehouse, hint=hint) from reason
        yield session
    except KeyboardInterrupt:
        # The answer to the call that was interrupted is unread: py4j would use it as the answer to the next call, and
        # raise errors such as KeyError. The JVM ends with this process.
        ignored = (Exception,)
        raise
    finally:
        with suppress(*ignored):
            if former is None:
                session.stop()
            else:
                former.restore(session)


def _refuse_other_warehouse(session: SparkSession, warehouse: str, options: Mapping[str, str]) -> None:
    """Refuse a session whose catalog has the tables of another warehouse: Spark keeps the one that it has loaded."""
    from penstock.pipelines.spark_catalog.registration import place_of

    known = session.conf.get(f"spark.sql.catalog.{CATALOG}.warehouse", None)
    if known is not None and known.rstrip("/") != place_of(warehouse, options).rstrip("/"):
        raise ConfigError(
            f"the running session has a catalog {CATALOG} of another warehouse",
            warehouse=known,
            hint="stop the session first, or run the command in another process",
        )


def script_of(
    session: SparkSession, settings: CatalogSettings, *, streaming: bool, until_caught_up: bool
) -> SparkScript:
    """Return a script, whose statements run in a session of this module."""
    from penstock.pipelines.spark_streams.script import SparkScript
    from penstock.pipelines.spark_streams.stream_queries import StreamSession

    opened = StreamSession(session, settings, CATALOG)
    return SparkScript(opened, streaming=streaming, until_caught_up=until_caught_up)
