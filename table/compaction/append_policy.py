"""Choice of the files of an append table to compact: in order within a bucket, by size in tables without buckets."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.table.meta.data_file import DataFile
from penstock.table.options.compaction import COMPACTION_DELETE_RATIO_THRESHOLD, COMPACTION_MIN_FILE_NUM
from penstock.table.options.files import TARGET_FILE_SIZE
from penstock.table.options.scans import SOURCE_SPLIT_OPEN_FILE_COST
from penstock.table.options.table_options import TableOptions

MB = 1 << 20
LEAST_FILES_OF_ALL = 3  # a full compaction of fewer files is not worth it
IDLE_FILES = 3  # so many small files without buckets are compacted in the background


@dataclass(frozen=True, slots=True)
class AppendPolicy:
    """The compaction options of an append table."""

    target_size: int = 256 * MB
    min_files: int = 5
    open_cost: int = 4 * MB
    delete_ratio: float = 0.2  # a large file is rewritten too once this share of its rows is deleted

    @classmethod
    def of(cls, options: TableOptions) -> AppendPolicy:
        """Return the policy that a table's options set."""
        return cls(
            target_size=options.get(TARGET_FILE_SIZE, 256 * MB),
            min_files=options[COMPACTION_MIN_FILE_NUM],
            open_cost=options[SOURCE_SPLIT_OPEN_FILE_COST],
            delete_ratio=float(options[COMPACTION_DELETE_RATIO_THRESHOLD]),
        )


def pick_window(policy: AppendPolicy, files: Sequence[DataFile]) -> list[DataFile]:
    """Return the oldest neighbouring files of a bucket that are worth compacting; empty if nothing is due.

    `files` must be in the order of their sequence numbers, which the result keeps.
    """
    window: list[DataFile] = []
    size = 0
    for file in files:
        window.append(file)
        size += file.size
        if len(window) >= policy.min_files:
            return window
        # Java's rule: files this large are not worth rewriting with the oldest one, so it leaves the window, which
        # moves on.
        if size >= policy.target_size:
            size -= window.pop(0).size
    return []


def pick_bucket(policy: AppendPolicy, files: Sequence[DataFile], deleted: Container[str] = ()) -> list[DataFile]:
    """Return the files of a full compaction of a bucket: all but the large files at its beginning.

    Returns no files if the compaction is not worth it. Large files named in `deleted` have deleted rows and are
    rewritten with the rest.
    """
    skipped = 0
    while skipped < len(files) and _is_large(policy, files[skipped]) and files[skipped].name not in deleted:
        skipped += 1
    rest = list(files[skipped:])
    if any(file.name in deleted for file in rest):
        return rest
    large = sum(1 for file in rest if _is_large(policy, file))
    worth = len(rest) >= LEAST_FILES_OF_ALL and len(rest) - large > large
    return rest if worth else []


def _is_large(policy: AppendPolicy, file: DataFile) -> bool:
    return file.size >= policy.target_size


def pick_bins(
    policy: AppendPolicy,
    files: Sequence[DataFile],
    deleted_rows: Mapping[str, int] | None = None,
    *,
    full: bool = False,
) -> list[list[DataFile]]:
    """Return the small files of a partition without buckets, packed into bins. The order of rows is not kept.

    As in Java, files with deleted rows are packed first and never left over; a bin of other files is complete when it
    is large or has enough files. With `full`, two files are enough, and every file with a deleted row is included.
    """
    deleted, least = deleted_rows or {}, 2 if full else policy.min_files
    worth = [file for file in files if _is_worth(policy, file, deleted, full=full)]
    marked = [file for file in worth if file.name in deleted]
    rest = [file for file in worth if file.name not in deleted]
    bins = _packed(policy, marked, 1)
    return bins + (_packed(policy, rest, least) if not deleted or len(rest) > 1 else [])


def pick_idle_bins(
    policy: AppendPolicy, files: Sequence[DataFile], deleted_rows: Mapping[str, int]
) -> list[list[DataFile]]:
    """Return the bins that a compaction in the background rewrites.

    Java rewrites two files and more once a partition had no new ones for six rounds. This needs no memory of rounds,
    and with three files a rewritten file is not rewritten again for each new one.
    """
    return pick_bins(replace(policy, min_files=min(policy.min_files, IDLE_FILES)), files, deleted_rows)


def _packed(policy: AppendPolicy, files: Sequence[DataFile], least: int) -> list[list[DataFile]]:
    bins: list[list[DataFile]] = []
    current: list[DataFile] = []
    weight = 0
    for file in sorted(files, key=lambda file: file.size):
        current.append(file)
        weight += file.size + policy.open_cost
        if len(current) > 1 and weight >= 2 * policy.target_size:
            bins.append(current)
            current, weight = [], 0
    if len(current) >= least:
        bins.append(current)
    return bins


def _is_worth(policy: AppendPolicy, file: DataFile, deleted_rows: Mapping[str, int], *, full: bool) -> bool:
    # Java's bound. Files that rolled at the target size may be smaller, and must not be rewritten again and again.
    if file.size < policy.target_size // 10 * 7:
        return True
    count = deleted_rows.get(file.name, 0)
    return count > 0 if full else count > policy.delete_ratio * file.row_count
