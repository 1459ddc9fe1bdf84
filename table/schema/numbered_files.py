"""Files that carry a number after their prefix: schema-0, snapshot-7, changelog-3."""

from __future__ import annotations

from penstock.storage.base import Entry, Storage
from penstock.table.values.names import path_step

MAIN_BRANCH = "main"


def branch_folder(table_path: str, branch: str | None) -> str:
    """The folder that holds a branch's schema/, snapshot/ and tag/; the table itself for the main branch."""
    if branch is None or branch == MAIN_BRANCH:
        return table_path
    return f"{table_path}/branch/branch-{path_step(branch, 'branch', table=table_path)}"


def numbers_in(storage: Storage, folder: str, prefix: str) -> list[int]:
    """The numbers in rising order. Temporary files, checksums and whatever else lies there are passed over."""
    return sorted(numbered(storage, folder, prefix))


def numbered(storage: Storage, folder: str, prefix: str) -> dict[int, Entry]:
    """The files by their numbers, as the folder lists them."""
    found = (entry for entry in storage.list(folder) if not entry.is_dir)
    return {int(entry.name[len(prefix) :]): entry for entry in found if _is_numbered(entry.name, prefix)}


def _is_numbered(name: str, prefix: str) -> bool:
    digits = name.removeprefix(prefix)
    return name.startswith(prefix) and digits.isascii() and digits.isdigit()
