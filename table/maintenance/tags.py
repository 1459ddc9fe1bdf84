"""Tags: snapshots kept under a name, and their creation, replacement and renaming."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import ConfigError
from penstock.table.errors import SnapshotMissing, TagMissing
from penstock.table.iceberg.publication import publish_if_enabled
from penstock.table.maintenance.done_partitions import write_success
from penstock.table.maintenance.kept_states import tagged
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import Tag, TagFiles, tag_json
from penstock.table.options.partitions import TAG_CREATE_SUCCESS_FILE, TAG_DEFAULT_TIME_RETAINED

NANOS_PER_MILLI = 1_000_000


def tag_files(store: TableStore) -> TagFiles:
    """Return access to the tag files of this branch."""
    return TagFiles(store.storage, store.paths.root, store.paths.branch)


def create_tag(store: TableStore, name: str, snapshot_id: int | None = None, retain_millis: int | None = None) -> Tag:
    """Tag a snapshot, by default the latest. With `retain_millis` the tag expires that long from now.

    An expired snapshot can be tagged as long as another tag keeps it. ConfigError when the tag already exists. A
    snapshot that expires while it is being tagged is not tagged (SnapshotMissing).
    """
    snapshot = store.snapshots.latest() if snapshot_id is None else snapshot_or_tagged(store, snapshot_id)
    if snapshot is None:
        raise SnapshotMissing(
            "the table has no snapshot to tag", table=store.name, hint="write rows first: each commit makes a snapshot"
        )
    if retain_millis is None:
        retain_millis = store.schema().typed[TAG_DEFAULT_TIME_RETAINED]
    tag = Tag(name, snapshot)
    if retain_millis is not None:
        # As in Java, the local time of the writer, in nanoseconds.
        created = store.ambient.local_millis() * NANOS_PER_MILLI
        tag = Tag(name, snapshot, created, retain_millis * NANOS_PER_MILLI)
    files = tag_files(store)
    if not files.create(tag):
        raise ConfigError(
            f"there is a tag {name!r} already",
            table=store.name,
            snapshot=files.get(name).snapshot.id,
            hint="replace the tag, delete it first, or choose another name",
        )
    # Expiry deletes a snapshot's file before it looks for tags: if the file still exists, expiry will see this tag. The
    # same holds for the deletion of another tag of the snapshot.
    if not is_kept(store, snapshot, but=name):
        files.delete(name)
        raise SnapshotMissing(
            f"snapshot {snapshot.id} expired while it was being tagged",
            table=store.name,
            tag=name,
            hint="tag a newer snapshot, or keep snapshots longer (snapshot.time-retained)",
        )
    if writes_success_file(store):
        write_success(store, success_path(store, name))
    store.commits.follow_tags(store)
    publish_if_enabled(store)
    return tag


def is_kept(store: TableStore, snapshot: Snapshot, but: str | None = None) -> bool:
    """Return whether the snapshot exists or has a tag other than `but`; else its files may be deleted already."""
    return store.snapshots.find(snapshot.id) == snapshot or bool(_other_tags(store, but, snapshot))


def snapshot_or_tagged(store: TableStore, snapshot_id: int) -> Snapshot:
    """Return a snapshot by id, from its tag when it has expired. SnapshotMissing when there is neither."""
    found = store.snapshots.find(snapshot_id)
    of_tags = (snapshot for snapshot in tagged(store) if snapshot.id == snapshot_id) if found is None else ()
    return found or next(iter(of_tags), None) or store.snapshots.get(snapshot_id)


def writes_success_file(store: TableStore) -> bool:
    return store.schema().typed[TAG_CREATE_SUCCESS_FILE]


def success_path(store: TableStore, name: str) -> str:
    return f"{store.paths.tag_folder}/tag-success-file/{name}_SUCCESS"


def _other_tags(store: TableStore, name: str | None, snapshot: Snapshot) -> list[str]:
    return [tag.name for tag in tag_files(store).all() if tag.name != name and tag.snapshot.id == snapshot.id]


def replace_tag(store: TableStore, name: str, snapshot_id: int | None = None, retain_millis: int | None = None) -> Tag:
    """Move an existing tag to another snapshot (default: the latest).

    Files only the old snapshot used become orphans. TagMissing when there is no such tag. A snapshot that expires
    meanwhile is not tagged (SnapshotMissing).
    """
    files = tag_files(store)
    replaced = files.get(name)
    snapshot = store.snapshots.latest() if snapshot_id is None else snapshot_or_tagged(store, snapshot_id)
    if snapshot is None:
        raise SnapshotMissing("the table has no snapshot to tag", table=store.name, hint="write rows first")
    tag = Tag(name, snapshot)
    if retain_millis is not None:
        tag = Tag(name, snapshot, store.ambient.local_millis() * NANOS_PER_MILLI, retain_millis * NANOS_PER_MILLI)
    store.storage.write(files.path(name), tag_json(tag))
    if snapshot != replaced.snapshot and not is_kept(store, snapshot, but=name):  # as in create_tag
        store.storage.write(files.path(name), tag_json(replaced))
        raise SnapshotMissing(f"snapshot {snapshot.id} expired while it was being tagged", table=store.name, tag=name)
    publish_if_enabled(store, all_tags=True)
    return tag


def rename_tag(store: TableStore, name: str, new_name: str) -> None:
    """Rename a tag. After a crash half way the tag has both names; delete the old one."""
    files = tag_files(store)
    tag = files.get(name)
    if not files.create(Tag(new_name, tag.snapshot, tag.created_nanos, tag.retained_nanos)):
        raise ConfigError(
            f"there is a tag {new_name!r} already",
            table=store.name,
            hint=f"if an earlier rename was interrupted and both names exist, delete {name!r}",
        )
    if not is_kept(store, tag.snapshot, but=new_name):  # as in create_tag
        files.delete(new_name)
        raise TagMissing(f"the tag {name!r} was deleted while it was renamed", table=store.name)
    files.delete(name)
    store.commits.follow_tags(store, removed=[name])
    publish_if_enabled(store)


def tag_from_timestamp(store: TableStore, name: str, millis: int, retain_millis: int | None) -> Tag:
    """Tag the first snapshot committed at or after that time."""
    first = _first(store, lambda snapshot: snapshot.time_millis >= millis)
    if first is None:
        raise SnapshotMissing(f"the table has no snapshot at or after {millis}", table=store.name)
    return create_tag(store, name, first.id, retain_millis)


def tag_from_watermark(store: TableStore, name: str, watermark: int, retain_millis: int | None) -> Tag:
    """Tag the first snapshot whose watermark has reached this one."""
    first = _first(store, lambda snapshot: snapshot.watermark is not None and snapshot.watermark >= watermark)
    if first is None:
        raise SnapshotMissing(f"no snapshot has reached watermark {watermark}", table=store.name)
    return create_tag(store, name, first.id, retain_millis)


def _first(store: TableStore, holds: Callable[[Snapshot], bool]) -> Snapshot | None:
    found = (store.snapshots.find(number) for number in store.snapshots.ids())
    return next((snapshot for snapshot in found if snapshot is not None and holds(snapshot)), None)
