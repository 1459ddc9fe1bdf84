"""The Spark session of a run: an existing one, one that a thread is opening, or one that is opened on demand."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.pipelines.api.early_stop import Asked, never_asked
from penstock.pipelines.errors import SparkEnded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.config.model import PipelineSpec
    from penstock.pipelines.spark.session_start import SessionStart

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunSession:
    """`given` is a session of others, which stays open. `output` returns the stderr of a JVM that is started here.

    If `asked` returns that the run is to stop, an error while the session is opened becomes SparkEnded: a signal to the
    process group also ends the JVM, and any error may come first.
    """

    spec: PipelineSpec
    master: str | None = None
    settings: Mapping[str, str] | None = None
    output: Callable[[], AbstractContextManager[int | None]] = nullcontext
    given: SparkSession | None = None
    asked: Asked = never_asked
    _opened: SparkSession | None = field(default=None, init=False)

    @property
    def is_used(self) -> bool:
        return self.given is not None or self._opened is not None

    def wait_for(self, start: SessionStart) -> None:
        """Wait for a session that is being opened already. The code that began to open it also ends it."""
        before = self._logged_start()
        with self._stopped_at_start():
            self.given = start.session()
        log.info("event=spark_started seconds=%.1f", time.monotonic() - before)

    def session(self) -> SparkSession:
        """Return the session. Opens one at the first call, unless one exists."""
        if self.given is None and self._opened is None:
            self._opened = self._open()
        found = self.given or self._opened
        assert found is not None
        return found

    def _open(self) -> SparkSession:
        from penstock.pipelines.spark.session import open_session

        before = self._logged_start()
        cores = self.spec.pipeline.parallelism
        with self._stopped_at_start(), self.output() as stderr:
            opened = open_session(
                self.spec.pipeline.name, master=self.master, cores=cores, settings=self.settings, stderr=stderr
            )
        log.info("event=spark_started seconds=%.1f", time.monotonic() - before)
        return opened

    @contextmanager
    def _stopped_at_start(self) -> Iterator[None]:
        try:
            yield
        # Any class: with a JVM that is ending, even the lookup of a class in it fails. It is always raised.
        except Exception as error:
            if not self.asked():
                raise
            raise SparkEnded(
                "Spark ended while it was starting",
                reason=str(error)[:300],
                hint="start the run again: it was asked to stop while Spark started",
            ) from error

    def _logged_start(self) -> float:
        # Spark's start takes seconds in which nothing else is shown.
        log.info("event=starting_spark pipeline=%s master=%s", self.spec.pipeline.name, self.master or "local")
        return time.monotonic()

    def end(self) -> None:
        """End the session that was opened here."""
        if self._opened is None:
            return
        from py4j.protocol import Py4JError

        with suppress(Py4JError, OSError):  # the JVM may have ended already
            self._opened.stop()

    def offer_faster_start(self) -> None:
        """Log the command that makes the next start faster, if Spark was started here without its effect."""
        if self._opened is not None:
            offer_faster_start()


def offer_faster_start() -> None:
    from penstock.pipelines.spark.quick_start import use_flags

    if "JAVA_HOME" in os.environ and not use_flags():
        log.info("event=start_can_be_faster hint=penstock warm  makes Spark start in half the time on this machine")
