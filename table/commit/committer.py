"""Commits of one user to one table: each identifier is committed once, however often it is requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import CommitConflict, ConfigError, PenstockError
from penstock.table.buckets.layout import Layout
from penstock.table.commit.attempt import AlreadyCommitted, Check, Identity, OnlyOnce, Retries, land
from penstock.table.commit.changes import Changes, append_half, compact_half
from penstock.table.commit.conflicts import (
    check_bucket_totals,
    check_deletes,
    check_levels,
    check_vectors,
    check_vectors_have_files,
)
from penstock.table.commit.foreign_writers import check_foreign_writers, check_not_overwritten
from penstock.table.compaction.lookup_names import drop_lookups
from penstock.table.meta.entries import DELETION_VECTORS, CommitMessage
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.commits import COMMIT_FORCE_CREATE_SNAPSHOT, SNAPSHOT_IGNORE_EMPTY_COMMIT
from penstock.table.values.binary_row import decode_row
from penstock.table.values.ordering import order_values

Covers = Callable[[bytes], bool]
Contents = frozenset[object]


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a commit.

    `lost_compaction` is the error that made the COMPACT half fail; the rows are committed nevertheless. `retries`
    counts the attempts that another writer was faster in. `already` is set when nothing was done: the user has
    committed the identifier before, and this is its newest snapshot.
    """

    snapshots: tuple[Snapshot, ...] = ()
    lost_compaction: PenstockError | None = None
    retries: int = 0
    already: Snapshot | None = None

    @property
    def last(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None


@dataclass(frozen=True, slots=True)
class Committer:
    """The commits of one commit user (`user` is the job), whose identifiers rise.

    The batch identifier marks commits without identifier and is never recognised as committed before.
    """

    store: TableStore
    user: str
    retries: Retries = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "retries", Retries.of(self.store.schema().options))

    def committed(self, identifier: int) -> Snapshot | None:
        """Return this user's newest snapshot if it committed `identifier` or a later one, else None."""
        return self._committed(identifier, None if identifier == BATCH_IDENTIFIER else self.store.snapshots.latest())

    def _committed(self, identifier: int, newest: Snapshot | None) -> Snapshot | None:
        snapshot = newest
        while snapshot is not None:
            if snapshot.commit_user == self.user and snapshot.commit_identifier != BATCH_IDENTIFIER:
                return snapshot if snapshot.commit_identifier >= identifier else None
            snapshot = self.store.snapshots.find(snapshot.id - 1)
        return None

    def _land_once(
        self, identity: Identity, check: Check, *, newest: Snapshot | None, second: bool = False
    ) -> Snapshot:
        """Commit an identifier that is not committed yet as of the snapshot `newest`.

        AlreadyCommitted when another process commits it at the same time.

        The second snapshot of a commit has the same identifier as the first. It is refused once the user has committed
        a later identifier: as the user's newest snapshot it would hide the later one.
        """
        if identity.identifier == BATCH_IDENTIFIER:
            return land(self.store, identity, self.retries, check)
        once = OnlyOnce(newest.id if newest else 0, identity.identifier + second)
        return land(self.store, identity, self.retries, check, once)

    def commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = BATCH_IDENTIFIER,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        force_empty: bool = False,
    ) -> Committed:
        """Make `messages` visible: new rows as an APPEND snapshot, the result of compaction as a COMPACT snapshot.

        Called again with an identifier this user already committed, it changes nothing. A crash between the two
        snapshots leaves the rows committed and the compaction undone, its files as orphans. Keeps the entries of the
        touched buckets in memory.
        """
        newest = self.store.snapshots.latest()
        if (already := self._committed(identifier, newest)) is not None:
            return Committed(already=already)
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

        empty = append.is_empty and compact.is_empty
        if not append.is_empty or force_empty or (empty and self._keeps_empty(identifier)):
            try:
                check = counted(self._append_check(append, messages))
                snapshots.append(self._land_once(identity, check, newest=newest))
            except AlreadyCommitted:
                return Committed(already=self.committed(identifier), retries=retries)
            newest = snapshots[-1]
        if compact.is_empty:
            return Committed(tuple(snapshots), retries=retries)
        try:
            snapshots.append(self._compact(identity, compact, messages, newest, counted, second=bool(snapshots)))
        except (CommitConflict, ConfigError) as lost:  # the rows are committed, whether or not the compaction is
            return Committed(tuple(snapshots), lost, retries)
        return Committed(tuple(snapshots), retries=retries)

    def _keeps_empty(self, identifier: int) -> bool:
        """Return whether a commit without rows makes a snapshot.

        Any commit does unless `snapshot.ignore-empty-commit`, and a commit with an identifier if
        `commit.force-create-snapshot` is set.
        """
        options = self.store.schema().typed
        if identifier != BATCH_IDENTIFIER and options[COMMIT_FORCE_CREATE_SNAPSHOT]:
            return True
        return options[SNAPSHOT_IGNORE_EMPTY_COMMIT] is False

    def compact(self, messages: Sequence[CommitMessage], after: Snapshot) -> Committed:
        """Commit only the result of compaction, as the second half of the commit whose newest snapshot is `after`.

        Used for a commit whose process died between its halves. When it is refused, the result has `lost_compaction`.
        """
        compact = compact_half(messages)
        if compact.is_empty:
            return Committed()
        try:
            identity = Identity(self.user, after.commit_identifier)
            return Committed((self._compact(identity, compact, messages, after, lambda check: check, second=True),))
        except (CommitConflict, ConfigError) as lost:
            return Committed(lost_compaction=lost)

    def _compact(
        self,
        identity: Identity,
        compact: Changes,
        messages: Sequence[CommitMessage],
        newest: Snapshot | None,
        counted: Callable[[Check], Check],
        *,
        second: bool,
    ) -> Snapshot:
        check = counted(self._compact_check(compact, messages, newest if second else None))
        snapshot = self._land_once(identity, check, newest=newest, second=second)
        drop_lookups(self.store, compact.removed)
        return snapshot

    def overwrite(
        self,
        messages: Sequence[CommitMessage],
        covers: Covers,
        identifier: int = BATCH_IDENTIFIER,
        *,
        properties: Mapping[str, str] | None = None,
        seen: Contents | None = None,
    ) -> Committed:
        """Replace everything in the partitions selected by `covers` with the new files, as one OVERWRITE snapshot.

        The result of compaction follows as a COMPACT snapshot, which may be lost as in `commit`. `seen` is what
        `contents` returned for these partitions: CommitConflict when they have changed since.
        """
        newest = self.store.snapshots.latest()
        if (already := self._committed(identifier, newest)) is not None:
            return Committed(already=already)
        identity = Identity(self.user, identifier, None, properties or {})
        append, compact = append_half(messages), compact_half(messages)
        try:
            overwritten = self._land_once(identity, self._overwrite_check(append, covers, seen), newest=newest)
        except AlreadyCommitted:
            return Committed(already=self.committed(identifier))
        if compact.is_empty:
            return Committed((overwritten,))
        try:
            check = self._compact_check(compact, messages, overwritten)
            compacted = self._land_once(identity, check, newest=overwritten, second=True)
        except (CommitConflict, ConfigError) as lost:  # the rows are committed, whether or not the compaction is
            return Committed((overwritten,), lost)
        return Committed((overwritten, compacted))

    def rewrite(self, changes: Changes, identifier: int = BATCH_IDENTIFIER) -> Committed:
        """Commit changes that delete files: CommitConflict when one of the files has been deleted already."""
        newest = self.store.snapshots.latest()
        already = self._committed(identifier, newest)
        if changes.is_empty or already is not None:
            return Committed(already=already)
        try:
            check = self._rewrite_check(changes)
            return Committed((self._land_once(Identity(self.user, identifier), check, newest=newest),))
        except AlreadyCommitted:
            return Committed(already=self.committed(identifier))

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
            if layout.has_keys:
                check_foreign_writers(self.store, layout, messages, latest)
            return changes

        return check

    def _rewrite_check(self, changes: Changes) -> Callable[..., Changes]:
        def check(latest: Snapshot | None, first: bool) -> Changes:
            return self._checked_rewrite(changes, latest)

        return check

    def _compact_check(
        self, changes: Changes, messages: Sequence[CommitMessage], own: Snapshot | None
    ) -> Callable[..., Changes]:
        """Return the check of a COMPACT half; `own` is the first half of the same commit, if it has one."""

        def check(latest: Snapshot | None, first: bool) -> Changes:
            if self.store.schema().primary_keys:
                check_not_overwritten(self.store, messages, latest, own)
            index = index_entries(self.store, latest) if latest else []
            check_vectors(index, messages, self.store.name)
            return self._checked_rewrite(changes, latest)

        return check

    def _checked_rewrite(self, changes: Changes, latest: Snapshot | None) -> Changes:
        layout = Layout.of(self.store.schema())
        live = live_entries(self.store, latest, partitions=changes.partitions) if latest else []
        check_deletes(live, changes.entries, self.store.name)
        check_vectors_have_files(live, changes.entries, changes.index, self.store.name)
        if layout.has_keys:
            types = layout.key_types

            def ordered_key(key: bytes) -> tuple[object, ...]:
                return order_values(decode_row(key, types), types)

            check_levels(live, changes.entries, ordered_key, self.store.name)
        return changes

    def _overwrite_check(self, append: Changes, covers: Covers, seen: Contents | None) -> Callable[..., Changes]:
        def check(latest: Snapshot | None, first: bool) -> Changes:
            if seen is not None and contents(self.store, latest, covers) != seen:
                raise CommitConflict(
                    "another job changed a partition that is being rewritten",
                    table=self.store.name,
                    snapshot=latest.id if latest else None,
                    hint="do it again while no other job writes there",
                )
            live = live_entries(self.store, latest) if latest else []
            gone = [entry.deleted() for entry in live if covers(entry.partition)]
            old_index = index_entries(self.store, latest) if latest else []
            dropped = [entry.deleted() for entry in old_index if covers(entry.partition)]
            return Changes(CommitKind.OVERWRITE, gone + append.entries, [], dropped + append.index)

        return check


def contents(store: TableStore, snapshot: Snapshot | None, covers: Covers) -> Contents:
    """Return the identities of these partitions' files, to detect whether they change.

    These are the data files and the files of deletion vectors.
    """
    if snapshot is None:
        return frozenset()
    files = (entry.identity for entry in live_entries(store, snapshot) if covers(entry.partition))
    index = (entry for entry in index_entries(store, snapshot) if entry.index_type == DELETION_VECTORS)
    return frozenset((*files, *(entry.name for entry in index if covers(entry.partition))))
