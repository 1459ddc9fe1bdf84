"""The parts of a table that are checked: everything that a reader can still reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from penstock.table.buckets.layout import Layout
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore, branch_names
from penstock.table.meta.tag_files import TagFiles


@dataclass(frozen=True)
class View:
    """One branch of a table. `snapshots` are the live ones; snapshots before EARLIEST are waiting to be deleted."""

    store: TableStore
    snapshots: tuple[Snapshot, ...]

    @classmethod
    def of(cls, store: TableStore) -> View:
        first, last = store.snapshots.earliest_id(), store.snapshots.latest_id()
        ids = range(first, last + 1) if first is not None and last is not None else range(0)
        found = (store.snapshots.find(snapshot_id) for snapshot_id in ids)
        return cls(store, tuple(snapshot for snapshot in found if snapshot is not None))

    @cached_property
    def latest(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None

    @cached_property
    def live(self) -> list[ManifestEntry]:
        return live_entries(self.store, self.latest) if self.latest else []

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.store.schema())

    def reachable(self) -> Iterator[tuple[str, TableStore, Snapshot]]:
        """Yield every snapshot that can be read, with the name under which it can be reached."""
        for snapshot in self.snapshots:
            yield f"snapshot {snapshot.id}", self.store, snapshot
        for tag in TagFiles(self.store.storage, self.store.paths.root, self.store.paths.branch).all():
            yield f"tag {tag.name}", self.store, tag.snapshot
        if self.store.paths.branch is None:
            for name in branch_names(self.store):
                if not self.store.schemas.on_branch(name).ids():
                    continue  # its schemas are written last: the branch was not created completely
                for reached, store, snapshot in View.of(self.store.on_branch(name)).reachable():
                    yield f"branch {name}, {reached}", store, snapshot

    def path_of(self, entry: ManifestEntry) -> str:
        return self.layout.path_of(self.store.paths, entry.partition, entry.bucket)(entry.file)
