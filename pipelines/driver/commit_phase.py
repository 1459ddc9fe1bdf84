"""The end of a batch in the driver: its commits, again after commits of other jobs, and the compactions it owes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import PenstockError
from penstock.pipelines.driver.batch_context import BatchContext, FailurePolicy
from penstock.pipelines.driver.compaction import commit_compactions
from penstock.pipelines.driver.owed_compaction import CommittedTable, buckets_left_waiting
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.pipelines.tasks.batch_result import BatchResult
from penstock.table.buckets.bucket_files import discard
from penstock.table.commit.rows_of_others import HINT, rows_of_others
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import Snapshot

log = logging.getLogger(__name__)

MOST_FOREIGN = 3  # how often other jobs may commit to a table between the reading of a batch and its commit

Reread = Callable[[frozenset[str]], BatchResult]


@dataclass(frozen=True, slots=True)
class CommitPhase:
    """The commits and compactions of one batch, after all of its tables accept its rows.

    `reread` reads and writes the batch again for some tables. `late` is the table that missed the batch and receives
    it now, None if the batch is new.
    """

    run: BatchContext
    number: int
    result: BatchResult
    policy: FailurePolicy
    reread: Reread
    late: str | None = None

    def commit(self, identity: BatchIdentity, report: BatchReport) -> set[str]:
        """Commit the batch and return the tables that may lack its compaction.

        Tables that another job wrote to in the meantime are read and written again on top of that job's commits.
        """
        run = self.run
        # Before the commit: after a crash between the two, nothing else would record that parked tables lack the batch.
        if run.parking.tables:
            run.parking.note(identity)
        if self.late is None:
            # The snapshots list the parked tables too: a new checkpoint reads the list there if this one is lost.
            identity = replace(identity, parked=tuple(sorted(run.parking.tables)))
        else:
            self._commit_late_letters(identity, self.late)
        watermarks = run.watermarks_at(identity, report)
        messages: Mapping[str, Sequence[CommitMessage]] = self.result.messages
        run.targets.report_options(messages)
        if self.late is None:
            messages = run.expected(self.result.messages)
            # By this number, a `BatchView` recognizes that all tables have the batch. A late batch has no number: its
            # other tables were counted when they were committed.
            identity = replace(identity, tables=len(messages))
        if self.number == 0 and self.late is None:
            self._name_rows_of_others(messages)
        uncompacted, snapshots, before = self._commit_all(identity, messages, watermarks)
        # After the commits: a batch that is repeated after a crash in between finds its snapshots in the tables,
        # and records them then.
        if run.filled is not None:
            set_back = run.filled.set_back(snapshots, before)
            run.filled.record_batch(identity.number, report.sources, snapshots, set_back)
            if set_back:
                raise _set_back(set_back)
        return uncompacted

    def _commit_all(
        self, identity: BatchIdentity, messages: Mapping[str, Sequence[CommitMessage]], watermarks: Mapping[str, int]
    ) -> tuple[set[str], dict[str, Snapshot], dict[str, Snapshot | None]]:
        """Commit to all tables, again to those that another job wrote to in the meantime.

        Return the tables that may lack the compaction of the batch, and the last snapshots of the batch and of the one
        before it in each table.
        """
        run, stats = self.run, self.result.stats
        uncompacted: set[str] = set()
        snapshots: dict[str, Snapshot] = {}
        before: dict[str, Snapshot | None] = {}
        for attempt in range(1, MOST_FOREIGN + 2):
            done = run.commits.commit(identity, self._with_left_waiting(messages, identity), watermarks)
            run.targets.put(done.schemas)
            run.targets.received.update(done.schemas)
            uncompacted |= done.uncompacted
            # Collected over all attempts, since the result of an attempt lacks the tables that a later one commits.
            snapshots |= done.snapshots
            before |= done.before
            stats.retries.update(done.retries)
            stats.conflicts.update([*done.foreign, *done.lost])
            self._park(done.failed | (done.foreign if attempt > MOST_FOREIGN else {}), identity)
            if not done.foreign or attempt > MOST_FOREIGN:
                break
            log.warning("event=foreign_writer tables=%s attempt=%d", ",".join(done.foreign), attempt)
            # The next attempt commits only these tables; the others have the batch.
            messages = self.reread(frozenset(done.foreign)).messages
        return uncompacted, snapshots, before

    def _with_left_waiting(
        self, messages: Mapping[str, Sequence[CommitMessage]], identity: BatchIdentity
    ) -> Mapping[str, Sequence[CommitMessage]]:
        """Return the messages of the batch with those of compactions that were missing in its tables before it."""
        run, warehouse = self.run, self.run.reader.warehouse
        together = dict(messages)
        for table, made in messages.items():
            waiting = buckets_left_waiting(warehouse, table, run.targets.schemas[table], made) if made else []
            if not waiting:
                continue
            try:
                together[table] = [*made, *run.compact(waiting).get(table, ())]
            except PenstockError as error:
                self._park({table: error}, identity)
                discard(warehouse.store(table), together.pop(table))
        return together

    def _name_rows_of_others(self, tables: Collection[str]) -> None:
        """Warn of tables that another job filled, before a new pipeline adds rows to them."""
        warehouse = self.run.reader.warehouse
        for table in sorted(set(tables) - self.run.reader.errors.on_bad.letters):
            if said := rows_of_others(warehouse.store(table), self.run.pipeline):
                log.warning("event=rows_of_other_jobs table=%s reason=%s hint=%s", table, said, HINT)

    def _park(self, failed: Mapping[str, PenstockError], identity: BatchIdentity) -> None:
        """Park the tables whose commit failed. Raise the first error that the policy does not allow to park for."""
        for table, error in failed.items():
            if not self.policy.parks(table, error):
                raise error
            # Again: the batch was noted before the commits, for the tables that were parked by then.
            self.run.parking.note(identity)

    def _commit_late_letters(self, identity: BatchIdentity, table: str) -> None:
        """Commit a late batch's dead letters under a separate name.

        Under its own name, the batch is already in the dead-letter table, with the letters of the other tables. Whether
        the batch is there under the new name may be unknown, because snapshots expire. It is committed all the same: a
        letter that exists twice is read as one.
        """
        commits = replace(self.run.commits, accept_replay=True)
        tables = self.run.reader.errors.on_bad.letters & self.result.messages.keys()
        letters = {name: self.result.messages.pop(name) for name in tables}
        commits.commit(replace(identity, pipeline=f"{self.run.pipeline}.late.{table}"), letters, {})

    def compact(self, identity: BatchIdentity, uncompacted: Collection[str]) -> None:
        """Compact the buckets whose compaction is owed and was not committed with the batch.

        Full compactions include buckets that this batch did not write. Some tables show rows only after compaction. For
        these, a missing compaction is repeated: it lost a commit conflict, a crash of the driver prevented it, or the
        commit did not wait for it.
        """
        run, warehouse = self.run, self.run.reader.warehouse
        for table, messages in self.result.messages.items():
            # A table that failed in this batch may lack its rows.
            if table in self.policy.parked:
                continue
            whole = table not in uncompacted
            committed = CommittedTable(warehouse, table, run.targets.schemas[table], messages, whole)
            try:
                due = committed.owed_buckets(identity.number, compacts_in_background=run.reader.compacts_in_background)
                if due:
                    commit_compactions(warehouse, identity.user, run.compact(due))
            except PenstockError as error:
                # The table has the rows of this batch and lacks only its compaction, so it is parked from the next
                # batch on.
                if not self.policy.parks(table, error, self.number + 1):
                    raise


def _set_back(tables: Sequence[str]) -> CheckpointMismatch:
    return CheckpointMismatch(
        "tables of this pipeline were rolled back or created again during the run, and lack rows that the checkpoint "
        "counts as read",
        tables=", ".join(tables),
        hint="start the pipeline again: the start copies the tables again, or says what to do; stop a pipeline before "
        "its tables are rolled back",
    )
