"""The state of a pipeline as values: of its driver and its tables, and what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.ingest.connector import RECORDS
from penstock.pipelines.ledger.batch_logs import CheckpointProgress
from penstock.pipelines.monitor.deferred_tables import NOTHING_DEFERRED, DeferredTables
from penstock.pipelines.monitor.driver_process import has_ended, is_silent

STALLED_SECONDS = 600.0
IDLE_MILLIS = 10_000  # and two triggers without a batch


@dataclass(frozen=True, slots=True)
class TableStatus:
    """`files` and `level0` are the numbers of live files, and of those not compacted yet, in the fullest bucket."""

    table: str
    schema: int
    snapshot: int | None = None
    batch: int | None = None
    committed_millis: int | None = None
    newest_millis: int | None = None
    records: int = 0  # in all files, before merging: an update is a record beside the row's older one
    files: int = 0
    level0: int = 0
    runs: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineState:
    """`driver` is the last status that the driver wrote, which may be dead. `lag` is known if the source was asked."""

    name: str
    checkpoint: str
    progress: CheckpointProgress
    driver: Mapping[str, Any] | None
    paused: bool
    tables: tuple[TableStatus, ...]
    now_millis: int
    lag: Mapping[str, int] | None = None
    lag_unit: str = RECORDS
    warnings: tuple[str, ...] = field(default=())
    parked: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    requests: tuple[tuple[str, tuple[str, ...], str], ...] = ()  # signals to copy tables again: name, tables, condition
    uncaptured: Mapping[str, Collection[str]] = field(default_factory=dict)  # tables without a source, and their former
    letters: Mapping[str, int] = field(default_factory=dict)  # dead letters that are there, by their table ("": none)
    deferred: DeferredTables = NOTHING_DEFERRED

    @property
    def state(self) -> str:
        """The state: running, pausing, paused, stopped, failed, dead or new.

        It is pausing until the batch under way has ended, and dead if the driver ended without writing a last status.
        """
        if self.driver is None:
            return "new" if self.progress.planned is None else "stopped"
        said = str(self.driver.get("state", "stopped"))
        if said not in {"running", "pausing", "paused"}:
            return said
        return "dead" if has_ended(self.driver) or is_silent(self.driver, self.now_millis) else said

    @property
    def stalled_seconds(self) -> float | None:
        return None if self.driver is None or self.state != "running" else stalled(self.driver, self.now_millis)

    @property
    def last_commit_millis(self) -> int | None:
        times = [table.committed_millis for table in self.tables if table.committed_millis]
        return max(times, default=None)

    def fresh_seconds(self, table: TableStatus) -> float | None:
        """Return the time since the newest committed change, by the source's clock.

        If the source has nothing more, it is the time since the source was last asked, so that idle tables stay fresh.
        """
        newest = table.newest_millis  # none where all rows are of a first copy
        age = None if newest is None else max(0.0, (self.now_millis - newest) / 1000)
        if self.deferred.defers(table.table):
            return self.deferred.fresh_seconds(table.table, age, self.now_millis)
        if table.error or table.table in self.parked or table.table in self.uncaptured:
            return age
        if self.lag is not None and not any(self.lag.values()):
            return 0.0
        idle = self.driver.get("caught_up_millis") if self.driver else None
        if idle is None:
            return age
        looked = max(0.0, (self.now_millis - int(idle)) / 1000)
        return looked if age is None else min(age, looked)

    @property
    def is_idle(self) -> bool:
        """Return whether the newest batch is too old for its rates to be current."""
        if self.driver is None or self.state != "running":
            return True
        quiet = self.now_millis - int(self.driver.get("committed_millis") or 0)
        return quiet > IDLE_MILLIS + 2000 * float(self.driver.get("trigger_seconds", 0))


def stalled(driver: Mapping[str, Any], now_millis: int) -> float | None:
    """Return for how long nothing was committed although the source has more.

    None if that is less than ten minutes or ten triggers: large batches may take that long.
    """
    if driver.get("state") != "running" or not any((driver.get("lag") or {}).values()):
        return None
    # Counted from the start if nothing was committed yet, and from the last look that found nothing more to read.
    last = max(int(driver.get(event) or 0) for event in ("started_millis", "committed_millis", "caught_up_millis"))
    seconds = (now_millis - last) / 1000
    return seconds if seconds > max(STALLED_SECONDS, 10 * float(driver.get("trigger_seconds", 0))) else None
