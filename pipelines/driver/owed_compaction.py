"""The compaction that a committed batch leaves to be done right away, because rows or changelogs appear only by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.pipelines.driver.compaction import DueBucket, all_buckets, due_buckets
from penstock.pipelines.mapping.target_tables import TargetVersion
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import BucketMode
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.compaction.full_compaction import FullCompaction
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.compaction.waiting_buckets import left_waiting
from penstock.table.meta.entries import CommitMessage
from penstock.table.options.compaction import WRITE_ONLY


def buckets_left_waiting(
    warehouse: CatalogSettings, table: str, schema: int, messages: Sequence[CommitMessage]
) -> list[DueBucket]:
    """Return the buckets, other than those of these messages, whose compaction was lost or rolled back before.

    Their compaction must be committed together with the messages: see `left_waiting`. Most tables have no such bucket.
    """
    layout, base = warehouse.layout(table, schema), min((message.base_snapshot for message in messages), default=0)
    # Checked before the snapshot is read, which costs a request: tables of other kinds never have such buckets.
    if not base or layout.mode is not BucketMode.CROSS_PARTITION:
        return []
    store = warehouse.store(table)
    found = left_waiting(store, layout, store.snapshots.find(base))
    own = {(message.partition, message.bucket) for message in messages}
    version = TargetVersion(schema, base)
    return [DueBucket(table, version, *place, at_once=True) for place in sorted(found - own)]


@dataclass(frozen=True, slots=True)
class CommittedTable:
    """A table that has the rows of a batch, with the schema and messages of the batch.

    `whole` is False if the compaction by the batch's own tasks may be missing.
    """

    warehouse: CatalogSettings
    name: str
    schema: int
    messages: Sequence[CommitMessage]
    whole: bool

    def owed_buckets(self, number: int, *, compacts_in_background: bool) -> list[DueBucket]:
        """Return the buckets to compact now, at this number of commits. Reads manifests, no data."""
        due = self._due_in_full(number)
        if self._owes(compacts_in_background):
            # A bucket that is compacted in full must not be compacted a second time in the same commit.
            places = {(bucket.partition, bucket.bucket) for bucket in due}
            # Found at the newest snapshot, which contains the batch that was just committed.
            lagging = due_buckets(self.warehouse, self.name)
            due += [bucket for bucket in lagging if (bucket.partition, bucket.bucket) not in places]
        return due

    def _due_in_full(self, number: int) -> list[DueBucket]:
        """Return the buckets that still need the full compaction due at this number of commits.

        These are buckets written before but not by this batch, whose own tasks have compacted their buckets. Without
        `whole`, or if all buckets must be compacted in one snapshot, the batch's buckets are returned too.
        """
        store = self.warehouse.store(self.name)
        rule = FullCompaction.of(store, self.warehouse.layout(self.name, self.schema))
        snapshot = store.snapshots.latest() if rule.is_due(number) else None
        if snapshot is None:
            return []
        own = {(message.partition, message.bucket) for message in self.messages}
        base = min((message.base_snapshot for message in self.messages), default=0)
        # If the base has expired, the newest snapshot replaces it: it has all buckets of the base.
        before = (store.snapshots.find(base) or snapshot) if base else None
        left = rule.buckets(TableState(store, before), number, set())
        # The batch's tasks have compacted their own buckets, unless that compaction was lost.
        left = left - own if self.whole and not rule.needs_all_buckets else left | own
        found = all_buckets(store, self.name, snapshot, self.schema, full=True)
        return [bucket for bucket in found if (bucket.partition, bucket.bucket) in left]

    def _owes(self, compacts_in_background: bool) -> bool:
        """Return whether the other due buckets must be compacted too.

        Where rows or changelogs become visible only by compaction, every compaction must be done. A table that may lag
        (lookup-wait) does all its compaction after the commit; other tables only the part that the commit lost.
        """
        layout = self.warehouse.layout(self.name, self.schema)
        if not layout.has_keys or layout.schema.typed[WRITE_ONLY]:
            return False
        spec = CompactionSpec.of(layout.schema)
        return not compacts_in_background if spec.lags else spec.shows_by_compaction and not self.whole
