"""Commits of one user to one table: once per identifier, however often they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import CommitConflict
from penstock.table.commit.attempt import Check, Identity, Retries, land
from penstock.table.commit.changes import Changes, append_half, compact_half
from penstock.table.commit.conflicts import (
    check_bucket_totals,
    check_deletes,
    check_foreign_keys,
    check_foreign_rows,
    check_levels,
)
from penstock.table.layout import BucketMode, Layout
from penstock.table.meta.entries import Bucket, CommitMessage, FileKind, IndexEntry, ManifestEntry
from penstock.table.meta.live import added_between, index_entries, live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.values.binary_row import decode_row
from penstock.table.values.ordering import order_values
from penstock.table.write.compacting import drop_lookups

Covers = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class Committed:
    """`lost_compaction` tells why the COMPACT half was given up; the data stands all the same. `retries` counts the
    times that another writer was faster."""

    snapshots: tuple[Snapshot, ...] = ()
    lost_compaction: CommitConflict | None = None
    retries: int = 0

    @property
    def last(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None


@dataclass(frozen=True, slots=True)
class Committer:
    """`user` is the job; its identifiers rise. The batch identifier stands for none and is never recognised."""

    store: TableStore
    user: str
    retries: Retries = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "retries", Retries.of(self.store.schema().options))

    def committed(self, identifier: int) -> Snapshot | None:
        """The newest snapshot by which this user has already committed `identifier`, or a later one."""
        if identifier == BATCH_IDENTIFIER:
            return None
        for snapshot in self.store.snapshots.newest_first():
            if snapshot.commit_user == self.user and snapshot.commit_identifier != BATCH_IDENTIFIER:
                return snapshot if snapshot.commit_identifier >= identifier else None
        return None

    def commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = BATCH_IDENTIFIER,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        force_empty: bool = False,
    ) -> Committed:
        """Make `messages` visible: new rows as an APPEND snapshot, what compaction did as a COMPACT snapshot.

        Called again with an identifier this user already committed: changes nothing. Dies between the two: the rows are
        there, the compaction is lost and its files are orphans. Holds the entries of the touched buckets in memory.
        """
        if self.committed(identifier) is not None:
            return Committed()
        identity = Identity(self.user, identifier, watermark, properties or {})
        append, compact = append_half(messages), compact_half(messages)
        snapshots = []
        retries = 0

        def counted(check: Check) -> Check:
            def ask(latest: Snapshot | None, first: bool) -> Changes:
                nonlocal retries
                retries += not first
                return check(latest, first)

            return ask

        if not append.is_empty or force_empty:
            check = self._append_check(append, messages)
            snapshots.append(land(self.store, identity, self.retries, counted(check)))
        if compact.is_empty:
            return Committed(tuple(snapshots), retries=retries)
        try:
            read_at = min((message.base_snapshot for message in messages), default=0)
            check = self._vectors_check(compact, read_at)
            snapshots.append(land(self.store, identity, self.retries, counted(check)))
        except CommitConflict as lost:
            return Committed(tuple(snapshots), lost, retries)
        stays = {entry.file.name for entry in compact.entries if entry.kind is FileKind.ADD}
        gone = (entry for entry in compact.entries if entry.kind is FileKind.DELETE)
        drop_lookups(self.store, [entry for entry in gone if entry.file.name not in stays])
        return Committed(tuple(snapshots), retries=retries)

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        covers: Covers,
        identifier: int = BATCH_IDENTIFIER,
        *,
        properties: Mapping[str, str] | None = None,
        base: Snapshot | None = None,
    ) -> Committed:
        """Put the new files in place of everything in the partitions that `covers` names, as one OVERWRITE.

        With `base` the new files stand for the rows of that snapshot: CommitConflict when there are later ones.
        """
        if self.committed(identifier) is not None:
            return Committed()
        identity = Identity(self.user, identifier, None, properties or {})
        append, compact = append_half(messages), compact_half(messages)
        check = self._overwrite_check(append, covers, base)
        snapshots = [land(self.store, identity, self.retries, check)]
        if not compact.is_empty:
            snapshots.append(land(self.store, identity, self.retries, self._rewrite_check(compact)))
        return Committed(tuple(snapshots))

    def rewrite(self, changes: Changes, identifier: int = BATCH_IDENTIFIER) -> Committed:
        """Commit changes that take files away: refused with CommitConflict when one of them is gone already."""
        if changes.is_empty or self.committed(identifier) is not None:
            return Committed()
        return Committed(
            (land(self.store, Identity(self.user, identifier), self.retries, self._rewrite_check(changes)),)
        )

    def _append_check(self, changes: Changes, messages: Sequence[CommitMessage]) -> Callable[..., Changes]:
        layout = Layout.of(self.store.schema())
        base = min((message.base_snapshot for message in messages), default=0)

        def check(latest: Snapshot | None, first: bool) -> Changes:
            if latest is None:
                return changes
            if changes.has_deletes:
                return self._checked_rewrite(changes, latest)
            if latest.id != base:
                live = live_entries(self.store, latest, partitions=changes.partitions)
                check_bucket_totals(live, changes.entries, self.store.name)
            if layout.has_keys and latest.id != base:
                between = list(added_between(self.store, base, latest))
                check_foreign_rows(between, _starts(messages), self.store.name)
                if layout.mode is BucketMode.CROSS_PARTITION and any(message.new_files for message in messages):
                    check_foreign_keys(between, self.store.name)
            return changes

        return check

    def _rewrite_check(self, changes: Changes) -> Callable[..., Changes]:
        def check(latest: Snapshot | None, first: bool) -> Changes:
            return self._checked_rewrite(changes, latest)

        return check

    def _vectors_check(self, changes: Changes, read_at: int) -> Callable[..., Changes]:
        """In a table without keys rows are marked as deleted beside its compactions: a compaction that has not seen
        the newest marks of its buckets would bring rows back.
        """
        base = self.store.snapshots.find(read_at)
        rewritten = {(entry.partition, entry.bucket) for entry in changes.entries}

        def check(latest: Snapshot | None, first: bool) -> Changes:
            if not self._has_keys and _marks(self.store, base, rewritten) != _marks(self.store, latest, rewritten):
                raise CommitConflict("rows were deleted while they were compacted", table=self.store.name)
            return self._checked_rewrite(changes, latest)

        return check

    @property
    def _has_keys(self) -> bool:
        return bool(self.store.schema().primary_keys)

    def _checked_rewrite(self, changes: Changes, latest: Snapshot | None) -> Changes:
        layout = Layout.of(self.store.schema())
        live = live_entries(self.store, latest, partitions=changes.partitions) if latest else []
        check_deletes(live, changes.entries, self.store.name)
        if layout.has_keys:
            types = layout.key_types

            def ordered_key(key: bytes) -> tuple[object, ...]:
                return order_values(decode_row(key, types), types)

            check_levels(live, changes.entries, ordered_key, self.store.name)
        return changes

    def _overwrite_check(self, append: Changes, covers: Covers, base: Snapshot | None) -> Callable[..., Changes]:
        def check(latest: Snapshot | None, first: bool) -> Changes:
            if base is not None and latest is not None:
                self._check_unchanged(covers, base, latest)
            live = live_entries(self.store, latest) if latest else []
            gone = [_deleted(entry) for entry in live if covers(entry.partition)]
            old_index = index_entries(self.store, latest) if latest else []
            dropped = [_dropped(entry) for entry in old_index if covers(entry.partition)]
            return Changes(CommitKind.OVERWRITE, gone + append.entries, [], dropped + append.index)

        return check

    def _check_unchanged(self, covers: Covers, base: Snapshot, latest: Snapshot) -> None:
        for user, snapshot, entry in added_between(self.store, base.id, latest):
            if covers(entry.partition):
                raise CommitConflict(
                    f"{user!r} changed a partition that is being rewritten",
                    table=self.store.name,
                    snapshot=snapshot,
                    hint="do it again while no other job writes there",
                )


def _marks(store: TableStore, snapshot: Snapshot | None, buckets: set[Bucket]) -> set[str]:
    """The index files of these buckets."""
    if snapshot is None:
        return set()
    return {entry.name for entry in index_entries(store, snapshot) if (entry.partition, entry.bucket) in buckets}


def _starts(messages: Sequence[CommitMessage]) -> dict[tuple[bytes, int], tuple[int, int]]:
    return {
        (message.partition, message.bucket): (
            message.base_snapshot,
            min(file.min_sequence for file in message.new_files),
        )
        for message in messages
        if message.new_files
    }


def _deleted(entry: ManifestEntry) -> ManifestEntry:
    return ManifestEntry(FileKind.DELETE, entry.partition, entry.bucket, entry.total_buckets, entry.file)


def _dropped(entry: IndexEntry) -> IndexEntry:
    return IndexEntry(
        FileKind.DELETE, entry.partition, entry.bucket, entry.index_type, entry.name, entry.size, entry.row_count
    )
