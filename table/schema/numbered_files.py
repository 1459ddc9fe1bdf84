"""Files with a number after a prefix: schema-0, snapshot-7, changelog-3."""

from __future__ import annotations

from penstock.storage.base import Entry, Storage
from penstock.table.values.names import path_step

MAIN_BRANCH = "main"


def branch_folder(table_path: str, branch: str | None) -> str:
    """Return the folder that contains a branch's schema/, snapshot/ and tag/.

    For the main branch it is the table's folder.
    """
    if branch is None or branch == MAIN_BRANCH:
        return table_path
    return f"{table_path}/branch/branch-{path_step(branch, 'branch', table=table_path)}"


def numbers_in(storage: Storage, folder: str, prefix: str) -> list[int]:
    """Return the numbers in ascending order. Temporary files, checksums and other files are ignored."""
    return sorted(numbered(storage, folder, prefix))


def numbered(storage: Storage, folder: str, prefix: str) -> dict[int, Entry]:
    """Return the files by number, as the folder lists them."""
    start, found = len(prefix), {}
    for entry in storage.list(folder):
        name = entry.name
        if name.startswith(prefix) and not entry.is_dir:
            digits = name[start:]
            # isdigit alone accepts the digits of other scripts, and int() reads them.
            if digits.isascii() and digits.isdigit():
                found[int(digits)] = entry
    return found
