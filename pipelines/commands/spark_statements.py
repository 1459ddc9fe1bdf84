"""SQL statements on Spark, for `penstock sql --engine spark`: the warehouse is the current catalog of a session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import ConfigError, PenstockError
from penstock.table.sql.grammar.scripts import ScriptPart, first_word, script_parts
from penstock.table.sql.queries.context import done

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

CATALOG = "lake"
_PLACE = re.compile(r"line (\d+),? pos (\d+)")
# What Spark adds below its message.
_BELOW = re.compile(r"\n\n(?:JVM stacktrace|== SQL)|;\n'")
# The last line of a traceback of Python, in which an error of a table is.
_CAUSE = re.compile(r"^(?:\w+\.)+(\w+): (.+)$", re.MULTILINE)


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
    try:
        register(session, CATALOG, warehouse, options)
        try:
            session.sql(f"USE {CATALOG}" if database is None else f"USE {CATALOG}.`{database}`")
        except AnalysisException as reason:
            hint = f"a running session keeps the catalog {CATALOG} that it was registered with"
            raise ConfigError(f"Spark finds no database {database}", warehouse=warehouse, hint=hint) from reason
        yield session
    finally:
        if running is None:
            with suppress(Py4JError, OSError):  # the JVM may have ended already
                session.stop()


def run_statements(session: SparkSession, script: str) -> Iterator[pa.Table]:
    """Run the statements of a script, and yield the result of each one. Errors name line and column."""
    from pyspark.errors import PySparkException

    for part in script_parts(script):
        _refuse_streams(part)
        try:
            rows = session.sql(part.text)
            result = rows.toArrow() if rows.columns else done()
        except PySparkException as reason:
            raise statement_error(part, reason) from reason
        yield result


def _refuse_streams(part: ScriptPart) -> None:
    text = " ".join(part.text.lower().split())
    if first_word(part.text) == "set" and "execution.runtime-mode" in text and "streaming" in text:
        error = ConfigError(
            "streams run on the engine duckdb",
            hint="leave --engine out; or in a program of Spark: spark.readStream.table(...), writeStream.toTable(...)",
        )
        part.locate(error)
        raise error


def statement_error(part: ScriptPart, reason: PySparkException) -> PenstockError:
    """Return the error for a statement that Spark refused, with its place in the script."""
    text = _BELOW.split(str(reason), maxsplit=1)[0].strip()
    causes = _CAUSE.findall(str(reason))
    message = causes[-1][1] if causes else " ".join(text.split())
    error = ConfigError(f"Spark refused the statement: {message}")
    found = _PLACE.search(str(reason))
    if found is not None:
        line, position = int(found[1]), int(found[2])
        # Spark counts lines from 1 and positions from 0, both in the statement.
        error.facts |= {
            "line": part.place.line + line - 1,
            "column": position + (part.place.column if line == 1 else 1),
        }
    part.locate(error)
    return error
