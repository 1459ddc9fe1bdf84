"""What makes a commit impossible on the state it meets (table-format 12.3, reliability 1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from penstock.errors import CommitConflict, ConfigError
from penstock.table.meta.entries import FileKind, ManifestEntry

DecodeKey = Callable[[bytes], tuple[object, ...]]


class ForeignWriter(CommitConflict):
    """Another job writes the same bucket: sequence numbers would no longer say which row is later."""


def check_bucket_totals(live: Iterable[ManifestEntry], added: Sequence[ManifestEntry], table: str) -> None:
    """All files of a partition share one number of buckets; a changed option needs an overwrite first."""
    totals: dict[bytes, int] = {}
    for entry in live:
        if entry.total_buckets > 0:
            totals[entry.partition] = entry.total_buckets
    for entry in added:
        known = totals.setdefault(entry.partition, entry.total_buckets) if entry.total_buckets > 0 else None
        if known is not None and known != entry.total_buckets:
            raise ConfigError(
                f"Try to write table with a new bucket num {entry.total_buckets}, but the previous bucket num is "
                f"{known}",
                table=table,
                hint="rescale the partition first: overwrite it with the new bucket number (penstock rescale)",
            )


def check_deletes(live: Iterable[ManifestEntry], entries: Sequence[ManifestEntry], table: str) -> None:
    """Every file taken away is still there, and no file is added twice."""
    present = {entry.identity for entry in live}
    for entry in entries:
        if entry.kind is FileKind.DELETE:
            if entry.identity not in present:
                raise CommitConflict(
                    "File deletion conflicts detected: another writer has already taken this file away",
                    table=table,
                    file=entry.file.name,
                    bucket=entry.bucket,
                    hint="read the bucket's new state and compact again; a lost compaction loses no data",
                )
            present.discard(entry.identity)
        elif entry.identity in present:
            raise CommitConflict("this file is already part of the table", table=table, file=entry.file.name)
        else:
            present.add(entry.identity)


def check_levels(
    live: Iterable[ManifestEntry], entries: Sequence[ManifestEntry], decode_key: DecodeKey, table: str
) -> None:
    """Above level 0 the files of one level never overlap in key range."""
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
    for (_, greatest, left), (least, _, right) in itertools.pairwise(ranges):
        if not greatest < least:
            raise CommitConflict(
                f"files of level {left.file.level} overlap: another compaction worked on the same keys",
                table=table,
                file=left.file.name,
                other_file=right.file.name,
                bucket=left.bucket,
            )


def check_foreign_rows(
    between: Iterable[tuple[str, int, ManifestEntry]],
    starts: dict[tuple[bytes, int], tuple[int, int]],
    table: str,
) -> None:
    """`between`: (commit user, snapshot, entry) of rows committed after our writers looked; `starts`: per bucket the
    snapshot its writer read and the first sequence number it gave out. A second driver of the same job counts as well.
    """
    for other, snapshot, entry in between:
        start = starts.get((entry.partition, entry.bucket))
        if start is None or entry.kind is not FileKind.ADD:
            continue
        base, sequence = start
        if snapshot > base and entry.file.max_sequence >= sequence:
            raise ForeignWriter(
                f"{other!r} wrote to a bucket this job writes",
                table=table,
                bucket=entry.bucket,
                snapshot=snapshot,
                file=entry.file.name,
                hint="let one job write a primary-key bucket, or set write-only on all but one and compact apart",
            )


def check_foreign_keys(between: Iterable[tuple[str, int, ManifestEntry]], table: str) -> None:
    """Where keys move between partitions, rows in any bucket may tell that a key lies elsewhere than our index has it.

    `between` as above, after the snapshot that our index was read at.
    """
    for other, snapshot, entry in between:
        if entry.kind is FileKind.ADD and entry.file.level == 0:
            raise ForeignWriter(
                f"{other!r} wrote to a table whose keys this job moves between partitions",
                table=table,
                bucket=entry.bucket,
                snapshot=snapshot,
                file=entry.file.name,
                hint="let one job write a table whose primary key does not hold its partition keys",
            )
