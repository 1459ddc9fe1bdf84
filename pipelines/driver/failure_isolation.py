"""Isolates tables that fail within a batch: their part is removed, so that the other tables can continue."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.pipelines.driver.commit import discard
from penstock.pipelines.driver.replay import Replay
from penstock.pipelines.ledger.parked_tables import Parking, is_of_its_table
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.write import BatchResult
from penstock.table.schema.validation import UnusableName

log = logging.getLogger(__name__)


@dataclass(slots=True)
class FailureIsolation:
    """The failure isolation of one batch.

    If tables are not isolated, the first failure ends the batch and its files are removed. `late`: the single table for
    which a past batch is applied now, when all others have it.
    """

    parking: Parking
    reading: BatchReader
    targets: Targets
    number: int
    late: str | None = None
    parked: set[str] = field(default_factory=set)
    _letters_stale: bool = False  # the batch's dead letters include those of tables parked meanwhile

    def parks(self, table: str, error: PenstockError, batch: int | None = None) -> bool:
        """Park the table and return True if the batch may continue without it.

        The table is parked from this batch on, unless another number is given. Names that no table can have never stop
        other tables, since anybody at the source can choose a column name.
        """
        # the dead-letter table is needed for the bad records of all tables
        kept = table not in self.reading.on_bad.letters
        odd = isinstance(error, UnusableName) and self.reading.leaves_out and table in self.targets.schemas
        isolates = self.parking.isolates or odd
        if not (isolates and kept and is_of_its_table(error)):
            return False
        log.error("event=table_parked table=%s batch=%d reason=%s", table, self.number, error.message)
        self.parking.park(table, self.number if batch is None else batch, error)
        self.targets.leave_out([table])
        self.parked.add(table)
        return True

    def sound(self, written: BatchResult) -> BatchResult:
        """Return what was written, without the tables that failed in it.

        Raise the first error that cannot be isolated.
        """
        for error in written.failures:
            self.drop(written)
            raise error
        for table, error in written.failed.items():
            if not self.parks(table, error):
                self.drop(written)
                raise error
        self.forget(written)
        return written

    def forget(self, written: BatchResult) -> None:
        for table in self.targets.left_out:
            if table in written.messages:
                discard(self.reading.warehouse.store(table), written.messages.pop(table))
            for report in written.reports:
                self._letters_stale |= report.forget(table) > 0

    def with_letters_of_others(self, written: BatchResult, replay: Replay) -> BatchResult:
        """Write the dead letters again without those of parked tables.

        Letters of a parked table are written when its rows are.
        """
        letters = self.reading.on_bad.letters
        if not (self.parked and self._letters_stale and letters):
            return written
        for table in letters:
            discard(self.reading.warehouse.store(table), written.messages.pop(table, []))
        again = replay.again(replay.shares(written.reports, letters))
        return BatchResult({**written.messages, **again.messages}, written.reports, stats=written.stats)

    def drop(self, written: BatchResult) -> None:
        for table, messages in written.messages.items():
            discard(self.reading.warehouse.store(table), messages)
