"""Checks for conflicts between a commit and the table state it is applied to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from penstock.errors import CommitConflict, ConfigError
from penstock.table.meta.entries import DELETION_VECTORS, Bucket, CommitMessage, FileKind, IndexEntry, ManifestEntry

DecodeKey = Callable[[bytes], tuple[object, ...]]


class ForeignWriter(CommitConflict):
    """Raised when another job writes the same bucket: sequence numbers would no longer determine which row is newer."""


def check_bucket_totals(live: Iterable[ManifestEntry], added: Sequence[ManifestEntry], table: str) -> None:
    """Raise ConfigError unless all files of a partition have the same number of buckets.

    Rows for a changed number can only be written by an overwrite.
    """
    totals: dict[bytes, int] = {}
    for entry in live:
        # -1 and -2 of dynamic and postponed buckets are not numbers of buckets.
        if entry.total_buckets > 0:
            totals[entry.partition] = entry.total_buckets
    for entry in added:
        known = totals.setdefault(entry.partition, entry.total_buckets) if entry.total_buckets > 0 else None
        if known is not None and known != entry.total_buckets:
            raise ConfigError(
                f"the commit has files for {entry.total_buckets} buckets, but the partition has {known}",
                table=table,
                paimon_message=f"Try to write table with a new bucket num {entry.total_buckets}, but the previous "
                f"bucket num is {known}",
                hint="run  penstock rescale  to rewrite the partition with the new number of buckets",
            )


def check_deletes(live: Iterable[ManifestEntry], entries: Sequence[ManifestEntry], table: str) -> None:
    """Raise CommitConflict when a file to delete is not in the table any more, or a file is added twice."""
    present = {entry.identity for entry in live}
    for entry in entries:
        if entry.kind is FileKind.DELETE:
            if entry.identity not in present:
                raise CommitConflict(
                    "another writer has already removed a file that this commit removes",
                    table=table,
                    file=entry.file.name,
                    bucket=entry.bucket,
                    paimon_message="File deletion conflicts detected",
                    hint="compact the bucket again from its new state; a dropped compaction loses no data",
                )
            present.discard(entry.identity)
        elif entry.identity in present:
            raise CommitConflict(
                "the commit adds a file that the table already contains",
                table=table,
                file=entry.file.name,
                hint="these messages are committed already: check that no other process commits them too",
            )
        else:
            present.add(entry.identity)


def check_levels(
    live: Iterable[ManifestEntry], entries: Sequence[ManifestEntry], decode_key: DecodeKey, table: str
) -> None:
    """Raise CommitConflict when files on the same level above 0 overlap in key range."""
    gone = {entry.identity for entry in entries if entry.kind is FileKind.DELETE}
    added = [entry for entry in entries if entry.kind is FileKind.ADD and entry.file.level > 0]
    touched = {(entry.partition, entry.bucket, entry.file.level) for entry in added}
    groups: dict[tuple[bytes, int, int], list[ManifestEntry]] = {place: [] for place in touched}
    for entry in live:
        place = (entry.partition, entry.bucket, entry.file.level)
        if place in groups and entry.identity not in gone:
            groups[place].append(entry)
    for entry in added:
        groups[entry.partition, entry.bucket, entry.file.level].append(entry)
    for group in groups.values():
        _check_run(group, decode_key, table)


def _check_run(group: list[ManifestEntry], decode_key: DecodeKey, table: str) -> None:
    ranges = sorted(
        ((decode_key(entry.file.min_key), decode_key(entry.file.max_key), entry) for entry in group),
        key=lambda item: item[0],
    )
    # In the order of first keys, it is enough to compare neighbours.
    for (_, greatest, left), (least, _, right) in itertools.pairwise(ranges):
        if not greatest < least:
            raise CommitConflict(
                f"files of level {left.file.level} overlap: another compaction rewrote the same keys",
                table=table,
                file=left.file.name,
                other_file=right.file.name,
                bucket=left.bucket,
                hint="compact the bucket again from its new state; a dropped compaction loses no data",
            )


def check_vectors(index: Iterable[IndexEntry], messages: Iterable[CommitMessage], table: str) -> None:
    """Raise CommitConflict unless a compaction read the deletion vectors its bucket has now.

    Rows hidden by vectors it did not read would reappear in its files. `index` contains the index files of the table's
    current snapshot.
    """
    now: dict[Bucket, set[str]] = {}
    for entry in index:
        if entry.index_type == DELETION_VECTORS:
            now.setdefault((entry.partition, entry.bucket), set()).add(entry.name)
    for message in messages:
        rewrites = message.compact_before or message.compact_index_changes
        if rewrites and now.get((message.partition, message.bucket), set()) != set(message.vectors_read):
            raise CommitConflict(
                "rows of the bucket were marked as deleted while it was compacted",
                table=table,
                bucket=message.bucket,
                hint="compact the bucket again; a dropped compaction loses no data",
            )


def check_vectors_have_files(
    live: Iterable[ManifestEntry], entries: Sequence[ManifestEntry], index: Iterable[IndexEntry], table: str
) -> None:
    """Raise CommitConflict unless every data file with a new deletion vector is in the table after the commit."""
    live_files = {(entry.partition, entry.bucket, entry.file.name) for entry in live}
    # Deletions before additions: an upgraded file is in both, and is there afterwards.
    live_files -= {
        (entry.partition, entry.bucket, entry.file.name) for entry in entries if entry.kind is FileKind.DELETE
    }
    live_files |= {(entry.partition, entry.bucket, entry.file.name) for entry in entries if entry.kind is FileKind.ADD}
    for entry in index:
        for vector in entry.vector_ranges or () if entry.kind is FileKind.ADD else ():
            if (entry.partition, entry.bucket, vector.data_file) not in live_files:
                raise CommitConflict(
                    "a file whose rows this compaction marks as deleted was compacted away meanwhile",
                    table=table,
                    bucket=entry.bucket,
                    file=vector.data_file,
                    hint="compact the bucket again; a dropped compaction loses no data",
                )
