"""The states of a table that are kept: the snapshots, tags and long-lived changelogs of all its branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore, branch_names
from penstock.table.meta.tag_files import TagFiles


def tagged(store: TableStore) -> list[Snapshot]:
    """Return the tagged snapshots, oldest first."""
    return [tag.snapshot for tag in TagFiles(store.storage, store.paths.root, store.paths.branch).all()]


def nearest_before(tags: Iterable[Snapshot], snapshot_id: int) -> Snapshot | None:
    """Return the newest of `tags` (sorted, oldest first) that is older than the snapshot."""
    return next((tag for tag in reversed(list(tags)) if tag.id < snapshot_id), None)


def tags_around(store: TableStore, first: int, end: int) -> list[Snapshot]:
    """Return the tags that may use files of [first, end): the tags in the range, and the nearest one before it."""
    tags = tagged(store)
    before = nearest_before(tags, first)
    return ([before] if before is not None else []) + [tag for tag in tags if first <= tag.id < end]


def all_branches(store: TableStore) -> list[TableStore]:
    """Return the main branch and all others.

    A branch folder without a schema is being created or deleted, and uses no files.
    """
    names = [name for name in branch_names(store) if store.schemas.on_branch(name).ids()]
    # All branches store their manifests in one folder, so they can share a cache.
    return [replace(store.on_branch(name), cache=store.cache) for name in (None, *names)]


def other_branches(store: TableStore) -> list[TableStore]:
    """Return the branches other than this one.

    Their manifest lists are read once in this process: branches of one tag begin with the same ones. One that is gone
    meanwhile only keeps files for longer.
    """
    others = [branch for branch in all_branches(store) if branch.paths.branch_root != store.paths.branch_root]
    return [replace(branch, lists=store.lists, keeps_lists=True) for branch in others]


def snapshots_of(store: TableStore, listed: Iterable[int] | None = None) -> Iterator[Snapshot]:
    """Yield every snapshot, oldest first; one that expires in the meantime is skipped.

    `listed` is a listing made just now. A listing may lag behind the latest commits, and the files of a missing
    snapshot would be deleted as unused. So the hints are read too.
    """
    folder, ids = store.snapshots.folder, set(store.snapshots.ids() if listed is None else listed)
    first, last = folder.earliest_hint, folder.latest_hint()
    ids.update(hint for hint in (first, last) if hint is not None and (hint in ids or folder.exists(hint)))
    if ids:
        newest = max(ids)
        # There was no snapshot behind the hint when it was read.
        while newest != last and folder.exists(newest + 1):
            newest += 1
        ids.update(range(min(ids), newest + 1))
    found = (store.snapshots.find(snapshot_id) for snapshot_id in sorted(ids))
    return (snapshot for snapshot in found if snapshot is not None)


def changelogs_of(store: TableStore) -> Iterator[Snapshot]:
    """Yield every long-lived changelog, oldest first."""
    found = (store.snapshots.find_changelog(number) for number in store.snapshots.changelogs.numbers())
    return (snapshot for snapshot in found if snapshot is not None)
