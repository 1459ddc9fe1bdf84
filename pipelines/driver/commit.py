"""The commits of a batch to its tables, in parallel."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from penstock.errors import PenstockError
from penstock.pipelines.ledger.batch_identity import BatchIdentity, was_committed_before
from penstock.pipelines.ledger.parked_tables import is_of_its_table
from penstock.table.buckets.bucket_files import discard
from penstock.table.buckets.layout import Layout
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.commit.committer import CommittedSnapshots, Committer
from penstock.table.commit.completion import only_compaction
from penstock.table.commit.conflicts import ForeignWriter
from penstock.table.commit.shared_buckets import SharedBuckets
from penstock.table.errors import HistoryExpired
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore

log = logging.getLogger(__name__)

# A commit waits for the store most of the time, so more threads than cores are useful.
THREADS = 8


@dataclass(slots=True)
class CommitResult:
    """The result of a batch's commits.

    `schemas` has the schema ids of the tables that have the batch, `uncompacted` the tables that may lack its
    compaction, and `foreign` the tables to which another job committed in between. A table in `failed` may have the
    batch too. `before` has the last snapshot of an earlier batch, or None.
    """

    schemas: dict[str, int] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)  # the last snapshot of the batch, by table
    before: dict[str, Snapshot | None] = field(default_factory=dict)
    uncompacted: set[str] = field(default_factory=set)
    foreign: dict[str, ForeignWriter | HistoryExpired] = field(default_factory=dict)
    failed: dict[str, PenstockError] = field(default_factory=dict)
    retries: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)  # tables whose compaction lost a conflict against another writer's


@dataclass(frozen=True, slots=True)
class _TableCommit:
    """A commit to one table: `made` is None if it had the batch already, `before` is the last snapshot before it."""

    made: CommittedSnapshots | None
    before: Snapshot | None


@dataclass(slots=True)
class Commits:
    """Commits the batches of one run.

    Remembers which tables were checked against older checkpoints; `follows` are the commit users of older checkpoints
    that this one may continue.
    """

    warehouse: CatalogSettings
    accept_replay: bool = False
    follows: frozenset[str] = frozenset()
    isolates: bool = False
    _checked: set[str] = field(default_factory=set)

    def commit(
        self,
        identity: BatchIdentity,
        messages: Mapping[str, Sequence[CommitMessage]],
        watermarks: Mapping[str, int],
    ) -> CommitResult:
        """Make the batch visible, table by table.

        Called again for the same batch, it commits only to the tables that lack it. If the driver dies between two
        tables, the batch is replayed, and the tables that have it skip it. The first error is raised after all tables
        were tried.
        """
        done = CommitResult()
        # The pool waits for all commits at its end, so that none is still running when the first error is raised below.
        with ThreadPoolExecutor(THREADS) as pool:
            tasks = {
                table: pool.submit(self._commit, self.warehouse.store(table), identity, found, watermarks.get(table))
                for table, found in messages.items()
            }
        for table, task in tasks.items():
            try:
                self._note(done, table, task.result(), identity)
            except (ForeignWriter, HistoryExpired) as error:
                # The files continue a state that the table no longer has. The driver reads and writes the batch again.
                discard(self.warehouse.store(table), messages[table])
                done.foreign[table] = error
            except PenstockError as error:
                # The files stay: the commit may have taken effect although its answer was lost, and then the table
                # refers to them.
                if not self.isolates or not is_of_its_table(error):
                    raise
                done.failed[table] = error
        return done

    def _commit(
        self, store: TableStore, identity: BatchIdentity, messages: Sequence[CommitMessage], watermark: int | None
    ) -> _TableCommit:
        """Commit to one table, unless it has the batch already."""
        committer = Committer(store, identity.user)
        # Read once for all steps. If another snapshot follows meanwhile, the creation of the next one notices it.
        newest = store.snapshots.latest()
        before = committer.newest_own(newest)
        found = before if before is not None and before.commit_identifier >= identity.number else None
        # The first time, other checkpoints are searched for in all snapshots. By then `newest` may have expired.
        still = newest if found is None and store.name in self._checked else None
        if self._has(store, found, identity):
            log.info("event=batch_already_committed table=%s batch=%d", store.name, identity.number)
            discard(store, messages)
            return _TableCommit(None, before)
        # Each attempt checks the layout again, with the newest schema.
        done = SharedBuckets(store, Layout.of(store.schema_last_read())).commit(
            messages,
            still,
            lambda current, after: committer.commit(
                current,
                identity.number,
                newest=after,
                watermark=watermark,
                properties=identity.properties_of(store.name),
                # A table is listed without messages if its options or the pipeline ask for a snapshot of every batch.
                force_empty=not messages,
            ),
        )
        # Another process of this pipeline committed the batch after `_has` had looked.
        if done.already is not None:
            log.warning("event=batch_committed_by_another_process table=%s batch=%d", store.name, identity.number)
            discard(store, messages)
            return _TableCommit(None, before)
        if done.lost_compaction is not None:
            log.warning("event=compaction_lost table=%s reason=%s", store.name, done.lost_compaction.message)
            discard(store, [only_compaction(message) for message in messages])
        snapshot = done.last.id if done.last else None
        log.info("event=committed table=%s batch=%d snapshot=%s", store.name, identity.number, snapshot)
        return _TableCommit(done, before)

    def _note(self, done: CommitResult, table: str, result: _TableCommit, identity: BatchIdentity) -> None:
        """Add the result of a table's commit to the result of the batch."""
        committed, done.before[table] = result.made, result.before
        last = self._snapshot(table, identity) if committed is None else committed.last
        # Each commit reads the newest schema, so the next batch also knows what other jobs have altered.
        if committed is None or last is None:
            done.schemas[table] = self.warehouse.store(table).schema().id
        else:
            done.schemas[table] = last.schema_id
        if committed is None or committed.lost_compaction is not None:
            done.uncompacted.add(table)
        if last is not None:
            done.snapshots[table] = last
        if committed is not None:
            done.retries[table] += committed.retries
            done.lost += [table] if committed.lost_compaction is not None else []

    def _snapshot(self, table: str, identity: BatchIdentity) -> Snapshot | None:
        """Return the snapshot by which the table already had the batch, or None if another checkpoint committed it."""
        return Committer(self.warehouse.store(table), identity.user).committed(identity.number)

    def _has(self, store: TableStore, snapshot: Snapshot | None, identity: BatchIdentity) -> bool:
        """Return whether the table has the batch. `snapshot` is the commit of its user that may be the batch."""
        if identity.is_in(snapshot, store.name):
            return True
        # Searching for another checkpoint's commit reads snapshots backwards until it finds one of this pipeline.
        # Once per table is enough: after the first commit, the newest snapshot of the pipeline is one of this run.
        if store.name in self._checked:
            return False
        if was_committed_before(store, identity, follows=self.follows, accept_replay=self.accept_replay):
            return True
        self._checked.add(store.name)
        return False
