"""Merging of manifest entries, each of which adds or deletes a file."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import TableCorrupt
from penstock.table.meta.entries import FileKind, ManifestEntry


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
            raise _corrupt("a manifest adds a file that the table already contains", entry, facts)
        else:
            left[added] = entry
    return list(left.values())


def live_files(entries: Iterable[ManifestEntry], **facts: object) -> list[ManifestEntry]:
    """Return the files of a table, given all entries of a snapshot.

    Raise TableCorrupt when an entry deletes a file that does not exist.
    """
    left = merge_entries(entries, **facts)
    for entry in left:
        if entry.kind is FileKind.DELETE:
            raise _corrupt("a manifest deletes a file that the table does not contain", entry, facts)
    return left


def _corrupt(message: str, entry: ManifestEntry, facts: dict[str, object]) -> TableCorrupt:
    where = {"file": entry.file.name, "bucket": entry.bucket, "level": entry.file.level}
    return TableCorrupt(message, hint=None, **{**where, **facts})
