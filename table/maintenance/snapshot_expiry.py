"""Expiry of snapshots.

The order is: EARLIEST hint, snapshot file, then data. A reader sees a snapshot completely or not at all, and a crash
leaves orphans behind, never a snapshot without its files. Expiry needs no lock of the catalog: it creates no snapshot,
and a commit whose base expired meanwhile is tried again, or refused with HistoryExpired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from penstock.errors import TableCorrupt
from penstock.table.maintenance.changelog_expiry import has_changelog, present, with_changelogs_expired
from penstock.table.maintenance.file_deletion import ExpiryResult, UnusedFiles, sweep
from penstock.table.maintenance.kept_states import tagged, tags_around
from penstock.table.maintenance.reachable import has_delta_as_changelog, removed_entries, used_by_changelogs
from penstock.table.maintenance.retention import Retention
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.data_file import FileSource
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.snapshot_times import oldest, plausible_times
from penstock.table.meta.store import TableStore

# How long a job may be stopped and still recognise a batch that it committed before. See docs/decisions/0004.
WEEK = 7 * 24 * 3_600_000
# A bound on the files that a round reads. A user with no newer snapshot in this range only keeps more than
# necessary.
LOOK_AHEAD = 200
# An object store lists up to 1000 names by one request.
LISTED_AT_ONCE = 1000


def expire_snapshots(
    store: TableStore,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than: int | None = None,
    max_deletes: int | None = None,
    protect_users: int = WEEK,
    options: Mapping[str, str] | None = None,
) -> ExpiryResult:
    """Expire snapshots in one bounded round, by the table's options where arguments are None.

    `older_than` is in epoch millis.

    A consumer protects the snapshots it has not read, and the newest snapshot of each commit user is kept for
    `protect_users` milliseconds, because replayed commits are recognised by it. A further call continues where this one
    ended. Reads only the manifests of the expired snapshots, of tags and of branches.
    """
    now = store.ambient.now_millis()
    retention = Retention.of(
        {**store.schema().options, **(options or {})},
        most=retain_max,
        least=retain_min,
        millis=None if older_than is None else now - older_than,
        at_once=max_deletes,
    )
    return expire_by(store, retention, now, protect_users)


def expire_by(store: TableStore, retention: Retention, now: int, protect_users: int = WEEK) -> ExpiryResult:
    """Expire snapshots and long-lived changelogs by these limits; otherwise like `expire_snapshots`."""
    expired = _expire_snapshots(store, retention, now, protect_users)
    return with_changelogs_expired(store, retention, now, expired)


def _expire_snapshots(store: TableStore, retention: Retention, now: int, protect_users: int) -> ExpiryResult:
    ids = store.snapshots.ids()
    if not ids:
        return ExpiryResult()
    done = _expire(store, ids, retention, now, protect_users)
    return replace(done, listed=len(ids), is_limited=done.snapshots >= retention.at_once)


def _expire(store: TableStore, ids: Sequence[int], retention: Retention, now: int, protect_users: int) -> ExpiryResult:
    candidates = _candidates(store, ids, retention, now)
    candidates = _before_last_of_user(store, ids, candidates, now, protect_users)
    if not candidates:
        return ExpiryResult(ids[0], ids[0])
    end = _following(store, ids, candidates[-1].id)
    if end is None:
        return ExpiryResult(ids[0], ids[0])
    try:
        garbage = _garbage(store, candidates, end, retention)
    except TableCorrupt:
        if store.snapshots.exists(candidates[0].id):
            raise
        return ExpiryResult(ids[0], ids[0])  # another round runs at the same time and was faster
    # The hint first: from here on readers and other rounds begin at `end`.
    store.snapshots.folder.write_earliest(end.id)
    if store.snapshots.folder.goes_back_before(end.id):
        # A rollback has begun, which would leave the table without a snapshot. It writes its hint before it reads ours.
        store.snapshots.folder.write_earliest(ids[0])
        return ExpiryResult(ids[0], ids[0])
    for snapshot in candidates:
        # Before the snapshot is deleted, so that a streaming reader finds one or the other.
        if retention.decoupled and has_changelog(store, snapshot):
            store.snapshots.create_changelog(snapshot)
        store.storage.delete(store.snapshots.folder.path(snapshot.id))
    tags = tags_around(store, candidates[0].id, end.id)
    if store.snapshots.find(end.id) != end:
        # The table was rolled back to an older tag, which may be deleted by now: the files are left to orphan removal.
        return ExpiryResult(candidates[0].id, end.id)
    swept = sweep(
        store,
        garbage,
        snapshots=[end],
        tags=tags,
        unrelated=_beyond_gaps(store, ids, candidates[0].id, end),
        clean_folders=retention.clean_folders,
    )
    return ExpiryResult(candidates[0].id, end.id, 0, swept)


def expire_when_due(
    store: TableStore, retention: Retention, now: int, oldest_known: Snapshot | None
) -> tuple[ExpiryResult, Snapshot | None]:
    """Expire like `expire_by`, and return the oldest snapshot if there are many.

    With the one that the last round returned, the snapshots are listed only when it may expire: the time of a listing
    grows with their number, and a commit has little.
    """
    if oldest_known is not None and not _is_due(store, retention, now, oldest_known):
        unchanged = ExpiryResult(oldest_known.id, oldest_known.id)
        return with_changelogs_expired(store, retention, now, unchanged), oldest_known
    done = expire_by(store, retention, now)
    return done, store.snapshots.find(done.end) if done.listed > LISTED_AT_ONCE and not done.snapshots else None


def _is_due(store: TableStore, retention: Retention, now: int, oldest_known: Snapshot) -> bool:
    keep, latest = retention.snapshots, store.snapshots.latest_id()
    if latest is None or latest < oldest_known.id:  # rolled back, or created again
        return True
    too_many = keep.most is not None and latest - oldest_known.id >= keep.most
    return too_many or not now - keep.millis <= oldest_known.time_millis <= now


def _candidates(store: TableStore, ids: Sequence[int], retention: Retention, now: int) -> list[Snapshot]:
    """Return the snapshots that may expire, oldest first. `ids` may have gaps, such as Java's fast-forward leaves."""
    keep, earliest = retention.snapshots, ids[0]
    newest_kept = ids[-keep.least] if len(ids) >= keep.least else earliest
    end = _before_consumers(store, min(newest_kept, earliest + retention.at_once))
    # Older snapshots expire regardless of their time, because more than `most` would be kept with them.
    first_by_time = earliest if keep.most is None or len(ids) <= keep.most else ids[-keep.most]
    return oldest(
        present(store.snapshots.find, range(earliest, end), ids),
        lambda snapshot: snapshot.id < first_by_time or snapshot.time_millis < now - keep.millis,
        now,
    )


