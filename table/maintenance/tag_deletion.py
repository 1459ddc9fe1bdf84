"""The deletion and expiry of tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from penstock.table.iceberg.publication import publish_if_enabled
from penstock.table.maintenance.file_deletion import NEVER, SweepResult, UnusedFiles, sweep_tagged
from penstock.table.maintenance.kept_states import nearest_before
from penstock.table.maintenance.reachable import used_by_changelogs
from penstock.table.maintenance.tags import NANOS_PER_MILLI, success_path, tag_files, writes_success_file
from penstock.table.meta.entries import FileKind
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import Tag

# All other tags are read after some are deleted, so these are many; their files are in memory meanwhile.
MOST_TAGS = 500
MOST_FILES = 100_000


def delete_tag(store: TableStore, name: str) -> SweepResult:
    """Delete the tag, and the files that only it used. TagMissing when it does not exist."""
    tag = tag_files(store).get(name)
    if not store.snapshots.exists(tag.snapshot.id):
        return delete_tags(store, [name])
    # The snapshot has all files of the tag, so that the other tags need not be read.
    _remove(store, [name])
    return SweepResult()


def delete_tags(store: TableStore, names: Iterable[str]) -> SweepResult:
    """Delete these tags as far as they exist, and the files that only they used."""
    left, swept = list(dict.fromkeys(names)), SweepResult()
    while left:
        taken, of_these = _delete_first(store, left)
        left, swept = left[taken:], swept + of_these
    return swept


def _delete_first(store: TableStore, names: Sequence[str]) -> tuple[int, SweepResult]:
    """Delete the first of these tags; return how many they were, and what was deleted of their files."""
    taken, garbage = _garbage(store, names[:MOST_TAGS])
    _remove(store, names[:taken])
    # Other tags of these snapshots are seen now, also those created in the meantime; one created later does not find
    # the snapshots any more. The same holds for a rollback to one of these.
    tags = [tag.snapshot for tag in tag_files(store).all()] if garbage else []
    kept = {snapshot.id for snapshot in tags}
    swept = sweep_tagged(
        store,
        (
            (unused, _neighbours(store, snapshot, tags))
            for snapshot, unused in garbage
            if snapshot.id not in kept and not store.snapshots.exists(snapshot.id)
        ),
    )
    return taken, swept


def _remove(store: TableStore, names: Sequence[str]) -> None:
    for name in names:
        tag_files(store).delete(name)
        if writes_success_file(store):
            store.storage.delete(success_path(store, name))
    store.commits.follow_tags(store, removed=names)
    publish_if_enabled(store)


def _garbage(store: TableStore, names: Sequence[str]) -> tuple[int, list[tuple[Snapshot, UnusedFiles]]]:
    """Return how many of the tags to delete at once, and the snapshots that exist only as tags, with their files.

    Other tags are not read: a snapshot that has one is returned too.
    """
    found = (tag_files(store).find(name) for name in names)
    tags = {tag.name: tag for tag in found if tag is not None}
    uses, garbage, files = Counter(tag.snapshot.id for tag in tags.values()), list[tuple[Snapshot, UnusedFiles]](), 0
    for taken, name in enumerate(names):
        if files > MOST_FILES:
            return taken, garbage
        if name not in tags:
            continue
        snapshot = tags[name].snapshot
        uses[snapshot.id] -= 1
        if not uses[snapshot.id] and not store.snapshots.exists(snapshot.id):
            garbage.append((snapshot, _unused_without(store, snapshot)))
            files += len(garbage[-1][1].files)
    return len(names), garbage


def _unused_without(store: TableStore, snapshot: Snapshot) -> UnusedFiles:
    """Return the files of a snapshot that exists only as a tag, without those that long-lived changelogs need."""
    garbage, kept = UnusedFiles(), used_by_changelogs(store)
    added = {entry.file.name for entry in kept.entries(store) if entry.kind is FileKind.ADD}
    garbage.metadata.add_state(store, snapshot)
    garbage.metadata = garbage.metadata.without(kept)
    garbage.files = [(NEVER, entry) for entry in live_entries(store, snapshot) if entry.file.name not in added]
    return garbage


def _neighbours(store: TableStore, snapshot: Snapshot, tags: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the nearest states before and after a snapshot that exists only as a tag.

    A file that neither uses is used by no other state, because a deleted file never becomes live again.
    """
    before = nearest_before(tags, snapshot.id)
    after = [tag for tag in tags if tag.id > snapshot.id][:1]
    earliest = store.snapshots.find(store.snapshots.earliest_id() or 0)
    if earliest is not None and earliest.id > snapshot.id:
        after.append(earliest)
    return ([before] if before is not None else []) + after


def expire_tags(store: TableStore, most: int | None = None, *, older_than: int | None = None) -> list[str]:
    """Delete the tags whose time is over, and those created before `older_than` (epoch millis).

    Tags of the oldest snapshots are deleted first, `most` at a time; returns their names. For tags without retention
    the file's modification time counts as creation.
    """
    now = store.ambient.local_millis() * NANOS_PER_MILLI
    tags = tag_files(store).all()
    over = {tag.name for tag in tags if _is_over(tag, now)}
    if older_than is not None:
        over |= _made_before(store, tags, older_than)
    chosen = [tag.name for tag in tags if tag.name in over][:most]
    delete_tags(store, chosen)
    return chosen


def _made_before(store: TableStore, tags: Iterable[Tag], millis: int) -> set[str]:
    written, wall = tag_files(store).written(), (millis + store.ambient.zone_offset_millis(millis)) * NANOS_PER_MILLI
    return {
        tag.name
        for tag in tags
        if (tag.created_nanos < wall if tag.created_nanos is not None else 0 < written.get(tag.name, 0) < millis)
    }


def _is_over(tag: Tag, now: int) -> bool:
    if tag.created_nanos is None or tag.retained_nanos is None:
        return False
    return tag.created_nanos + tag.retained_nanos < now
