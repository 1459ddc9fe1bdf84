"""Rollback to an older snapshot."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import CommitConflict
from penstock.storage.base import put_if_absent
from penstock.table.errors import SnapshotMissing
from penstock.table.iceberg.publication import publish_if_enabled
from penstock.table.maintenance.tags import snapshot_or_tagged, tag_files
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.snapshot import Snapshot, snapshot_json
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import Tag

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """The effect of a rollback or fast-forward.

    It removes snapshots and tags, and sets back the consumers that had read beyond the target, each to its snapshot in
    `consumers`.
    """

    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    consumers: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, store: TableStore, snapshots: Sequence[int], tags: Sequence[Tag], next_id: int) -> RollbackResult:
        """Collect the snapshots and files to undo; `next_id` is the first snapshot id that will be assigned again."""
        return cls(
            tuple(snapshots), tuple(tag.name for tag in tags), dict.fromkeys(_consumers_after(store, next_id), next_id)
        )

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.tags or self.consumers)

    def __str__(self) -> str:
        parts = []
        if self.snapshots:
            first, last = self.snapshots[0], self.snapshots[-1]
            parts.append(f"removed snapshots {first} to {last}" if first < last else f"removed snapshot {first}")
        if self.tags:
            parts.append(f"removed tags {', '.join(self.tags)}")
        parts += [f"set consumer {name} back to snapshot {number}" for name, number in self.consumers.items()]
        return "; ".join(parts)


def undone_by_rollback(store: TableStore, target: int | str) -> RollbackResult:
    """Return what `rollback_to` the same target would remove; changes nothing."""
    return _undone(store, _found(store, target))


def rollback_to(store: TableStore, target: int | str) -> Snapshot:
    """Make a snapshot, given by id or tag, the newest again: everything after it is removed, tags included.

    A snapshot that has expired is restored from its tag.

    The data files of removed snapshots become orphans. Later ids are assigned again, so consumers that had read them
    are set back to the first of them. Snapshots are removed newest first, and readers see the newest that is left.
    After a crash half way this is a snapshot in between, and a second call completes the rollback. No job may write in
    the meantime: a lock of the catalog keeps single commits out, but a job may still build its next commit on a
    snapshot that is gone.
    """
    with store.commits.exclusive(store):
        snapshot = _found(store, target)
        undone = _undone(store, snapshot)
        if store.commits.versions is not None:
            store.commits.versions.rollback_to(store, target)
        else:
            _delete_after(store, snapshot)
        set_consumers_back(store, snapshot.id + 1)
    store.commits.follow_history(store, removed=undone.tags)
    publish_if_enabled(store)
    if undone:
        log.warning("event=rolled_back table=%s snapshot=%d note=%s", store.name, snapshot.id, undone)
    return snapshot


def _delete_after(store: TableStore, snapshot: Snapshot) -> None:
    folder = store.snapshots.folder
    restored, newest = not store.snapshots.exists(snapshot.id), folder.latest()
    if restored:
        _restore(store, snapshot)
    folder.write_latest(snapshot.id)
    # Expiry writes the hint EARLIEST and then reads LATEST; a rollback does the reverse. So at least one of them
    # notices the other, and changes nothing.
    if folder.begins_after(snapshot.id):
        if restored:
            store.storage.delete(folder.path(snapshot.id))
        folder.write_latest(newest or snapshot.id)
        raise SnapshotMissing(
            f"snapshot {snapshot.id} is being deleted by an expiry of snapshots",
            table=store.name,
            hint="wait until it has ended; if it was interrupted, expire snapshots once more",
        )
    # Newest first, so that after a crash the snapshots that are left are a history without gaps.
    for later in reversed([number for number in folder.numbers() if number > snapshot.id]):
        store.storage.delete(folder.path(later))
    delete_changelogs_after(store, snapshot.id)
    for tag in tag_files(store).all():
        if tag.snapshot.id > snapshot.id:
            tag_files(store).delete(tag.name)


def _restore(store: TableStore, snapshot: Snapshot) -> None:
    """Create the file of an expired snapshot again, from its tag."""
    folder = store.snapshots.folder
    # The hints point to it, past the later snapshots, which are deleted next.
    folder.write_earliest(snapshot.id)
    created = put_if_absent(store.storage, folder.path(snapshot.id), snapshot_json(snapshot))
    if not created and store.snapshots.find(snapshot.id) != snapshot:
        raise CommitConflict(
            f"another job committed snapshot {snapshot.id} in the meantime",
            table=store.name,
            hint="stop the writers of the table, then roll back again",
        )
    if all(tag.snapshot != snapshot for tag in tag_files(store).all()):
        # Its files may be deleted already. Whoever deletes the tag from now on finds the snapshot.
        store.storage.delete(folder.path(snapshot.id))
        raise SnapshotMissing(f"snapshot {snapshot.id} expired, or its tag was deleted, meanwhile", table=store.name)


def _found(store: TableStore, target: int | str) -> Snapshot:
    return tag_files(store).get(target).snapshot if isinstance(target, str) else snapshot_or_tagged(store, target)


def _undone(store: TableStore, snapshot: Snapshot) -> RollbackResult:
    later = [number for number in store.snapshots.ids() if number > snapshot.id]
    tags = [tag for tag in tag_files(store).all() if tag.snapshot.id > snapshot.id]
    return RollbackResult.of(store, later, tags, snapshot.id + 1)


def set_consumers_back(store: TableStore, next_id: int) -> None:
    """Let the consumers that have read the snapshot `next_id` or later ones read it next."""
    for name in _consumers_after(store, next_id):
        _consumer_files(store).put(name, next_id)


def _consumers_after(store: TableStore, next_id: int) -> list[str]:
    return [consumer.id for consumer in _consumer_files(store).all() if consumer.next_snapshot > next_id]


def _consumer_files(store: TableStore) -> ConsumerFiles:
    return ConsumerFiles(store.storage, store.paths.root, store.paths.branch)


def delete_changelogs_after(store: TableStore, snapshot_id: int) -> None:
    """Delete the long-lived changelogs of later snapshots, newest first, after correcting the hints."""
    folder = store.snapshots.changelogs
    numbers = folder.numbers()
    later = [number for number in numbers if number > snapshot_id]
    if not later:
        return
    left = [number for number in numbers if number <= snapshot_id]
    if left:
        folder.write_latest(left[-1])
    else:
        folder.delete_hints()
    for number in reversed(later):
        store.storage.delete(folder.path(number))
