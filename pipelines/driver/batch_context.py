"""The state of a run that all of its batches share, as a batch sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.driver.compaction import Compact
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.filled_tables import FilledTables
from penstock.pipelines.ledger.parked_tables import ParkedTables
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks.bad_records import BadRecordLimit
from penstock.pipelines.tasks.batch_result import BatchResult
from penstock.pipelines.tasks.read import BatchReader
from penstock.pipelines.tasks.reports import BatchReport
from penstock.pipelines.tasks.task_input import TaskInput
from penstock.table.meta.entries import CommitMessage


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
