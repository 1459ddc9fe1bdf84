"""Going back to an older snapshot (table-format 13.5)."""

from __future__ import annotations

from penstock.errors import CommitConflict
from penstock.table.maintain.tags import snapshot_or_tagged, tag_files
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_json import snapshot_json
from penstock.table.meta.store import TableStore
from penstock.table.storage.conditional_put import put_if_absent


def rollback_to(store: TableStore, target: int | str) -> Snapshot:
    """Make a snapshot, given by its id or by a tag, the newest again: what came after it is gone, tags included. One
    that has expired comes back from its tag.

    The data files of what is gone become orphans. Dies half way: readers see the target already; call it again. No one
    may write meanwhile, and what remembers snapshots by id has to forget them: the ids are given anew.
    """
    snapshot = tag_files(store).get(target).snapshot if isinstance(target, str) else snapshot_or_tagged(store, target)
    folder = store.snapshots.folder
    if not store.snapshots.exists(snapshot.id):
        # Only its tag is left of it. The hints lead to it past the later ones, which go next.
        created = put_if_absent(store.storage, folder.path(snapshot.id), snapshot_json(snapshot))
        if not created and store.snapshots.find(snapshot.id) != snapshot:
            raise CommitConflict(f"another job made snapshot {snapshot.id} meanwhile", table=store.name)
        folder.write_earliest(snapshot.id)
    folder.write_latest(snapshot.id)
    for later in reversed([number for number in folder.numbers() if number > snapshot.id]):
        store.storage.delete(folder.path(later))
    _roll_changelogs_back(store, snapshot.id)
    for tag in tag_files(store).all():
        if tag.snapshot.id > snapshot.id:
            tag_files(store).delete(tag.name)
    return snapshot


def _roll_changelogs_back(store: TableStore, snapshot_id: int) -> None:
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
