"""Changes of tags: replacing, renaming, and creating them by a timestamp or watermark."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import ConfigError
from penstock.table.maintenance.tags import NANOS_PER_MILLI, create_tag, snapshot_or_tagged, tag_files
from penstock.table.meta.errors import SnapshotMissing
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import Tag, tag_json


def replace_tag(store: TableStore, name: str, snapshot_id: int | None = None, retain_millis: int | None = None) -> Tag:
    """Move an existing tag to another snapshot (default: the latest).

    Files only the old snapshot used become orphans. TagMissing when there is no such tag.
    """
    files = tag_files(store)
    files.get(name)
    snapshot = store.snapshots.latest() if snapshot_id is None else snapshot_or_tagged(store, snapshot_id)
    if snapshot is None:
        raise SnapshotMissing("the table has no snapshot to tag", table=store.name)
    tag = Tag(name, snapshot)
    if retain_millis is not None:
        tag = Tag(name, snapshot, store.ambient.local_millis() * NANOS_PER_MILLI, retain_millis * NANOS_PER_MILLI)
    store.storage.write(files.path(name), tag_json(tag))
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
    files.delete(name)


def tag_from_timestamp(store: TableStore, name: str, millis: int, retain_millis: int | None = None) -> Tag:
    """Tag the first snapshot committed at or after that time."""
    first = _first(store, lambda snapshot: snapshot.time_millis >= millis)
    if first is None:
        raise SnapshotMissing(f"the table has no snapshot at or after {millis}", table=store.name)
    return create_tag(store, name, first.id, retain_millis)


def tag_from_watermark(store: TableStore, name: str, watermark: int, retain_millis: int | None = None) -> Tag:
    """Tag the first snapshot whose watermark has reached this one."""
    first = _first(store, lambda snapshot: snapshot.watermark is not None and snapshot.watermark >= watermark)
    if first is None:
        raise SnapshotMissing(f"no snapshot has reached watermark {watermark}", table=store.name)
    return create_tag(store, name, first.id, retain_millis)


def _first(store: TableStore, holds: Callable[[Snapshot], bool]) -> Snapshot | None:
    found = (store.snapshots.find(number) for number in store.snapshots.ids())
    return next((snapshot for snapshot in found if snapshot is not None and holds(snapshot)), None)
