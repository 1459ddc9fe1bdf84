"""Commits of one user to one table: each identifier is committed once, however often it is requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from penstock.errors import CommitConflict, ConfigError, PenstockError
from penstock.table.commit.attempt import Check, Retries, commit_snapshot
from penstock.table.commit.changes import CommitChanges, append_half, compact_half
from penstock.table.commit.commit_checks import CommitChecks, Contents, Covers
from penstock.table.commit.identity import AlreadyCommitted, Identity, OnlyOnce
from penstock.table.compaction.lookup_store import drop_lookups
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.commits import COMMIT_FORCE_CREATE_SNAPSHOT, SNAPSHOT_IGNORE_EMPTY_COMMIT


@dataclass(frozen=True, slots=True)
class CommittedSnapshots:
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


@dataclass(slots=True)
class _Attempts:
    """The attempts of a commit: those after the first attempt of a snapshot are retries."""

    retries: int = 0

    def counted(self, check: Check) -> Check:
        """Return a check that counts each attempt which asks it."""

        def ask(latest: Snapshot | None, first: bool) -> CommitChanges:
            self.retries += not first
            return check(latest, first)

        return ask


@dataclass(frozen=True, slots=True)
class Committer:
    """The commits of one commit user (`user` is the job), whose identifiers rise.

    The batch identifier marks commits without identifier and is never recognised as committed before.
    """

    store: TableStore
    user: str

    @property
    def retries(self) -> Retries:
        return Retries.of(self.store.schema_last_read().options)

    @property
    def _checks(self) -> CommitChecks:
        return CommitChecks(self.store)

    def committed(self, identifier: int, newest: Snapshot | None = None) -> Snapshot | None:
        """Return this user's newest snapshot if it committed `identifier` or a later one, else None.

        `newest` is the newest snapshot if the caller has just read it.
        """
        # Many commits have the batch identifier, so it proves nothing, and no snapshot need be read.
        if identifier == BATCH_IDENTIFIER:
            return None
        found = self.newest_own(newest)
        # The identifiers of a user rise, so the newest one decides.
        return found if found is not None and found.commit_identifier >= identifier else None

    def newest_own(self, newest: Snapshot | None = None) -> Snapshot | None:
        """Return this user's newest snapshot that has an identifier. `newest` is as in `committed`."""
        # The search ends at the first expired snapshot. Expiry keeps the newest snapshot of each commit user for a
        # week.
        for snapshot in self.store.snapshots.newest_first(newest):
            if snapshot.commit_user == self.user and snapshot.commit_identifier != BATCH_IDENTIFIER:
                return snapshot
        return None

    def _commit_once(
        self, identity: Identity, check: Check, *, newest: Snapshot | None, second: bool = False
    ) -> Snapshot:
        """Commit an identifier that is not committed yet as of the snapshot `newest`.

        AlreadyCommitted when another process commits it at the same time.

        The second snapshot of a commit has the same identifier as the first. It is refused once the user has committed
        a later identifier: as the user's newest snapshot it would hide the later one.
        """
        if identity.identifier == BATCH_IDENTIFIER:
            return commit_snapshot(self.store, identity, self.retries, check, None, None if second else newest)
        # The first half has this identifier, so for the second half only later ones (by 1 or more) are refused.
        once = OnlyOnce(newest.id if newest else 0, identity.identifier + second)
        # A second half reads the newest snapshot again: the first half has taken its time.
        return commit_snapshot(self.store, identity, self.retries, check, once, None if second else newest)

    def commit(
        self,
        messages: Sequence[CommitMessage],
        identifier: int = BATCH_IDENTIFIER,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        force_empty: bool = False,
        newest: Snapshot | None = None,
    ) -> CommittedSnapshots:
        """Make `messages` visible: new rows as an APPEND snapshot, the result of compaction as a COMPACT snapshot.

        Called again with an identifier this user already committed, it changes nothing. A crash between the two
        snapshots leaves the rows committed and the compaction undone, its files as orphans. Keeps the entries of the
        touched buckets in memory. `newest` is the newest snapshot if the caller has just read it, and `committed` as of
        it has returned None.
        """
        if newest is None:
            newest = self.store.snapshots.latest()
            if (already := self.committed(identifier, newest)) is not None:
                return CommittedSnapshots(already=already)
        identity = Identity(self.user, identifier, watermark, properties or {})
        append, compact = append_half(messages), compact_half(messages)
        snapshots, attempts = [], _Attempts()
        # The APPEND half comes first and has all new files: the rows are complete even if the compaction is lost.
        first = not append.is_empty or force_empty or (compact.is_empty and self._keeps_empty(identifier))
        with self._halves(both=first and not compact.is_empty) as by:
            if first:
                try:
                    check = attempts.counted(self._checks.append(append, messages))
                    snapshots.append(by._commit_once(identity, check, newest=newest))
                except AlreadyCommitted:
                    return CommittedSnapshots(already=self.committed(identifier), retries=attempts.retries)
                newest = snapshots[-1]
            if compact.is_empty:
                return CommittedSnapshots(tuple(snapshots), retries=attempts.retries)
            try:
                snapshots.append(by._compact(identity, compact, messages, newest, attempts, second=first))
            except (CommitConflict, ConfigError) as lost:  # the rows are committed, whether or not the compaction is
                return CommittedSnapshots(tuple(snapshots), lost, attempts.retries)
        return CommittedSnapshots(tuple(snapshots), retries=attempts.retries)

    @contextmanager
    def _halves(self, *, both: bool) -> Iterator[Committer]:
        """Yield the committer of a commit. The hint LATEST of both halves is written once, after the second."""
        if not both:
            yield self
            return
        snapshots = self.store.snapshots.for_two_halves()
        try:
            yield replace(self, store=replace(self.store, snapshots=snapshots))
        finally:
            snapshots.settle_hint()

    def _keeps_empty(self, identifier: int) -> bool:
        """Return whether a commit without rows makes a snapshot.

        Any commit does unless `snapshot.ignore-empty-commit`, and a commit with an identifier if
        `commit.force-create-snapshot` is set.
        """
        options = self.store.schema().typed
        if identifier != BATCH_IDENTIFIER and options[COMMIT_FORCE_CREATE_SNAPSHOT]:
            return True
        return options[SNAPSHOT_IGNORE_EMPTY_COMMIT] is False

    def compact(self, messages: Sequence[CommitMessage], after: Snapshot) -> CommittedSnapshots:
        """Commit only the result of compaction, as the second half of the commit whose newest snapshot is `after`.

        Used for a commit whose process died between its halves. When it is refused, the result has `lost_compaction`.
        """
        compact = compact_half(messages)
        if compact.is_empty:
            return CommittedSnapshots()
        try:
            identity = Identity(self.user, after.commit_identifier)
            return CommittedSnapshots((self._compact(identity, compact, messages, after, _Attempts(), second=True),))
        except (CommitConflict, ConfigError) as lost:
            return CommittedSnapshots(lost_compaction=lost)

    def _compact(
        self,
        identity: Identity,
        compact: CommitChanges,
        messages: Sequence[CommitMessage],
        newest: Snapshot | None,
        attempts: _Attempts,
        *,
        second: bool,
    ) -> Snapshot:
        check = attempts.counted(self._checks.compact(compact, messages, newest if second else None))
        snapshot = self._commit_once(identity, check, newest=newest, second=second)
        # After the commit: had it been refused, the files would still be live, and their lookups needed.
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
        newest: Snapshot | None = None,
    ) -> CommittedSnapshots:
        """Replace everything in the partitions selected by `covers` with the new files, as one OVERWRITE snapshot.

        The result of compaction follows as a COMPACT snapshot, which may be lost as in `commit`. `seen` is what
        `contents` returned for these partitions: CommitConflict when they have changed since. `newest` is as in
        `commit`.
        """
        if newest is None:
            newest = self.store.snapshots.latest()
            if (already := self.committed(identifier, newest)) is not None:
                return CommittedSnapshots(already=already)
        identity = Identity(self.user, identifier, None, properties or {})
        append, compact = append_half(messages), compact_half(messages)
        with self._halves(both=not compact.is_empty) as by:
            try:
                check = self._checks.overwrite(append, messages, covers, seen)
                overwritten = by._commit_once(identity, check, newest=newest)
            except AlreadyCommitted:
                return CommittedSnapshots(already=self.committed(identifier))
            if compact.is_empty:
                return CommittedSnapshots((overwritten,))
            try:
                compacted = by._compact(identity, compact, messages, overwritten, _Attempts(), second=True)
            except (CommitConflict, ConfigError) as lost:  # the rows are committed, whether or not the compaction is
                return CommittedSnapshots((overwritten,), lost)
        return CommittedSnapshots((overwritten, compacted))

    def rewrite(self, changes: CommitChanges, identifier: int = BATCH_IDENTIFIER) -> CommittedSnapshots:
        """Commit changes that delete files: CommitConflict when one of the files has been deleted already."""
        newest = self.store.snapshots.latest()
        already = self.committed(identifier, newest)
        if changes.is_empty or already is not None:
            return CommittedSnapshots(already=already)
        try:
            check = self._checks.rewrite(changes)
            return CommittedSnapshots((self._commit_once(Identity(self.user, identifier), check, newest=newest),))
        except AlreadyCommitted:
            return CommittedSnapshots(already=self.committed(identifier))
