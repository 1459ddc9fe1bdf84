"""Compaction and maintenance of a pipeline's tables beside the batches, in a background thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.pipelines.driver.compaction import Compact, commit_compactions, due_buckets
from penstock.pipelines.driver.table_upkeep import maintained
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.maintenance.upkeep import Upkeep

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
JOIN_SECONDS = 30.0
# How long a table whose compaction or maintenance failed is left alone.
RETRY_SECONDS = 30.0


@dataclass(slots=True)
class Maintenance:
    """The maintenance thread.

    `tables` returns the tables to maintain; `compact` runs compactions, or is None if the batches do all of them.

    A round never fails the pipeline: errors are logged, and the next round tries again.
    """

    warehouse: CatalogSettings
    tables: Callable[[], Iterable[str]]
    user: Callable[[], str]
    compact: Compact | None = None
    maintenance_seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    failures: tuple[type[Exception], ...] = (PenstockError, OSError)  # logged, and tried again by a later round
    _seen: dict[str, int] = field(default_factory=dict)  # the snapshot at which no compaction was due
    _kept: dict[str, tuple[float, Upkeep]] = field(default_factory=dict)
    _again_at: dict[tuple[str, str], float] = field(default_factory=dict)  # when a failed step is tried again
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Maintenance:
        # A daemon thread: a request to a store that never answers must not keep the process alive after
        # `JOIN_SECONDS`.
        self._thread = threading.Thread(target=self._live, name="penstock-maintenance", daemon=True)
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
        # All compactions before all maintenance: rows may wait for a compaction, nothing waits for an expiry.
        tables = list(self.tables())
        if self.compact is not None:
            for table in tables:
                self._tried(table, "compaction", self._compact_table)
        for table in tables:
            self._tried(table, "maintenance", self._maintain_when_due)

    def _tried(self, table: str, step: str, work: Callable[[str], None]) -> None:
        """Do the step. A failure is logged, and does not keep the other tables from being compacted and maintained."""
        # Checked before each table, so that leaving the context waits for one table only.
        if self._over.is_set() or self.clock() < self._again_at.get((table, step), float("-inf")):
            return
        try:
            work(table)
        except self.failures as error:
            # Per step, so that a compaction that fails again and again does not keep the table from being
            # maintained.
            self._again_at[table, step] = self.clock() + RETRY_SECONDS
            if not self._over.is_set():  # otherwise the session is being shut down
                reason = str(error).partition("\n")[0]
                log.warning("event=care_failed table=%s step=%s reason=%s", table, step, reason)

    def maintain(self, *, now: bool = False) -> None:
        """Maintain the tables whose last maintenance is long enough ago, or with `now` all tables."""
        for table in list(self.tables()):
            if now:
                self._maintain(table)
            else:
                self._maintain_when_due(table)

    def _maintain_when_due(self, table: str) -> None:
        at, last = self._kept.get(table, (float("-inf"), Upkeep()))
        # A round that reached its limit is followed by the next one at once: otherwise, a table with more commits than
        # the limit between two rounds would grow without end.
        if last.expired.is_limited or self.clock() - at >= self.maintenance_seconds:
            self._maintain(table)

    def _maintain(self, table: str) -> None:
        _, last = self._kept.get(table, (None, None))
        self._kept[table] = (self.clock(), maintained(self.warehouse, table, last))

    def _compact_table(self, table: str) -> None:
        assert self.compact is not None
        # The id costs one request. Manifests are read only if the table has changed since the last look.
        latest = self.warehouse.store(table).snapshots.latest_id() or 0
        if self._seen.get(table) == latest:
            return
        due = due_buckets(self.warehouse, table)
        if due:
            commit_compactions(self.warehouse, self.user(), self.compact(due))
        else:
            # Not after a compaction: it made a snapshot, at which further compaction may be due.
            self._seen[table] = latest
