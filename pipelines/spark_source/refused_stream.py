"""A stream whose options or table are wrong: the error is raised when Spark asks for its offsets.

When the function that makes a reader raises an error, Spark's runner of streams calls `stop` of a reader that does not
exist, and shows the error of that call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from penstock.errors import PenstockError
from penstock.ingest.spark_admission import SupportsTriggerAvailableNow
from penstock.pipelines.spark_source.plain_errors import plain_errors


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader whose methods raise one error."""

    def __init__(self, error: PenstockError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        with plain_errors():
            raise self._error
        raise AssertionError  # plain_errors raises the error again

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._refuse()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        self._refuse()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self._refuse()

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802
        self._refuse()

    def read(self, _: Any) -> Iterator[Any]:
        self._refuse()


def refusing(open_reader: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """Return the reader that a function opens, or one that raises its error when Spark uses it."""
    try:
        return open_reader()
    except PenstockError as error:
        return RefusedStream(error)
