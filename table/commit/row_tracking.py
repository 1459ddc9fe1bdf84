"""Row ids (`row-tracking.enabled`): each commit assigns the next free ids to the rows of its new files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.table.commit.changes import Changes
from penstock.table.meta.data_file import FileSource
from penstock.table.meta.entries import FileKind, ManifestEntry
from penstock.table.meta.snapshot import Snapshot
from penstock.table.options.table_options import TableOptions
from penstock.table.options.writers import ROW_TRACKING_ENABLED


def with_row_ids(changes: Changes, latest: Snapshot | None, options: Mapping[str, str]) -> tuple[Changes, int]:
    """Return the changes with row ids and sequence numbers, and the first row id of the next commit.

    The sequence number of a row is the id of the snapshot that wrote it, so both depend on the snapshot this commit
    follows.
    """
    next_id = latest.next_row_id if latest else 0
    if not TableOptions(options)[ROW_TRACKING_ENABLED]:
        return changes, next_id
    snapshot_id = latest.id + 1 if latest else 1
    entries: list[ManifestEntry] = []
    for entry in changes.entries:
        file = replace(entry.file, min_sequence=snapshot_id, max_sequence=snapshot_id)
        new = entry.kind is FileKind.ADD and file.source == FileSource.APPEND and file.first_row_id is None
        if new:
            file = replace(file, first_row_id=next_id)
            next_id += file.row_count
        entries.append(replace(entry, file=file))
    return replace(changes, entries=entries), next_id
