"""Splits: the files of one bucket that a reader reads together, and how files are divided into them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from penstock.table.buckets.layout import Layout
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.merge.sorted_runs import Section, sections
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import Bucket, ManifestEntry, VectorRange
from penstock.table.options.changelogs import DELETION_VECTORS_ENABLED
from penstock.table.options.scans import SOURCE_SPLIT_OPEN_FILE_COST, SOURCE_SPLIT_TARGET_SIZE


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """The position of a data file's deletion vector: its index file and the byte range in it."""

    index_file: str
    bucket: Bucket
    range: VectorRange
    external_path: str | None = None


class SplitKeys(Enum):
    """The keys of a split whose changes are read."""

    ALL = "all"
    DELETED = "deleted"  # those that the files of the split delete in the end
    KEPT = "kept"  # the others


@dataclass(frozen=True, slots=True)
class Split:
    """Files of one bucket that are read together.

    With `raw` each file is read by itself; otherwise their rows are merged by key. `branch` and `schema_id` are set for
    files of the fallback branch, and name it and its schema. `keys` applies to reads of changes only.
    """

    partition: bytes
    bucket: int
    files: tuple[DataFile, ...]
    raw: bool
    vectors: dict[str, VectorPlace] = field(default_factory=dict)
    branch: str | None = None
    schema_id: int = 0
    keys: SplitKeys = SplitKeys.ALL

    @property
    def rows(self) -> int:
        return sum(file.row_count for file in self.files)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def invisible_level_0(layout: Layout) -> bool:
    """Return whether rows on level 0 are invisible until a compaction moves them to a higher level.

    This is so in first-row tables and in tables with deletion vectors.
    """
    options = layout.schema.typed
    return layout.has_keys and (merge_engine(options).oldest_wins or options[DELETION_VECTORS_ENABLED])


def is_settled(files: Sequence[DataFile]) -> bool:
    """Return whether all files of the bucket are on one level above 0, so that no key occurs in two files."""
    levels = {file.level for file in files}
    return len(levels) == 1 and 0 not in levels


def bucket_splits(
    layout: Layout, bucket: Bucket, entries: Sequence[ManifestEntry], vectors: dict[Bucket, dict[str, VectorPlace]]
) -> Iterator[Split]:
    """Yield the splits of one bucket: its files, grouped so that rows to be merged are in one split."""
    options = layout.schema.typed
    target = options[SOURCE_SPLIT_TARGET_SIZE]
    opening = options[SOURCE_SPLIT_OPEN_FILE_COST]
    files = [entry.file for entry in entries]
    deleted = vectors.get(bucket, {})
    if not layout.has_keys:
        # Rows of an append table are returned in the order in which they were written.
        files.sort(key=lambda file: (file.min_sequence, file.creation_millis or 0, file.name))
        units = [([file], True) for file in files]
    # No key has rows in two of these files: each can be read by itself.
    elif invisible_level_0(layout) or (is_settled(files) and not any(file.delete_row_count for file in files)):
        units = [([file], True) for file in files]
    elif sum(file.size for file in files) <= target:
        # A small bucket becomes one split; its reader determines the sections.
        yield Split(*bucket, tuple(files), len(files) == 1 and files[0].delete_row_count == 0, deleted)
        return
    else:
        units = [(list(section.data_files), _is_raw(section)) for section in sections(files, layout.key_types)]
    for unit, raw in _packed(units, target, opening):
        named = {file.name: deleted[file.name] for file in unit if file.name in deleted}
        yield Split(*bucket, tuple(unit), raw, named)


def _is_raw(section: Section) -> bool:
    files = section.data_files
    return len(files) == 1 and files[0].delete_row_count == 0


def _packed(
    units: list[tuple[list[DataFile], bool]], target: int, opening: int
) -> Iterator[tuple[list[DataFile], bool]]:
    """Pack consecutive units of the same kind up to the target size.

    A section is never divided, and raw and merged files are never mixed.
    """
    packed: list[DataFile] = []
    weight, packed_raw = 0, True
    for files, raw in units:
        # Opening a file costs about as much as reading `opening` bytes. Without this minimum, a split could have
        # thousands of small files.
        more = sum(max(file.size, opening) for file in files)
        if packed and (raw != packed_raw or weight + more > target):
            yield packed, packed_raw
            packed, weight = [], 0
        packed, weight, packed_raw = packed + files, weight + more, raw
    if packed:
        yield packed, packed_raw


def only(split: Split, files: Sequence[DataFile]) -> Split:
    """Return the split with only these of its files."""
    return replace(split, files=tuple(files))
