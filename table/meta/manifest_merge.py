"""Merging of manifests, which limits their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.errors import TableCorrupt
from penstock.table.meta.entries import Bucket, FileKind, ManifestEntry, ManifestFile
from penstock.table.meta.manifest import may_contain
from penstock.table.meta.paths import POSTPONE_BUCKET
from penstock.table.options.commits import (
    MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE,
    MANIFEST_MERGE_MIN_COUNT,
    MANIFEST_TARGET_FILE_SIZE,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.values.types import DataType


def merge_entries(entries: Iterable[ManifestEntry], **facts: object) -> list[ManifestEntry]:
    """Return the entries, oldest first, without each ADD that a later DELETE cancels.

    A DELETE whose ADD is not among the entries is kept, because it cancels an ADD of an older manifest. Adding a file
    that already exists raises TableCorrupt with the `facts`.
    """
    left: dict[tuple[FileKind, tuple[object, ...]], ManifestEntry] = {}
    for entry in entries:
        added = FileKind.ADD, entry.identity
        if entry.kind is FileKind.DELETE:
            if left.pop(added, None) is None:
                left[FileKind.DELETE, entry.identity] = entry
        elif added in left:
            raise TableCorrupt(
                "a manifest adds a file that the table already contains",
                hint=None,
                **{"file": entry.file.name, "bucket": entry.bucket, "level": entry.file.level, **facts},
            )
        else:
            left[added] = entry
    return list(left.values())


Read: TypeAlias = Callable[[ManifestFile], Sequence[ManifestEntry]]
Write: TypeAlias = Callable[[Sequence[ManifestEntry]], list[ManifestFile]]


def merge_manifests(
    manifests: Sequence[ManifestFile],
    *,
    read: Read,
    write: Write,
    options: TableOptions,
    partition_types: Sequence[DataType],
) -> list[ManifestFile]:
    """Return the manifests of a snapshot, oldest first, with some of them merged. They describe the same data files.

    `write` splits the entries it gets into manifests of the target size. Needs memory for all entries of the merged
    manifests.
    """
    target = options[MANIFEST_TARGET_FILE_SIZE]
    threshold = options[MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE]
    # Manifests with deletes always count, however large: only a rewrite removes the deletes and the entries they
    # cancel.
    mergeable = {file.name for file in manifests if file.deleted_files > 0 or file.size < target}
    if sum(file.size for file in manifests if file.name in mergeable) >= threshold:
        merged = _full(manifests, mergeable, read, write, partition_types)
        if merged is not None:
            return merged
    return _minor(manifests, read, write, target, options[MANIFEST_MERGE_MIN_COUNT])


def _minor(manifests: Sequence[ManifestFile], read: Read, write: Write, target: int, count: int) -> list[ManifestFile]:
    """Merge neighbouring manifests whenever they reach the target size together, and the last ones if they are many."""
    result: list[ManifestFile] = []
    waiting: list[ManifestFile] = []
    # Only neighbours, because an entry that deletes a file must stay behind the entry that adds it.
    for manifest in manifests:
        waiting.append(manifest)
        if sum(file.size for file in waiting) >= target:
            result += _put_together(waiting, read, write)
            waiting = []
    return result + (_put_together(waiting, read, write) if len(waiting) >= count else waiting)


def _put_together(manifests: list[ManifestFile], read: Read, write: Write) -> list[ManifestFile]:
    if len(manifests) < 2:
        return manifests
    entries = merge_entries(entry for manifest in manifests for entry in read(manifest))
    return write(entries) if entries else []


def _full(
    manifests: Sequence[ManifestFile], mergeable: set[str], read: Read, write: Write, types: Sequence[DataType]
) -> list[ManifestFile] | None:
    """Merge manifests so that every DELETE entry is applied. Return None when there are fewer than two to merge.

    Large manifests without affected entries are kept.
    """
    deletes = _Deletes.of(manifests, read)
    # Manifests that cannot contain a deleted file are not even read.
    affected = {file.name for file in manifests if file.name in mergeable or deletes.may_affect(file, types)}
    if len(affected) < 2:
        return None
    kept: list[ManifestFile] = []
    merged: list[ManifestEntry] = []
    postponed = False  # whether files with postponed rows are among the merged entries
    for place, manifest in enumerate(manifests):
        # Postponed rows are merged in the order in which manifests list their files, so no older one may follow.
        follows = postponed and _may_have_postponed(manifest)
        if manifest.name not in affected and not follows:
            kept.append(manifest)
            continue
        entries = read(manifest)
        live = [entry for at, entry in enumerate(entries) if deletes.leave(entry, (place, at))]
        # A large manifest in which no file turns out to be deleted is kept.
        if manifest.name in mergeable or follows or len(live) < len(entries):
            merged += live
            postponed = postponed or any(entry.bucket == POSTPONE_BUCKET for entry in live)
        else:
            kept.append(manifest)
    # All deletes are applied, so that the merged entries may follow manifests that were newer.
    return kept + (write(merged) if merged else [])


def _may_have_postponed(manifest: ManifestFile) -> bool:
    return manifest.min_bucket is None or manifest.min_bucket <= POSTPONE_BUCKET


@dataclass(frozen=True, slots=True)
class _Deletes:
    """The position of the last DELETE of each file: the index of the manifest, and of the entry in it."""

    last: dict[tuple[object, ...], tuple[int, int]]
    buckets: set[Bucket]

    @classmethod
    def of(cls, manifests: Sequence[ManifestFile], read: Read) -> _Deletes:
        found = [
            ((place, at), entry)
            for place, manifest in enumerate(manifests)
            if manifest.deleted_files > 0
            for at, entry in enumerate(read(manifest))
            if entry.kind is FileKind.DELETE
        ]
        return cls({entry.identity: at for at, entry in found}, {(entry.partition, entry.bucket) for _, entry in found})

    def leave(self, entry: ManifestEntry, at: tuple[int, int]) -> bool:
        """Return whether the entry is an ADD that no later entry deletes."""
        # A file that was deleted and added again is live, so only a later DELETE counts.
        return entry.kind is FileKind.ADD and self.last.get(entry.identity, (-1, -1)) < at

    def may_affect(self, manifest: ManifestFile, types: Sequence[DataType]) -> bool:
        """Return whether the manifest may contain files of the buckets that have deletes."""
        low, high = manifest.min_bucket, manifest.max_bucket
        partitions = {
            partition for partition, bucket in self.buckets if low is None or high is None or low <= bucket <= high
        }
        return bool(partitions) and may_contain(manifest.partition_stats, partitions, types)
