"""A session that is opened in a thread, while the process imports its modules and prepares the job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.spark.first_jvm import FirstJvm


@dataclass(slots=True)
class SessionStart:
    """Begins to open a session when it is made. `session` waits for it, and raises the error of opening it."""

    opening: Callable[[], SparkSession]
    _opened: SparkSession | None = None
    _error: BaseException | None = None
    _thread: threading.Thread = field(init=False)

    @classmethod
    def ahead(
        cls, first: FirstJvm, name: str, master: str | None, cores: int | None, settings: Mapping[str, str] | None
    ) -> SessionStart:
        """Begin to open a session in the JVM that was started ahead, with all that Spark does before its first query.

        The process must have no other use of PySpark.
        """
        # In this thread, before the other one: two threads that import modules of one package can block each other.
        # The JVM is not ready yet, so nothing waits for this.
        import numpy as np  # noqa: F401
        import pyarrow as pa  # noqa: F401
        import pyspark.sql  # noqa: F401
        from py4j.protocol import INPUT_CONVERTER
        from pyspark.sql.pandas import functions

        from penstock.pipelines.spark.session import find_data_sources, open_session

        # They convert NumPy values in arguments of the JVM, which are not used here, and import pandas to find out.
        INPUT_CONVERTER[:] = [
            converter for converter in INPUT_CONVERTER if not type(converter).__name__.startswith("Numpy")
        ]

        # `mapInArrow` asks for the version of pandas, which it does not use here: 0.3 s of CPU, and 39 MiB.
        vars(functions)["require_minimum_pandas_version"] = lambda: None

        def opening() -> SparkSession:
            session = open_session(name, master=master, cores=cores, settings=settings, first=first)
            find_data_sources(session)
            return session

        return cls(opening)

    def __post_init__(self) -> None:
        # A daemon: the process may end with an error of the job while Spark is starting.
        self._thread = threading.Thread(target=self._open, name="penstock-session", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Return whether the session could be opened. Waits for it."""
        self._thread.join()
        return self._opened is not None

    def session(self) -> SparkSession:
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._opened is not None
        return self._opened

    def _open(self) -> None:
        try:
            self._opened = self.opening()
        except BaseException as error:  # noqa: BLE001 -- raised again in the thread that needs the session
            self._error = error
