"""Compaction and maintenance of a pipeline's tables beside the batches, in a background thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.errors import PenstockError
from penstock.pipelines.driver.compaction import Compact, due_buckets, land
from penstock.pipelines.mapping.target_tables import Warehouse
from penstock.table.maintenance.upkeep import Upkeep, keep_up

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
JOIN_SECONDS = 30.0


@dataclass(slots=True)
class Care:
    """The maintenance thread.

    `tables` returns the tables to maintain; `compact` runs compactions, or is None if the batches do all of them.

    A round never fails the pipeline: errors are logged, and the next round tries again.
    """

    warehouse: Warehouse
    tables: Callable[[], Iterable[str]]
    user: Callable[[], str]
    compact: Compact | None = None
    maintenance_seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, int] = field(default_factory=dict)  # the snapshot at which no compaction was due
    _kept: dict[str, tuple[float, Upkeep]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Care:
        self._thread = threading.Thread(target=self._live, name="penstock-care", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def _live(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            self.round()

    def round(self) -> None:
        try:
            self._compact()
            self.maintain()
        except (PenstockError, OSError, PySparkException, Py4JError) as error:
            if not self._over.is_set():  # otherwise the session is being shut down
                log.warning("event=care_failed reason=%s", str(error).partition("\n")[0])

    def maintain(self, *, now: bool = False) -> None:
        """Maintain the tables whose last maintenance is long enough ago, or with `now` all tables."""
        for table in list(self.tables()):
            at, last = self._kept.get(table, (None, None))
            if now or at is None or self.clock() - at >= self.maintenance_seconds:
                done = keep_up(self.warehouse.store(table), last)
                self._kept[table] = (self.clock(), done)
                if done.did_something:
                    log.info("event=maintained table=%s snapshots=%d", table, done.expired.snapshots)

    def _compact(self) -> None:
        if self.compact is None:
            return
        for table in list(self.tables()):
            latest = self.warehouse.store(table).snapshots.latest_id() or 0
            if self._over.is_set() or self._seen.get(table) == latest:
                continue
            due = due_buckets(self.warehouse, table)
            if due:
                land(self.warehouse, self.user(), self.compact(due))
            else:
                self._seen[table] = latest
