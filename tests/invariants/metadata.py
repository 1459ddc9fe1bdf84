"""Invariants within the metadata, and between the metadata and the files it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from penstock.errors import TableCorrupt
from penstock.table.buckets.layout import Layout
from penstock.table.meta.entries import DELETION_VECTORS, HASH_INDEX, ManifestEntry
from penstock.table.meta.live import (
    all_manifests,
    index_entries,
    live_entries,
    remaining_changelog,
)
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from tests.invariants.view import View

Rule = Callable[[View], Iterator[str]]
Named = Iterator[tuple[str, int | None]]


def ids_have_no_gap(view: View) -> Iterator[str]:
    """I1: snapshot ids have no gap, and hints do not point beyond them."""
    ids = [snapshot.id for snapshot in view.snapshots]
    first, last = view.store.snapshots.earliest_id(), view.store.snapshots.latest_id()
    if first is not None and last is not None and ids != list(range(first, last + 1)):
        yield f"I1 snapshots {ids} have a gap between {first} and {last}"
    listed = view.store.snapshots.ids()
    if listed and last != listed[-1]:
        yield f"I1 the newest snapshot is {listed[-1]}, readers are led to {last}"
    for name in ("LATEST", "EARLIEST"):
        hint = hint_of(view.store, name)
        if hint is not None and listed and hint > listed[-1]:
            yield f"I1 the hint {name} is {hint}, beyond the newest snapshot {listed[-1]}"


def hint_of(store: TableStore, name: str) -> int | None:
    try:
        text = store.storage.read(f"{store.paths.snapshot_folder}/{name}")
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def named_files_exist(view: View) -> Iterator[str]:
    """I2 and I13: every reachable file exists, with its recorded size."""
    sizes: dict[str, int | None] = {}
    for reached, store, snapshot in view.reachable():
        try:
            named = [*state_files(store, snapshot), *(change_files(store, snapshot) if "tag" not in reached else ())]
        except TableCorrupt as error:
            yield f"I2 {reached}: {error}"
            continue
        for path, size in named:
            if path not in sizes:
                sizes[path] = store.storage.size(path) if store.storage.exists(path) else None
            if sizes[path] is None:
                yield f"I2 {reached} names {path}, which does not exist"
            elif size is not None and sizes[path] != size:
                yield f"I2 {reached} names {path} with {size} bytes, it has {sizes[path]}"


def state_files(store: TableStore, snapshot: Snapshot) -> Named:
    """Yield every file that a reader of the rows at this snapshot may open, with its recorded size."""
    paths, layout = store.paths, Layout.of(store.schemas.get(snapshot.schema_id))
    yield paths.schema(snapshot.schema_id), None
    yield paths.manifest(snapshot.base_manifest_list), snapshot.base_manifest_list_size
    yield paths.manifest(snapshot.delta_manifest_list), snapshot.delta_manifest_list_size
    for manifest in all_manifests(store, snapshot):
        yield paths.manifest(manifest.name), manifest.size
    yield from data_files(store, layout, live_entries(store, snapshot))
    if snapshot.index_manifest:
        yield paths.manifest(snapshot.index_manifest), None
    for index in index_entries(store, snapshot):
        folder = layout.partition_dir(index.partition)
        yield index.external_path or paths.index_file(index.name, folder, index.bucket), index.size
    if snapshot.statistics:
        yield paths.statistics(snapshot.statistics), None


def change_files(store: TableStore, snapshot: Snapshot) -> Named:
    """Yield the further files that a reader of the changelog needs. A tag keeps rows, not changes."""
    if may_be_of_a_tag(store, snapshot):
        return
    manifests, entries = remaining_changelog(store, snapshot)
    if snapshot.changelog_manifest_list and manifests:
        yield store.paths.manifest(snapshot.changelog_manifest_list), snapshot.changelog_manifest_list_size
    for manifest in manifests:
        yield store.paths.manifest(manifest.name), manifest.size
    layout = Layout.of(store.schemas.get(snapshot.schema_id))
    yield from data_files(store, layout, entries)


def may_be_of_a_tag(store: TableStore, snapshot: Snapshot) -> bool:
    """Return whether a snapshot may have expired, and come back from its tag, in a branch or by a rollback.

    An expiry that was cut off deletes any part of its changelog.
    """
    if store.snapshots.exists(snapshot.id - 1):
        return False
    tags = TagFiles(store.storage, store.paths.root, store.paths.branch).all()
    return any(tag.snapshot.id == snapshot.id for tag in tags)


def data_files(store: TableStore, layout: Layout, entries: Iterable[ManifestEntry]) -> Named:
    for entry in entries:
        path = layout.path_of(store.paths, entry.partition, entry.bucket)(entry.file)
        yield path, entry.file.size
        yield from ((f"{path.rpartition('/')[0]}/{extra}", None) for extra in entry.file.extra_files)


def identifiers_count_once(view: View) -> Iterator[str]:
    """I5: a commit identifier counts once."""
    seen: dict[tuple[str, int, str], int] = {}
    for snapshot in view.snapshots:
        if snapshot.commit_identifier == BATCH_IDENTIFIER or snapshot.commit_kind is CommitKind.OVERWRITE:
            continue
        commit = (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind.value)
        if commit in seen:
            yield f"I5 {commit} was committed as snapshots {seen[commit]} and {snapshot.id}"
        seen[commit] = snapshot.id


def counts_add_up(view: View) -> Iterator[str]:
    """I10, for snapshots: the record counts add up."""
    for before, after in pairwise(view.snapshots):
        if before.total_record_count + after.delta_record_count != after.total_record_count:
            yield f"I10 snapshot {after.id} counts {after.total_record_count} records in all, after {before}"
    for snapshot in view.snapshots:
        rows = sum(entry.file.row_count for entry in live_entries(view.store, snapshot))
        if rows != snapshot.total_record_count:
            yield f"I10 snapshot {snapshot.id} counts {snapshot.total_record_count} records, its files hold {rows}"


def schemas_exist(view: View) -> Iterator[str]:
    """I11: the schemas that snapshots and files name exist."""
    for reached, store, snapshot in view.reachable():
        known = set(store.schemas.ids())
        for schema_id in {snapshot.schema_id, *(entry.file.schema_id for entry in live_entries(store, snapshot))}:
            if schema_id not in known:
                yield f"I11 {reached} needs schema {schema_id}, of {sorted(known)}"


def indexes_point_to_live_files(view: View) -> Iterator[str]:
    """I12: index entries point to live files."""
    for reached, store, snapshot in view.reachable():
        live = {(entry.partition, entry.bucket, entry.file.name) for entry in live_entries(store, snapshot)}
        for index in index_entries(store, snapshot):
            if index.index_type == HASH_INDEX and index.size != 4 * index.row_count:
                yield f"I12 {reached}: hash index {index.name} of {index.row_count} rows has {index.size} bytes"
            if index.index_type != DELETION_VECTORS:
                continue
            for vector in index.vector_ranges or ():
                if (index.partition, index.bucket, vector.data_file) not in live:
                    yield f"I12 {reached}: {index.name} has a vector of {vector.data_file}, which is not live"


WHOLE: tuple[Rule, ...] = (ids_have_no_gap, named_files_exist)
RULES: tuple[Rule, ...] = (
    identifiers_count_once,
    counts_add_up,
    schemas_exist,
    indexes_point_to_live_files,
)