def _before_consumers(store: TableStore, end: int) -> int:
    """Return `end`, or before it the first snapshot that a consumer needs.

    That is the snapshot before an overwrite that it has yet to read: a stream may read the removed rows as deletes
    (`streaming-read-overwrite`), and their files expire with the snapshot before.
    """
    wanted = ConsumerFiles(store.storage, store.paths.root, store.paths.branch).least_next_snapshot()
    if wanted is None or wanted > end:
        return end
    snapshot = store.snapshots.find(wanted)
    removes = snapshot is not None and snapshot.commit_kind is CommitKind.OVERWRITE
    return wanted - 1 if removes and store.schema().primary_keys else wanted


def _following(store: TableStore, ids: Sequence[int], snapshot_id: int) -> Snapshot | None:
    """Return the next snapshot, across a gap in the ids if there is one."""
    found = store.snapshots.find(snapshot_id + 1)
    later = next((number for number in ids if number > snapshot_id), None)
    return found if found is not None or later is None else store.snapshots.find(later)


def _beyond_gaps(store: TableStore, ids: Sequence[int], first: int, end: Snapshot) -> list[Snapshot]:
    """Return newer states that may still use files an expired snapshot removed; empty when the ids have no gap.

    Behind a gap there is another history, in which such a file may still be live.
    """
    starts = [number for before, number in pairwise(ids) if number != before + 1 and number > first]
    if not starts:
        return []
    found = (store.snapshots.find(number) for number in starts if number > end.id)
    return [end, *(snapshot for snapshot in found if snapshot is not None), *tagged(store)]


def _before_last_of_user(
    store: TableStore, ids: Sequence[int], candidates: Sequence[Snapshot], now: int, protected: int
) -> list[Snapshot]:
    """Return the candidates before the first that is the newest of its commit user and not older than `protected`.

    The newer snapshot of a user is searched in the next LOOK_AHEAD snapshots only, so that a round stays bounded; a
    user without a snapshot there counts as having no newer one.
    """
    # Batch commits share one identifier, by which no repeated commit is recognised. They need no protection.
    last = {snapshot.commit_user: snapshot for snapshot in candidates if snapshot.commit_identifier != BATCH_IDENTIFIER}
    following = _following(store, ids, candidates[-1].id) if candidates else None
    times = plausible_times(candidates if following is None else [*candidates, following], now)
    open_users = {user for user, snapshot in last.items() if times[snapshot.id] >= now - protected}
    newest = candidates[-1].id if candidates else 0
    for snapshot_id in [number for number in ids if number > newest][:LOOK_AHEAD]:
        if not open_users:
            break
        snapshot = store.snapshots.find(snapshot_id)
        if snapshot is None:
            break
        if snapshot.commit_identifier != BATCH_IDENTIFIER:
            open_users.discard(snapshot.commit_user)
    stop = min((last[user].id for user in open_users), default=newest + 1)
    return [snapshot for snapshot in candidates if snapshot.id < stop]


def _garbage(store: TableStore, expired: Sequence[Snapshot], end: Snapshot, retention: Retention) -> UnusedFiles:
    """Return the files only expired snapshots need.

    A file that a snapshot removed was needed by its predecessor, so the range of snapshots to read is shifted by one.
    """
    garbage = UnusedFiles()
    # The first expired snapshot is left out: the files that it removed were deleted when its predecessor expired.
    for snapshot in (*expired[1:], end):
        removed = removed_entries(store, snapshot)
        if retention.decoupled and has_delta_as_changelog(store, snapshot):
            # The files of APPEND snapshots serve as changelog.
            removed = [entry for entry in removed if entry.file.source == FileSource.COMPACT]
        garbage.files += [(snapshot.id, entry) for entry in removed]
    for snapshot in expired:
        if retention.decoupled and has_delta_as_changelog(store, snapshot):
            # The delta is read as changelog, so its lists and manifests stay.
            garbage.metadata.add_index(store, snapshot)
        else:
            garbage.metadata.add_state(store, snapshot)
        if not retention.decoupled:
            garbage.changelog += garbage.metadata.add_changelog(store, snapshot)
    if garbage.metadata.manifests:
        garbage.metadata = garbage.metadata.without(used_by_changelogs(store))
    return garbage
