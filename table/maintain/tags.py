"""Snapshots kept by name, made and given up (table-format 13.4)."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.maintain.reachable import held_by_changelogs, nearest_before, tagged
from penstock.table.maintain.success_files import write_success
from penstock.table.maintain.sweep import NEVER, Garbage, Swept, sweep
from penstock.table.meta.entries import FileKind
from penstock.table.meta.errors import SnapshotMissing
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import Tag, TagFiles
from penstock.table.schema.options import Options

NANOS_PER_MILLI = 1_000_000


def tag_files(store: TableStore) -> TagFiles:
    return TagFiles(store.storage, store.paths.root, store.paths.branch)


def create_tag(store: TableStore, name: str, snapshot_id: int | None = None, retain_millis: int | None = None) -> Tag:
    """Tag a snapshot, the latest when none is named. It ends by itself `retain_millis` from now, if that is given.

    Called again with the same name: ConfigError. A snapshot that expires while it is tagged is not tagged.
    """
    snapshot = store.snapshots.latest() if snapshot_id is None else store.snapshots.get(snapshot_id)
    if snapshot is None:
        raise SnapshotMissing("there is no snapshot to tag: the table has none", table=store.name)
    if retain_millis is None:
        retain_millis = Options(store.schema().options).duration("tag.default-time-retained", None)
    tag = Tag(name, snapshot)
    if retain_millis is not None:
        created = store.ambient.local_millis() * NANOS_PER_MILLI
        tag = Tag(name, snapshot, created, retain_millis * NANOS_PER_MILLI)
    files = tag_files(store)
    if not files.create(tag):
        raise ConfigError(f"there is a tag {name!r} already", table=store.name, snapshot=files.get(name).snapshot.id)
    # Expiry deletes a snapshot's file before it looks for tags: where the file still stands, it will see this one.
    if store.snapshots.find(snapshot.id) != snapshot:
        files.delete(name)
        raise SnapshotMissing(f"snapshot {snapshot.id} expired while it was being tagged", table=store.name, tag=name)
    if _tells_success(store):
        write_success(store, _success_path(store, name))
    return tag


def _tells_success(store: TableStore) -> bool:
    return Options(store.schema().options).boolean("tag.create-success-file", default=False)


def _success_path(store: TableStore, name: str) -> str:
    return f"{store.paths.tag_folder}/tag-success-file/{name}_SUCCESS"


def delete_tag(store: TableStore, name: str) -> Swept:
    """Give the tag up, and the files that only it held. TagMissing when there is none."""
    files = tag_files(store)
    snapshot = files.get(name).snapshot
    tags = tagged(store)
    alone = not store.snapshots.exists(snapshot.id) and [tag.id for tag in tags].count(snapshot.id) == 1
    garbage = Garbage()
    if alone:
        kept = held_by_changelogs(store)
        added = {entry.file.name for entry in kept.entries(store) if entry.kind is FileKind.ADD}
        garbage.held.add_state(store, snapshot)
        garbage.held = garbage.held.without(kept)
        live = live_entries(store, snapshot)
        garbage.files = [(NEVER, entry) for entry in live if entry.file.name not in added]
    files.delete(name)
    if _tells_success(store):
        store.storage.delete(_success_path(store, name))
    if not alone:
        return Swept()
    return sweep(store, garbage, snapshots=[], tags=_neighbours(store, snapshot, tags))


def _neighbours(store: TableStore, snapshot: Snapshot, tags: list[Snapshot]) -> list[Snapshot]:
    """The nearest states before and after. What neither of them holds no other does: a file gone does not come back."""
    before = nearest_before(tags, snapshot.id)
    after = [tag for tag in tags if tag.id > snapshot.id][:1]
    earliest = store.snapshots.find(store.snapshots.earliest_id() or 0)
    if earliest is not None and earliest.id > snapshot.id:
        after.append(earliest)
    return ([before] if before is not None else []) + after


def expire_tags(store: TableStore, most: int | None = None) -> list[str]:
    """Give up the tags whose time is over, of the oldest snapshots first; gives their names."""
    now = store.ambient.local_millis() * NANOS_PER_MILLI
    over = [tag.name for tag in tag_files(store).all() if _is_over(tag, now)][:most]
    for name in over:
        delete_tag(store, name)
    return over


def _is_over(tag: Tag, now: int) -> bool:
    if tag.created_nanos is None or tag.retained_nanos is None:
        return False
    return tag.created_nanos + tag.retained_nanos < now
