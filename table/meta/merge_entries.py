"""What is left of many entries, each of which adds a file or takes one away (table-format 4.5)."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import TableCorrupt
from penstock.table.meta.entries import FileKind, ManifestEntry


def merge_entries(entries: Iterable[ManifestEntry], **facts: object) -> list[ManifestEntry]:
    """The entries, older first, less each add that a later delete takes back.

    A delete whose add is not among them stays: it takes back an add of an older manifest. Adding a file that is there
    is TableCorrupt, with `facts` to say where.
    """
    left: dict[tuple[FileKind, tuple[object, ...]], ManifestEntry] = {}
    for entry in entries:
        added = FileKind.ADD, entry.identity
        if entry.kind is FileKind.DELETE:
            if left.pop(added, None) is None:
                left[FileKind.DELETE, entry.identity] = entry
        elif added in left:
            raise _corrupt("a manifest adds a file that the table already holds", entry, facts)
        else:
            left[added] = entry
    return list(left.values())


def live_files(entries: Iterable[ManifestEntry], **facts: object) -> list[ManifestEntry]:
    """What a table holds, given all entries of a snapshot. TableCorrupt when one takes away what is not there."""
    left = merge_entries(entries, **facts)
    for entry in left:
        if entry.kind is FileKind.DELETE:
            raise _corrupt("a manifest takes away a file that the table does not hold", entry, facts)
    return left


def _corrupt(message: str, entry: ManifestEntry, facts: dict[str, object]) -> TableCorrupt:
    where = {"file": entry.file.name, "bucket": entry.bucket, "level": entry.file.level}
    return TableCorrupt(message, hint=None, **{**where, **facts})
