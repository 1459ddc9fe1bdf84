"""The state of a bucket that a writer needs before it adds files, read from the table's manifests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import DELETION_VECTORS, Bucket, IndexEntry, ManifestEntry
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore


@dataclass(frozen=True, slots=True)
class BucketState:
    """The live files of a bucket at a snapshot."""

    files: tuple[DataFile, ...] = ()
    index: tuple[IndexEntry, ...] = ()
    total_buckets: int | None = None
    snapshot: int = 0
    mark: int = 0  # of the snapshot

    @property
    def next_sequence(self) -> int:
        """Return the sequence number of the next row."""
        return max((file.max_sequence for file in self.files), default=-1) + 1

    @property
    def vector_files(self) -> tuple[str, ...]:
        """Return the names of the index files that contain the deletion vectors of this bucket."""
        return tuple(entry.name for entry in self.index if entry.index_type == DELETION_VECTORS)


class TableState:
    """The state of buckets at one snapshot, read for whole partitions at a time and cached."""

    def __init__(self, store: TableStore, snapshot: Snapshot | None) -> None:
        self._store = store
        self.snapshot = snapshot
        self._buckets: dict[Bucket, list[ManifestEntry]] = {}
        self._partitions: dict[bytes, int | None] = {}
        self._index: dict[Bucket, list[IndexEntry]] | None = None

    def load(self, partitions: Collection[bytes]) -> None:
        """Read the files of these partitions in one pass over the manifests."""
        missing = {partition for partition in partitions if partition not in self._partitions}
        if not missing:
            return
        # Partitions without files are recorded too, so that the manifests are not read for them again.
        self._partitions.update(dict.fromkeys(missing))
        if self.snapshot is None:
            return
        for entry in live_entries(self._store, self.snapshot, partitions=missing, to_commit=True):
            self._buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
            # Dynamic and postponed buckets record -1 and -2, which fix no number for the partition.
            if entry.total_buckets > 0:
                self._partitions[entry.partition] = entry.total_buckets

    def bucket(self, partition: bytes, bucket: int) -> BucketState:
        """Return the state of a bucket."""
        self.load([partition])
        entries = self._buckets.get((partition, bucket), [])
        return BucketState(
            tuple(entry.file for entry in entries),
            tuple(self._index_of((partition, bucket))),
            self._partitions[partition],
            self.snapshot.id if self.snapshot else 0,
            self.snapshot.mark if self.snapshot else 0,
        )

    def buckets_of(self, partition: bytes) -> list[int]:
        """Return the bucket numbers that a partition has, in order."""
        self.load([partition])
        return sorted(bucket for known, bucket in self._buckets if known == partition)

    def index_of_partition(self, partition: bytes) -> list[IndexEntry]:
        """Return the index files of all buckets of a partition."""
        self._index_of((partition, 0))
        loaded = self._index or {}
        return [entry for (known, _), entries in loaded.items() if known == partition for entry in entries]

    def _index_of(self, bucket: Bucket) -> Iterable[IndexEntry]:
        # An index manifest lists the index files of all buckets, so it is read once.
        if self._index is None:
            self._index = {}
            for entry in index_entries(self._store, self.snapshot, to_commit=True) if self.snapshot else ():
                self._index.setdefault((entry.partition, entry.bucket), []).append(entry)
        return self._index.get(bucket, ())


def check_total(layout: Layout, partition: bytes, state: BucketState, table: str) -> None:
    """Raise ConfigError if the partition was written with another number of buckets.

    A partition keeps its number of buckets until it is overwritten.
    """
    if layout.bucket_count > 0 and state.total_buckets not in {None, layout.bucket_count}:
        place = layout.partition_dir(partition).replace("/", ", ")
        part = f"partition {{{place}}}" if place else "table"
        raise ConfigError(
            f"the {part} has {state.total_buckets} buckets, but the table option is now bucket = {layout.bucket_count}",
            table=table,
            paimon_message=f"Try to write {part} with a new bucket num {layout.bucket_count}, but the previous bucket "
            f"num is {state.total_buckets}. Please switch to batch mode, and perform INSERT OVERWRITE to rescale "
            "current data layout first.",
            hint=f"run  penstock rescale  to rewrite the {part} with the number of the option; or keep its buckets:  "
            f"ALTER TABLE ... SET ('bucket' = '{state.total_buckets}')",
        )
