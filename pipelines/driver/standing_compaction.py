"""Continuous compaction of tables that other jobs write, until it is stopped."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.errors import CommitConflict, PenstockError
from penstock.storage.base import store_error
from penstock.table.catalog.catalog import Catalog
from penstock.table.maintenance.upkeep import Upkeep, after_compaction
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.operations.compaction_round import Failure, TableOutcome, compact_round
from penstock.table.operations.executor import Executor
from penstock.table.operations.selection import Selection

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StandingCompaction:
    """Rounds of compaction over tables of a catalog.

    `names` returns the tables of a round, so that new ones can join. A round looks at the newest snapshot of each table
    and plans only tables that changed. With `together` one job compacts all of them, else each table has its own.

    A conflict with another job, and an error that may pass, are tried again in the next round. After any other error a
    table waits for its next snapshot, or with `strict` the error is raised.
    """

    catalog: Catalog
    names: Callable[[], Sequence[str]]
    executor: Executor
    only: Selection = field(default_factory=Selection)
    options: Mapping[str, str] = field(default_factory=dict)
    together: bool = False
    strict: bool = False
    made: dict[str, list[int]] = field(default_factory=dict)  # the snapshots of compactions, by table
    _done: dict[str, Snapshot] = field(default_factory=dict)  # the snapshots at which nothing is left to do
    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, interval: float) -> None:
        """Compact in rounds until stopped; wait for `interval` seconds after a round without a commit."""
        while not self._stopped.is_set():
            if not self.round():
                self._stopped.wait(interval)

    def stop(self) -> None:
        """End after the jobs that have begun. Only sets a flag, so a signal handler may call it."""
        self._stopped.set()

    def round(self) -> bool:
        """Compact the buckets that are due now; return whether anything was committed."""
        changed = self._changed()
        groups = [changed] if self.together else [{name: found} for name, found in changed.items()]
        committed = False
        for group in groups:
            if group and not self._stopped.is_set():
                committed = self._compacted(group) or committed
        return committed

    def _changed(self) -> dict[str, tuple[TableStore, Snapshot]]:
        """Return the tables with a newer snapshot than the one after which no compaction was left to do."""
        changed = {}
        try:
            names = self.names()
        except (PenstockError, OSError) as error:
            self._failed("*", error)
            return {}
        for name in names:
            try:
                store = self.catalog.store(name)
                latest = store.snapshots.latest()
            except TableMissing:
                if self.strict:
                    raise
                self._done.pop(name, None)  # dropped since its name was listed
            except (PenstockError, OSError) as error:
                self._failed(name, error)
            else:
                if latest is not None and latest != self._done.get(name):
                    changed[name] = store, latest
        return changed

    def _compacted(self, tables: Mapping[str, tuple[TableStore, Snapshot]]) -> bool:
        stores = {name: store for name, (store, _) in tables.items()}
        try:
            outcomes = compact_round(stores, self.executor, only=self.only, options=self.options)
        except PenstockError as error:
            if not error.retryable:
                raise
            self._failed(", ".join(tables), error)
            return False
        for name, outcome in outcomes.items():
            self._settle(name, *tables[name], outcome)
        return any(outcome.snapshots for outcome in outcomes.values())

    def _settle(self, name: str, store: TableStore, seen: Snapshot, outcome: TableOutcome) -> None:
        if outcome.snapshots:
            ids = [snapshot.id for snapshot in outcome.snapshots]
            self.made.setdefault(name, []).extend(ids)
            log.info("event=compacted table=%s snapshots=%s", name, ",".join(map(str, ids)))
            after_compaction(store, Upkeep(partitions_checked=store.ambient.now_millis()))
        if outcome.error is not None and self._failed(name, outcome.error):
            return
        # After a commit the next round looks again, because one compaction may leave more to do.
        if not outcome.snapshots:
            self._done[name] = seen

    def _failed(self, name: str, error: Failure) -> bool:
        """Log an error; return whether it may pass. Raise it if it does not, and the compaction is strict."""
        reason = error.message if isinstance(error, PenstockError) else str(error)
        if isinstance(error, CommitConflict):
            # Only the compaction is dropped, never the rows. The next round plans it again.
            log.warning("event=compaction_lost table=%s reason=%s", name, reason)
            return True
        passing = store_error(error, reason) if isinstance(error, OSError) else error
        retried = isinstance(passing, PenstockError) and passing.retryable
        if not retried and self.strict:
            raise error
        log.error("event=compaction_failed table=%s retried=%s reason=%s", name, str(retried).lower(), reason)
        return retried


@contextmanager
def stopped_by_signals(standing: StandingCompaction) -> Iterator[None]:
    """A context in which SIGTERM and SIGINT stop a compaction after its jobs; a second signal ends the process."""
    # Only the main thread may set signal handlers.
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT) if in_main}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(number: int, frame: object) -> None:
        standing.stop()
        restore()

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        restore()
