"""The files that snapshots, tags, branches and long-lived changelogs use, and that must not be deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from penstock.errors import TableCorrupt
from penstock.table.maintenance.kept_states import changelogs_of, snapshots_of, tagged
from penstock.table.meta.entries import FileKind, IndexEntry, ManifestEntry, ManifestFile
from penstock.table.meta.live import (
    base_manifests,
    changelog_manifests,
    delta_entries,
    delta_manifests,
    index_entries,
    live_entries,
    manifest_entries,
    remaining_changelog,
)
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.changelogs import CHANGELOG_PRODUCER


@dataclass(frozen=True, slots=True)
class StateManifests:
    """The names of a snapshot's manifests: of the state before it, and of its own changes."""

    base: frozenset[str]
    delta: frozenset[str]

    def is_followed_by(self, later: StateManifests) -> bool:
        """Return whether the later state surely is this one with the changes of its own snapshot.

        It may be also if this is False, where a commit merged manifests.
        """
        return later.base == self.base | self.delta


@dataclass(slots=True)
class ReferencedFiles:
    """Files outside the buckets, by name; manifests also with a snapshot that refers to them."""

    lists: set[str] = field(default_factory=set)  # manifest lists and index manifests
    manifests: dict[str, tuple[ManifestFile, Snapshot]] = field(default_factory=dict)
    indexes: dict[str, IndexEntry] = field(default_factory=dict)
    statistics: set[str] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return not (self.lists or self.manifests or self.indexes or self.statistics)

    def add_state(self, store: TableStore, snapshot: Snapshot) -> StateManifests:
        """Add everything needed to read the snapshot's rows, except the data files."""
        base, delta = base_manifests(store, snapshot), delta_manifests(store, snapshot)
        self.add_lists(snapshot.base_manifest_list, base, snapshot)
        self.add_lists(snapshot.delta_manifest_list, delta, snapshot)
        self.add_index(store, snapshot)
        return StateManifests(
            frozenset(manifest.name for manifest in base), frozenset(manifest.name for manifest in delta)
        )

    def add_index(self, store: TableStore, snapshot: Snapshot) -> None:
        """Add the snapshot's index files and statistics."""
        if snapshot.index_manifest is not None:
            self.lists.add(snapshot.index_manifest)
            self.indexes.update({entry.name: entry for entry in index_entries(store, snapshot)})
        if snapshot.statistics is not None:
            self.statistics.add(snapshot.statistics)

    def add_changelog(self, store: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
        """Add the part of the snapshot's changelog that has not expired, and return its entries."""
        manifests, entries = remaining_changelog(store, snapshot)
        if snapshot.changelog_manifest_list is not None:
            self.add_lists(snapshot.changelog_manifest_list, manifests, snapshot)
        return entries

    def add_long_lived(self, store: TableStore, snapshot: Snapshot) -> None:
        """Add the files that readers need of a changelog that outlived its snapshot: its own list, or else the delta.

        The base is kept with the delta, so that files both share are deleted once, together with the changelog.
        """
        if snapshot.changelog_manifest_list is not None:
            self.add_changelog(store, snapshot)
        elif has_delta_as_changelog(store, snapshot):
            self.add_remaining_lists(store, snapshot)

    def add_remaining_lists(self, store: TableStore, snapshot: Snapshot) -> None:
        """Add those manifest lists of an expired snapshot that still exist."""
        for name, read in (
            (snapshot.base_manifest_list, base_manifests),
            (snapshot.delta_manifest_list, delta_manifests),
            (snapshot.changelog_manifest_list, changelog_manifests),
        ):
            if name is not None and store.storage.exists(store.paths.manifest(name)):
                self.add_lists(name, read(store, snapshot), snapshot)

    def add_lists(self, name: str, manifests: Iterable[ManifestFile], snapshot: Snapshot) -> None:
        """Add a manifest list and its manifests, which `snapshot` refers to."""
        self.lists.add(name)
        self.manifests.update({manifest.name: (manifest, snapshot) for manifest in manifests})

    def add(self, other: ReferencedFiles) -> None:
        """Add all files of another set."""
        self.lists |= other.lists
        self.manifests |= other.manifests
        self.indexes |= other.indexes
        self.statistics |= other.statistics

    def without(self, other: ReferencedFiles) -> ReferencedFiles:
        """Return the files that `other` does not contain."""
        return ReferencedFiles(
            self.lists - other.lists,
            {name: found for name, found in self.manifests.items() if name not in other.manifests},
            {name: entry for name, entry in self.indexes.items() if name not in other.indexes},
            self.statistics - other.statistics,
        )

    def entries(self, store: TableStore) -> Iterator[ManifestEntry]:
        """Yield the entries of every manifest; each manifest is read once."""
        for manifest, snapshot in self.manifests.values():
            yield from manifest_entries(store, manifest, snapshot)


@dataclass(frozen=True, slots=True)
class Holdings:
    """Everything a branch uses.

    These are its files outside the buckets, and an entry for each of its data and changelog files.
    """

    metadata: ReferencedFiles
    files: dict[tuple[bytes, int, str], ManifestEntry]


def holdings_of(store: TableStore) -> Holdings:
    """Return the files that the snapshots, tags and long-lived changelogs of a branch use.

    A file that a snapshot removed is used only by older ones. Reads each manifest once, and again for snapshots that do
    not follow the one before as it was; starts over when snapshots expire during the read.
    """
    while True:
        ids = store.snapshots.ids()
        try:
            return _holdings_of(store, ids)
        except TableCorrupt:
            if store.snapshots.ids()[:1] == ids[:1]:
                raise


def _holdings_of(store: TableStore, listed: Iterable[int]) -> Holdings:
    holdings, snapshots, tags = Holdings(ReferencedFiles(), {}), list(snapshots_of(store, listed)), tagged(store)
    # A snapshot has the files of the one before and the files that its own delta adds, so only the delta is read. All
    # of its files are read if it may not follow the one before: after a gap, or while a fast-forward replaces
    # snapshots.
    before: StateManifests | None = None
    for snapshot in snapshots:
        manifests = holdings.metadata.add_state(store, snapshot)
        if before is None or not before.is_followed_by(manifests):
            _add_files(holdings, live_entries(store, snapshot))
        before = manifests
    for tag in tags:
        holdings.metadata.add_state(store, tag)
        _add_files(holdings, live_entries(store, tag))
    for snapshot in snapshots:
        changelog = holdings.metadata.add_changelog(store, snapshot)
        _add_files(holdings, (*delta_entries(store, snapshot), *changelog))
    for long_lived in changelogs_of(store):
        left = ReferencedFiles()
        left.add_long_lived(store, long_lived)
        holdings.metadata.add(left)
        _add_files(holdings, _changes_of(store, long_lived, left))
    return holdings


def _changes_of(store: TableStore, changelog: Snapshot, left: ReferencedFiles) -> list[ManifestEntry]:
    if changelog.changelog_manifest_list is not None:
        return remaining_changelog(store, changelog)[1]
    return delta_entries(store, changelog) if changelog.delta_manifest_list in left.lists else []


def _add_files(holdings: Holdings, entries: Iterable[ManifestEntry]) -> None:
    for entry in entries:
        if entry.kind is FileKind.ADD:
            holdings.files[entry.partition, entry.bucket, entry.file.name] = entry


def used_by_changelogs(store: TableStore) -> ReferencedFiles:
    """Return the deltas that long-lived changelogs are read from.

    Changelogs with lists share no manifest with a snapshot.
    """
    first = store.snapshots.find_changelog(store.snapshots.changelogs.earliest() or 0)
    used = ReferencedFiles()
    if first is not None and has_delta_as_changelog(store, first):
        for changelog in changelogs_of(store):
            used.add_long_lived(store, changelog)
    return used


def has_delta_as_changelog(store: TableStore, snapshot: Snapshot) -> bool:
    """Return whether readers read the snapshot's changes from the delta files.

    They do if the table had no changelog producer at the time.
    """
    options = store.schemas.get(snapshot.schema_id).typed
    return snapshot.changelog_manifest_list is None and not options[CHANGELOG_PRODUCER].writes_changelog


def live_among(store: TableStore, snapshot: Snapshot, files: Collection[ManifestEntry]) -> set[str]:
    """Return the names of those data files that contain rows of the snapshot."""
    names = {entry.file.name for entry in files}
    buckets = {(entry.partition, entry.bucket) for entry in files}
    return {entry.file.name for entry in live_entries(store, snapshot, buckets=buckets)} & names


def removed_entries(store: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the files the snapshot removed. An upgrade deletes and adds the same file, so it removes nothing."""
    entries = delta_entries(store, snapshot)
    # By name and not by identity, which includes the level: an upgraded file is on another level afterwards.
    added = {(entry.partition, entry.bucket, entry.file.name) for entry in entries if entry.kind is FileKind.ADD}
    return [
        entry
        for entry in entries
        if entry.kind is FileKind.DELETE and (entry.partition, entry.bucket, entry.file.name) not in added
    ]
