"""The record of which files belong to which batch: numbered JSON entries in the checkpoint folder.

The list of a batch is written before Spark learns its number, so that a batch planned again has the same files even if
the folder has changed since. Every fiftieth entry repeats all names of captured files; entries older than the last such
entry but one are deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyarrow import fs

COMPLETE_EVERY = 50


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file seen in the source's folder: `name` is relative to it, `modified` is in nanoseconds."""

    name: str
    size: int
    modified: int


class Ledger:
    """The ledger of one source. Only the driver writes; a batch that was planned before is answered from its entry."""

    def __init__(self, location: str) -> None:
        self._store, self._folder = file_system(location)
        self._taken: dict[str, int] = {}  # name -> batch
        self._read_to = 0

    def entry(self, batch: int) -> list[FoundFile] | None:
        """Return the files of a batch, None if its entry was never written."""
        content = self._content(batch)
        return None if content is None else [FoundFile(*fields) for fields in content["files"]]

    def write(self, batch: int, files: list[FoundFile]) -> None:
        """Write the entry of a batch, and delete old entries when the entry is a complete one."""
        taken = self.taken_before(batch) | {file.name for file in files}
        content: dict[str, Any] = {"files": [[file.name, file.size, file.modified] for file in files]}
        if batch % COMPLETE_EVERY == 0:
            content["taken"] = sorted(taken)
        self._store.create_dir(self._folder, recursive=True)
        half = f"{self._folder}/.{batch}.json"
        with self._store.open_output_stream(half) as out:
            out.write(json.dumps(content, separators=(",", ":")).encode())
        self._store.move(half, self._path(batch))
        if batch % COMPLETE_EVERY == 0:
            self._clean(batch)

    def taken_before(self, batch: int) -> set[str]:
        """Return the names of all files in batches before this one."""
        if self._read_to == 0 and batch > 1:
            self._read_complete(batch)
        for number in range(self._read_to + 1, batch):
            for file in self.entry(number) or []:
                self._taken[file.name] = number
        self._read_to = max(self._read_to, batch - 1)
        return {name for name, number in self._taken.items() if number < batch}

    def _read_complete(self, batch: int) -> None:
        number = (batch - 1) // COMPLETE_EVERY * COMPLETE_EVERY
        content = self._content(number) if number else None
        if content is not None:
            self._taken = dict.fromkeys(content["taken"], number)
            self._read_to = number

    def _content(self, batch: int) -> dict[str, Any] | None:
        try:
            with self._store.open_input_stream(self._path(batch)) as entry:
                content: dict[str, Any] = json.loads(entry.read())
        except FileNotFoundError:
            return None
        return content

    def _path(self, batch: int) -> str:
        return f"{self._folder}/{batch}.json"

    def _clean(self, batch: int) -> None:
        for number in range(batch - 2 * COMPLETE_EVERY, batch - COMPLETE_EVERY):
            if number > 0 and self._store.get_file_info(self._path(number)).type == fs.FileType.File:
                self._store.delete_file(self._path(number))


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a plain path or a URI (s3, gs, hdfs, file), and the path in it."""
    if "://" not in location:
        return fs.LocalFileSystem(), location.rstrip("/") or "/"
    if location.startswith("hdfs://"):
        from penstock.ingest.files.hdfs import hdfs_files

        return hdfs_files(location)
    store, path = fs.FileSystem.from_uri(location)
    return store, path.rstrip("/")
