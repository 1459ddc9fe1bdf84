"""The driver's side of status and signals: a thread beside the query obeys signals, queries the lag and writes status.

The pipeline's correctness does not depend on it: its failures are logged, and the batches continue.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.ingest.connector import RECORDS
from penstock.ingest.source import Offsets
from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.job.run_control import RunControl
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.checkpoint_folder import PAUSED, STOP, CheckpointFolder
from penstock.pipelines.monitor.batch_log import log_batch, log_copying
from penstock.pipelines.monitor.facts import BatchFacts, Copying, Look, Observer
from penstock.pipelines.monitor.failure_facts import failure_facts, failure_text
from penstock.pipelines.monitor.left_out import LeftOut
from penstock.pipelines.monitor.schema_changes import SeenSchemas
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.table.catalog.settings import CatalogSettings

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
_LAST_LOOK_S = 3.0
LOOK_SECONDS = 10.0
RECENT = 50  # schema changes and errors that are remembered


class LagSource(Protocol):
    def lag(self, offsets: Offsets) -> dict[str, int]: ...


@dataclass(slots=True)
class RunMonitor:
    """The monitor of one run, as a context around it. The run calls `on_batch` after each batch."""

    name: str
    folder: CheckpointFolder
    warehouse: CatalogSettings
    running: RunControl
    source: LagSource
    trigger_seconds: float
    observers: Sequence[Observer] = ()
    copying: Copying = field(default_factory=Copying)
    letters: str | None = None  # the dead-letter table
    look_seconds: float = LOOK_SECONDS
    lag_unit: str = RECORDS
    left_out: LeftOut = field(default_factory=LeftOut)
    initial: Callable[[], Offsets] = dict  # the offsets where the first batch of a new checkpoint begins
    _facts: dict[str, Any] = field(default_factory=dict)
    _schemas: SeenSchemas = field(init=False)
    _end: Offsets | None = None
    _looked: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._schemas = SeenSchemas(self.warehouse)

    def __enter__(self) -> RunMonitor:
        self._quietly(lambda: self.left_out.continued(self.folder.status() or {}))
        self._facts = self.left_out.facts() | {
            "state": "running",
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started_millis": _now(),
            "trigger_seconds": self.trigger_seconds,
            "tables": {},
            "recent": [],
            "dead_letter_table": self.letters,
            "passed_over": {},
            "lag_unit": self.lag_unit,
        }
        self._quietly(lambda: self.folder.clear_signal(STOP))  # sent while no driver was running
        if self._paused():
            self.running.pause()
            self._facts["state"] = "pausing"
        self._write()
        self._thread = threading.Thread(target=self._run, name="penstock-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._over.set()
        if self._thread is not None:
            # It may wait for a source that says nothing, or for a slow store. It does nothing more after that.
            self._thread.join(_LAST_LOOK_S)
        with self._lock:
            known = error if isinstance(error, PenstockError) else None
            self._facts["state"] = "stopped" if error is None else "failed"
            if error is not None:
                self._facts |= failure_facts(error)
                self._remember("error", failure_text(error))
            # The status is that of the other process, if there is one.
            if not isinstance(error, CheckpointInUse):
                self._write()
        for observer in self.observers:
            self._quietly(lambda observer=observer: observer.ended(known))

    def on_batch(self, identity: BatchIdentity, report: BatchReport) -> None:
        facts = BatchFacts.of(identity, report, _now())
        with self._lock:
            # What could not be read is noted after the next batch.
            changed = self._quietly(lambda: self._schemas.changes(facts)) or []
            facts = replace(facts, schemas=changed)
            self._end = facts.end
            self._count(facts)
            self._write()
        log_batch(facts)
        log_copying(self.copying.now)
        # Outside of the lock: an observer may wait for the network, and `facts` must answer meanwhile.
        for observer in self.observers:
            self._quietly(lambda observer=observer: observer.batch(facts))

    @property
    def facts(self) -> dict[str, Any]:
        """Return the present status, as it is written to the checkpoint."""
        with self._lock:
            # A copy, which its reader may use while batches change the facts.
            return {**self._facts, "tables": {name: dict(counts) for name, counts in self._facts["tables"].items()}}

    def _run(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            self._quietly(self._obey)
            if time.monotonic() - self._looked >= self.look_seconds:
                self._looked = time.monotonic()
                self._quietly(self._look)
                with self._lock:
                    if not self._over.is_set():
                        self._write()

    def _obey(self) -> None:
        signals = self.folder.signals()
        if self._over.is_set():
            return  # they are for the next run
        if signals.stop:
            self.folder.clear_signal(STOP)
            log.info("event=signal signal=stop")
            self.running.stop()
        # The states other than running are pausing and paused, so the signal is new if it differs from the state.
        if signals.paused != (self._facts["state"] != "running"):
            log.info("event=signal signal=%s", "pause" if signals.paused else "resume")
            if signals.paused:
                self.running.pause()
            else:
                self.running.resume()
        resting = "paused" if self.running.is_resting else "pausing"
        self._enter(resting if signals.paused else "running")

    def _enter(self, state: str) -> None:
        with self._lock:
            # Nothing may follow the last status: another process may have begun to write its own.
            if state != self._facts["state"] and not self._over.is_set():
                self._facts["state"] = state
                self._write()

    def _look(self) -> None:
        if self._end is None:
            return
        look = Look(_now(), self.source.lag(self._end))
        if self._over.is_set():
            return
        with self._lock:
            self._facts["lag"] = dict(look.lag)
            if look.caught_up:
                self._facts["caught_up_millis"] = look.millis
        for observer in self.observers:
            self._quietly(lambda observer=observer: observer.looked(look))

    def _count(self, facts: BatchFacts) -> None:
        self._facts |= {
            "batch": facts.number,
            "committed_millis": facts.millis,
            "position": facts.end,
            "rows": self._facts.get("rows", 0) + facts.total_rows,
            "rows_per_second": round(facts.total_rows / facts.seconds, 1),
            "bad": self._facts.get("bad", 0) + sum(facts.bad.values()),
        }
        counted = Counter(self._facts["passed_over"]) + Counter(facts.passed_over)
        self._facts["passed_over"] = dict(sorted(counted.items()))
        copying = self.copying.batch(facts.rows, facts.end, facts.total_rows / facts.seconds)
        self._facts["copying"] = copying.facts() if copying.tables else None
        open_ = {copy.table for copy in copying.tables}
        # Tables without rows in this batch are included: their copy may be done, and their rate is 0 now.
        for table in self._facts["tables"].keys() | facts.rows.keys():
            counts = self._facts["tables"].setdefault(table, {"rows": 0})
            counts["state"] = "copying" if table in open_ else "streaming"
            counts["rows_per_second"] = 0.0  # unless this batch has rows of it
        for table, rows in facts.rows.items():
            counts = self._facts["tables"].setdefault(table, {"rows": 0, "state": "streaming"})
            counts["rows"] += rows
            counts["rows_per_second"] = round(rows / facts.seconds, 1)
            if table in facts.newest:
                counts["newest_millis"] = facts.newest[table]
        self.left_out.batch(facts.stats.left_out, facts.rows)
        self._facts |= self.left_out.facts()
        for table, reason in facts.stats.parked.items():
            self._remember("parked", f"{table}: {reason}")
        for change in facts.schemas:
            note = f"schema {change.schema} since {time.strftime('%H:%M', time.gmtime(change.millis / 1000))} UTC"
            self._facts["tables"].setdefault(change.table, {"rows": 0, "state": "streaming"})["note"] = note
            self._remember("schema", f"{change.table}: schema {change.schema}")

    def _remember(self, kind: str, text: str) -> None:
        recent = self._facts["recent"]
        recent.append({"millis": _now(), "kind": kind, "text": text})
        del recent[:-RECENT]

    def _paused(self) -> bool:
        return bool(self._quietly(lambda: PAUSED if self.folder.signals().paused else None))

    def _write(self) -> None:
        # Other processes see by this time whether the driver is alive.
        self._facts["heard_millis"] = _now()
        self._quietly(lambda: self.folder.put_status(self._facts))

    def _quietly(self, action: Any) -> Any:
        try:
            return action()
        except (PenstockError, OSError, pa.ArrowException, ValueError) as error:
            log.warning("event=observing_failed reason=%s", error)
        return None


def _now() -> int:
    return time.time_ns() // 1_000_000
