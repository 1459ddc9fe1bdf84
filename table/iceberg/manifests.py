"""Iceberg's manifests, which list data files or deletion vectors, as values: their entries, and what lists name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Status(IntEnum):
    """The change of a file in the snapshot that wrote the manifest, as the number in manifests."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Content(IntEnum):
    """The kind of files in a manifest, as the number in manifest lists."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True)
class IcebergEntry:
    """An entry of a manifest. `file` is the record `data_file`, as Avro contains it."""

    status: Status
    snapshot: int
    sequence: int
    file_sequence: int
    file: Mapping[str, Any]

    @property
    def path(self) -> str:
        return str(self.file["file_path"])

    @property
    def is_live(self) -> bool:
        return self.status is not Status.DELETED

    def as_existing(self) -> IcebergEntry:
        return IcebergEntry(Status.EXISTING, self.snapshot, self.sequence, self.file_sequence, self.file)

    def as_deleted(self, snapshot: int) -> IcebergEntry:
        return IcebergEntry(Status.DELETED, snapshot, self.sequence, self.file_sequence, self.file)


def new_entry(snapshot: int, file: Mapping[str, Any]) -> IcebergEntry:
    """Return the entry of a file that the snapshot adds."""
    return IcebergEntry(Status.ADDED, snapshot, snapshot, snapshot, file)


@dataclass(frozen=True, slots=True)
class Manifest:
    """An entry of a manifest list. The counts are files and rows that were added, that existed, and deleted."""

    path: str
    length: int
    content: Content
    sequence: int
    least_sequence: int
    snapshot: int
    files: tuple[int, int, int]
    rows: tuple[int, int, int]
    partitions: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_empty(self) -> bool:
        """Return whether all files of the manifest are deleted."""
        return self.files[0] == 0 and self.files[1] == 0


def entry_record(entry: IcebergEntry) -> dict[str, Any]:
    """Return the entry as a record of a manifest."""
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot,
        "sequence_number": entry.sequence,
        "file_sequence_number": entry.file_sequence,
        "data_file": entry.file,
    }


def entry_of(record: Mapping[str, Any], manifest: Manifest) -> IcebergEntry:
    """Return the entry that a record of the manifest describes."""
    # Other writers leave the numbers of new files to the manifest list.
    snapshot, sequence, of_file = (record[name] for name in ("snapshot_id", "sequence_number", "file_sequence_number"))
    return IcebergEntry(
        Status(record["status"]),
        manifest.snapshot if snapshot is None else snapshot,
        manifest.sequence if sequence is None else sequence,
        manifest.sequence if of_file is None else of_file,
        record["data_file"],
    )


_STATES = ("added", "existing", "deleted")


def manifest_record(manifest: Manifest, *, legacy: bool) -> dict[str, Any]:
    """Return the manifest as a record of a manifest list."""
    files = "data_files" if legacy else "files"
    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "content": int(manifest.content),
        "sequence_number": manifest.sequence,
        "min_sequence_number": manifest.least_sequence,
        "added_snapshot_id": manifest.snapshot,
        "partition_spec_id": 0,
        "partitions": list(manifest.partitions),  # fastavro takes a tuple for the name of a union's branch
        **{f"{state}_{files}_count": count for state, count in zip(_STATES, manifest.files, strict=True)},
        **{f"{state}_rows_count": count for state, count in zip(_STATES, manifest.rows, strict=True)},
    }


def manifest_of(record: Mapping[str, Any]) -> Manifest:
    """Return the manifest that a record of a manifest list describes."""
    files = "data_files" if "added_data_files_count" in record else "files"
    added_files, existing, deleted = (record[f"{state}_{files}_count"] for state in _STATES)
    added_rows, existing_rows, deleted_rows = (record[f"{state}_rows_count"] for state in _STATES)
    return Manifest(
        record["manifest_path"],
        record["manifest_length"],
        Content(record["content"]),
        record["sequence_number"],
        record["min_sequence_number"],
        record["added_snapshot_id"],
        (added_files, existing, deleted),
        (added_rows, existing_rows, deleted_rows),
        tuple(record["partitions"] or ()),
    )
