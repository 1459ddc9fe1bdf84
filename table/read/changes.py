"""Reads of the changes between two snapshots (incremental batch reads)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.errors import ManifestMissing, SnapshotMissing
from penstock.table.meta.entries import FileKind, ManifestEntry
from penstock.table.meta.live import changelog_entries, delta_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.snapshot_times import snapshot_at
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.options.scans import INCREMENTAL_BETWEEN_SCAN_MODE
from penstock.table.read.change_order import deletes_first
from penstock.table.read.plan import grouped
from penstock.table.read.snapshot_diff import difference
from penstock.table.read.snapshot_range import Ends, SnapshotRange
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split, invisible_level_0, only
from penstock.table.values.arguments import whole_number


def read_changes(store: TableStore, start: int, end: int, mode: str) -> pa.Table:
    """Return the rows changed in (start, end], snapshot ids, with a leading rowkind column."""
    schema = store.schema()
    reader = SplitReader(store, Layout.of(schema), schema.fields, kinds=True)
    ids = whole_number(start, "start_snapshot"), whole_number(end, "end_snapshot")
    between = SnapshotRange(str(ids[0]), str(ids[1]), INCREMENTAL_BETWEEN_SCAN_MODE.kind.parse(mode), Ends.IDS)
    return pa.Table.from_batches(read_between(store, between, reader), reader.schema)


def read_between(store: TableStore, between: SnapshotRange, reader: SplitReader) -> Iterator[pa.RecordBatch]:
    """Yield the changed rows with their kinds, snapshot by snapshot.

    Where two states are compared instead, yield their difference as a whole.
    """
    found = between.resolved(store)
    if found is None:
        return
    splits = _splits(store, found, reader.layout)
    if splits is not None:
        yield from (batch for split in splits for batch in reader.read_files(split))
        return
    start, end = _states(store, found)
    yield from difference(store, reader, start, end)


def between_splits(store: TableStore, between: SnapshotRange, layout: Layout) -> Iterator[Split] | None:
    """Return the splits with the changes, snapshot by snapshot. Return None when two states must be compared."""
    found = between.resolved(store)
    return iter(()) if found is None else _splits(store, found, layout)


def _splits(store: TableStore, between: SnapshotRange, layout: Layout) -> Iterator[Split] | None:
    # Tags keep the rows of their snapshots, but not the snapshots between them. So their states are compared, as in
    # Java.
    if between.ends is Ends.TAGS or between.mode == "diff":
        return None
    mode = between.mode
    if mode == "auto":
        mode = "changelog" if writes_changelog(layout) else "delta"
    return _changed_splits(store, _ids(store, between), layout, mode)


def _changed_splits(store: TableStore, ids: tuple[int, int], layout: Layout, mode: str) -> Iterator[Split]:
    for snapshot_id in range(ids[0] + 1, ids[1] + 1):
        snapshot = snapshot_or_changelog(store, snapshot_id)
        for split in change_splits(store, snapshot, mode):
            if (shown := _shown_in_batch(layout, split, mode)) is not None:
                yield shown


def _shown_in_batch(layout: Layout, split: Split, mode: str) -> Split | None:
    """Return the part of `split` that a batch read shows.

    Like batch reads of the table it skips postponed buckets and level-0 files that are not visible yet. A streaming
    read does not use this and sees all of it.
    """
    if split.bucket < 0:
        return None
    if mode == "changelog" or not invisible_level_0(layout):
        return split
    return only(split, [file for file in split.files if file.level > 0])


def writes_changelog(layout: Layout) -> bool:
    """Return whether the changes of the table are in changelog files."""
    return layout.schema.typed[CHANGELOG_PRODUCER].writes_changelog


def change_splits(store: TableStore, snapshot: Snapshot, mode: str) -> list[Split]:
    """Return the files with a snapshot's changes: its data files when it is an APPEND, or its changelog files.

    Read in this order, the newest row of each key is the last one.
    """
    if mode == "changelog":
        entries = _changelog(store, snapshot) if snapshot.commit_kind is not CommitKind.OVERWRITE else []
    # A COMPACT snapshot changes no rows.
    elif snapshot.commit_kind is CommitKind.APPEND:
        entries = [entry for entry in delta_entries(store, snapshot) if entry.kind is FileKind.ADD]
    else:
        entries = []
    splits = [_split(bucket, group) for bucket, group in grouped(entries).items()]
    return deletes_first(Layout.of(store.schemas.get(snapshot.schema_id)), splits)


def _changelog(store: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
    try:
        return changelog_entries(store, snapshot)
    except ManifestMissing as reason:
        if store.snapshots.exists(snapshot.id - 1):
            raise
        raise SnapshotMissing(
            f"the changelog of snapshot {snapshot.id} has expired",
            table=store.name,
            hint="the snapshot was restored from a tag, which keeps rows but no changelog: "
            f"read changes after it, or scan it with snapshot={snapshot.id}",
        ) from reason


def _split(bucket: tuple[bytes, int], entries: list[ManifestEntry]) -> Split:
    # Oldest first. Each row is a change, so the files are read one after the other and never merged.
    files = sorted((entry.file for entry in entries), key=lambda file: (file.min_sequence, file.name))
    return Split(*bucket, tuple(files), raw=True)


def snapshot_or_changelog(store: TableStore, snapshot_id: int) -> Snapshot:
    """Return the snapshot, or the long-lived changelog that remains of it after it expired."""
    found = store.snapshots.find(snapshot_id) or store.snapshots.find_changelog(snapshot_id)
    return store.snapshots.get(snapshot_id) if found is None else found


def _ids(store: TableStore, between: SnapshotRange) -> tuple[int, int]:
    if between.ends is Ends.TIMES:
        start, end = (_id_at(store, _to_millis(text)) for text in (between.start, between.end))
    else:
        start, end = int(between.start), int(between.end)
    if end < start:
        raise ConfigError(
            f"the end {end} is before the start {start}", table=store.name, hint="write the older snapshot or tag first"
        )
    return start, end


def _to_millis(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError as reason:
        raise ConfigError(
            f"{text!r} is not a point in time", hint="write epoch milliseconds, or 2026-01-31 12:00"
        ) from reason


def _id_at(store: TableStore, millis: int) -> int:
    snapshot = snapshot_at(store.snapshots, millis)
    if snapshot is not None:
        return snapshot.id
    # A time before the first snapshot: the range is open at its start and so includes that snapshot.
    earliest = store.snapshots.earliest_id()
    return 0 if earliest is None else earliest - 1


def _states(store: TableStore, between: SnapshotRange) -> tuple[Snapshot | None, Snapshot | None]:
    """Return the snapshots that are compared; None for the empty state before the first snapshot."""
    if between.ends is Ends.TAGS:
        tags = TagFiles(store.storage, store.paths.root, store.paths.branch)
        return tags.get(between.start).snapshot, tags.get(between.end).snapshot
    start, end = (None if wanted == 0 else store.snapshots.get(wanted) for wanted in _ids(store, between))
    return start, end
