"""Expiry of changelogs that outlived their snapshots."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace

from penstock.table.maintenance.file_deletion import ExpiryResult, SweepResult, UnusedFiles, sweep
from penstock.table.maintenance.kept_states import tags_around
from penstock.table.maintenance.reachable import ReferencedFiles, has_delta_as_changelog, removed_entries
from penstock.table.maintenance.retention import Retention, RetentionRule
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.live import changelog_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_times import oldest
from penstock.table.meta.store import TableStore


def expire_changelogs(
    store: TableStore,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than: int | None = None,
    max_deletes: int | None = None,
    delete_all: bool = False,
) -> ExpiryResult:
    """Expire, in one bounded round, changelogs that outlived their snapshots.

    Arguments that are None are replaced by the table's `changelog.*` options; no snapshot is touched. With `delete_all`
    every changelog is deleted, even if readers still need it.
    """
    now, folder = store.ambient.now_millis(), store.snapshots.changelogs
    if delete_all:
        gone = [found for number in folder.numbers() if (found := store.snapshots.find_changelog(number)) is not None]
        return ExpiryResult(changelogs=len(gone), swept=_expire_changelogs(store, gone, ())) if gone else ExpiryResult()
    retention = Retention.of(store.schema().options, at_once=max_deletes)
    kept = retention.changelogs
    keep = RetentionRule(
        kept.least if retain_min is None else retain_min,
        kept.most if retain_max is None else retain_max,
        kept.millis if older_than is None else now - older_than,
    )
    return with_changelogs_expired(store, replace(retention, changelogs=keep, snapshots=keep), now, ExpiryResult())


def with_changelogs_expired(store: TableStore, retention: Retention, now: int, expired: ExpiryResult) -> ExpiryResult:
    """Expire changelogs that outlived their snapshots by the same retention."""
    numbers, latest = store.snapshots.changelogs.numbers(), store.snapshots.latest_id()
    if latest is None or not numbers:
        return expired
    keep = retention.changelogs if retention.decoupled else retention.snapshots
    end = before_consumers(store, min(latest - keep.least + 1, numbers[0] + retention.at_once))
    # Older changelogs expire regardless of their time, because more than `most` would be kept with them.
    first_by_time = numbers[0] if keep.most is None else latest - keep.most + 1
    # Only up to the first changelog that is kept, so that the numbers have no gap.
    gone = oldest(
        present(store.snapshots.find_changelog, [number for number in numbers if number < end], numbers),
        lambda snapshot: snapshot.id < first_by_time or snapshot.time_millis < now - keep.millis,
        now,
    )
    if not gone:
        return expired
    swept = _expire_changelogs(store, gone, numbers[len(gone) :])
    is_limited = expired.is_limited or len(gone) >= retention.at_once
    return replace(expired, changelogs=len(gone), swept=expired.swept + swept, is_limited=is_limited)


def present(
    find: Callable[[int], Snapshot | None], wanted: Iterable[int], listed: Container[int]
) -> Iterator[Snapshot]:
    """Yield the snapshots up to one that another round has just deleted. A number that `listed` lacks is in a gap."""
    for number in wanted:
        snapshot = find(number)
        if snapshot is not None:
            yield snapshot
        elif number in listed:
            return


def _expire_changelogs(store: TableStore, gone: Sequence[Snapshot], left: Sequence[int]) -> SweepResult:
    folder, kept = store.snapshots.changelogs, ReferencedFiles()
    earliest = store.snapshots.find(store.snapshots.earliest_id() or 0)
    following = store.snapshots.find_changelog(left[0]) if left else earliest
    garbage = _changelog_garbage(store, [*gone, following] if following is not None else gone)
    for snapshot in gone:
        garbage.metadata.add_remaining_lists(store, snapshot)
    if left and following is not None:
        # The hint first, as for snapshots: readers then begin behind everything that is deleted next.
        folder.write_earliest(following.id)
        kept.add_long_lived(store, following)  # the next changelog may use some of the same manifests
    for snapshot in gone:
        store.storage.delete(folder.path(snapshot.id))
    if not left:
        folder.delete_hints()
    garbage.metadata = garbage.metadata.without(kept)
    # The next one may have removed files of tags in between: a fast-forward may leave a gap.
    end = gone[-1].id + 1 if following is None else following.id
    return sweep(
        store,
        garbage,
        snapshots=[earliest] if earliest is not None else [],
        tags=tags_around(store, gone[0].id, end),
    )


def _changelog_garbage(store: TableStore, snapshots: Sequence[Snapshot]) -> UnusedFiles:
    """Return the changelog files of all snapshots but the last.

    Where data files serve as changelog, a file that a snapshot removed was part of an older snapshot's changes.
    """
    garbage = UnusedFiles()
    for place, snapshot in enumerate(snapshots):
        last = place == len(snapshots) - 1
        if not last and _is_there(store, snapshot.changelog_manifest_list):
            garbage.changelog += changelog_entries(store, snapshot)
        if has_delta_as_changelog(store, snapshot) and _is_there(store, snapshot.delta_manifest_list):
            garbage.files += [(snapshot.id, entry) for entry in removed_entries(store, snapshot)]
    return garbage


def has_changelog(store: TableStore, snapshot: Snapshot) -> bool:
    """Return whether the snapshot has a changelog to keep: one restored from a tag may lack its changelog."""
    return snapshot.changelog_manifest_list is None or _is_there(store, snapshot.changelog_manifest_list)


def _is_there(store: TableStore, name: str | None) -> bool:
    return name is not None and store.storage.exists(store.paths.manifest(name))


def before_consumers(store: TableStore, end: int) -> int:
    """Return `end`, or the first snapshot that a consumer has not read if that is before it."""
    wanted = ConsumerFiles(store.storage, store.paths.root, store.paths.branch).least_next_snapshot()
    return end if wanted is None else min(end, wanted)
