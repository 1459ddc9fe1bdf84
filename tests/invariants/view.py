"""The parts of a table that are checked: everything that a reader can still reach."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from penstock.table.buckets.layout import Layout
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore, branch_names
from penstock.table.meta.tag_files import TagFiles
from penstock.table.read.scan import Scan


class Reads:
    """The rows that the rules of one check read: several rules need the rows of a file, which does not change."""

    def __init__(self) -> None:
        self._files: dict[Hashable, pa.Table] = {}

    def of_file(self, path: str, key: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
        """Return the rows of a data file; `key` is what they depend on apart from the bytes of the file."""
        if (path, key) not in self._files:
            self._files[path, key] = read()
        return self._files[path, key]

    def of_scan(self, scan: Scan) -> pa.Table:
        return scan.to_arrow()


@dataclass(frozen=True)
class View:
    """One branch of a table. `snapshots` are the live ones; snapshots before EARLIEST are waiting to be deleted."""

    store: TableStore
    snapshots: tuple[Snapshot, ...]
    reads: Reads = field(default_factory=Reads)

    @classmethod
    def of(cls, store: TableStore, reads: Reads | None = None) -> View:
        first, last = store.snapshots.earliest_id(), store.snapshots.latest_id()
        ids = range(first, last + 1) if first is not None and last is not None else range(0)
        found = (store.snapshots.find(snapshot_id) for snapshot_id in ids)
        return cls(store, tuple(snapshot for snapshot in found if snapshot is not None), reads or Reads())

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
