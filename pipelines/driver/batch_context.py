"""The context of a batch: the state and services of its run, and the policy for tables that fail."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.errors import PenstockError
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.driver.compaction import Compact
from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.filled_tables import FilledTables
from penstock.pipelines.ledger.parked_tables import ParkedTables, is_of_its_table
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks.bad_records import BadRecordLimit
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.batch_result import BatchResult
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.table.meta.entries import CommitMessage
from penstock.table.schema.validation import UnusableName


class BatchContext(Protocol):
    """The state and the services of a run that its batches use."""

    pipeline: str
    reader: BatchReader
    targets: Targets
    commits: Commits
    parking: ParkedTables
    limit: BadRecordLimit
    filled: FilledTables | None

    @property
    def compact(self) -> Compact: ...

    def reread(self, number: int, inputs: Sequence[TaskInput]) -> BatchResult:
        """Read and write again, in a job of its own."""
        ...

    def expected(self, messages: Mapping[str, list[CommitMessage]]) -> dict[str, list[CommitMessage]]:
        """Return the messages, with the tables that get a snapshot of every batch."""
        ...

    def watermarks_at(self, identity: BatchIdentity, report: BatchReport) -> dict[str, int]:
        """Return the watermarks of the tables whose options ask for one."""
        ...


log = logging.getLogger(__name__)


@dataclass(slots=True)
class FailurePolicy:
    """The failure policy of one batch. `isolates`: a table that fails is parked, and the others continue.

    `is_late`: the batch is one that a parked table missed.
    """

    parking: ParkedTables
    reader: BatchReader
    targets: Targets
    number: int
    isolates: bool
    parked: set[str] = field(default_factory=set)  # the tables that failed in this batch
    is_late: bool = False

    def parks(self, table: str, error: PenstockError, batch: int | None = None) -> bool:
        """Park the table and return True if the batch may continue without it.

        The table is parked from this batch on, unless another number is given. Names that no table can have never stop
        other tables, since anybody at the source can choose a column name.
        """
        # the dead-letter table is needed for the bad records of all tables
        may_be_parked = table not in self.reader.errors.on_bad.letters
        unusable = isinstance(error, UnusableName) and self.reader.errors.leaves_out and table in self.targets.schemas
        if not ((self.isolates or unusable) and may_be_parked and is_of_its_table(error)):
            return False
        self._check_newest()
        hint = f" hint={error.hint}" if error.hint else ""
        log.error("event=table_parked table=%s batch=%d reason=%s%s", table, self.number, error.message, hint)
        # In the checkpoint first: after a crash the table is still parked, and the batch is repeated without it.
        self.parking.park(table, self.number if batch is None else batch, error)
        self.targets.leave_out([table])
        self.parked.add(table)
        return True

    def _check_newest(self) -> None:
        """Raise CheckpointInUse if another driver has gone on to later batches: the table may have them."""
        checkpoint = self.parking.checkpoint
        if not self.is_late and (checkpoint.batches.last_planned or 0) > self.number:
            raise CheckpointInUse.by_another(checkpoint.location)

    @property
    def reasons(self) -> dict[str, str]:
        """Why each table was parked in this batch."""
        return {table: self.parking.tables[table].reason for table in sorted(self.parked)}
