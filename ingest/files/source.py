"""Folders of JSON lines as a source: each new file is read once, in a recorded order.

Offsets: {"batch": n}, where n is the number of the ledger entry. Files must appear complete (write elsewhere, then
move): a file is read up to the size it had when it was seen.
"""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from penstock.errors import SourceError
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.ingest.files.ledger import FoundFile, Ledger
from penstock.ingest.files.lines import SourceFile, compression_of, read_lines
from penstock.ingest.source import SMALL_BYTES, Limit, Offsets, Range, cut, piece_size
from penstock.storage.base import Storage
from penstock.storage.open import open_storage
from penstock.storage.state_folder import StateFolder

log = logging.getLogger(__name__)

SMALLEST_PIECE_BYTES = 16 << 20
_LOOKS_BACK = 1 << 20  # bytes, in which the line before a piece is looked for first
SAMPLE_BYTES = 256 << 10
# Names of files that writers have not finished, of checksums, and of markers such as _SUCCESS.
_UNFINISHED = ("*.tmp", "*.inprogress", "*.crc", "*.part", ".*", "_*")


@dataclass(frozen=True, slots=True)
class FilesSettings:
    """The settings of a source of files. `order`: files of a batch sorted by time (then name), or by name.

    The store of `path` takes its credentials from the environment, since it is often not the warehouse's store.
    """

    path: str
    ledger: StateFolder
    pattern: str = "*"
    order: Literal["time", "name"] = "time"


@dataclass(slots=True)
class FilesSource:
    """A `Source` over a folder and its subfolders."""

    settings: FilesSettings
    _ledger: Ledger | None = field(default=None, repr=False, compare=False)
    _warned: set[str] = field(default_factory=set, repr=False, compare=False)  # names of files

    def __reduce__(self) -> tuple[type[FilesSource], tuple[FilesSettings]]:
        return FilesSource, (self.settings,)

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(self.settings.ledger)
        return self._ledger

    def initial_offsets(self) -> Offsets:
        return {"batch": 0}

    def available(self) -> Offsets:
        return {"names": [file.name for file in self._found()]}

    def other_names(self) -> list[str]:
        """Return the complete files that the pattern leaves out."""
        everything = FilesSource(replace(self.settings, pattern="*"))
        accepted = {file.name for file in self._found()}
        return [file.name for file in everything._found() if file.name not in accepted]

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        batch = int(start["batch"]) + 1
        # If it exists, the batch was planned before a crash and keeps its files.
        if self.ledger.entry(batch) is None:
            found, captured = self._found(), self.ledger.captured_before(batch)
            self._warn_of_changed(found, captured)
            new = _new_files(found, captured, until)
            if not new:
                return start
            self.ledger.write(batch, self._limited(new, limit))
        return {"batch": batch}

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        files = [file for batch in range(start["batch"] + 1, end["batch"] + 1) for file in self.ledger.planned(batch)]
        # A compressed file is one piece, because it can only be read from its beginning.
        size = piece_size([file.size for file in files], tasks, SMALLEST_PIECE_BYTES)
        pieces = [
            (file, piece)
            for file in files
            if file.size
            for piece in ([(0, file.size)] if compression_of(file.name) else cut(0, file.size, size))
        ]
        return [
            Range(number, file.name, [begin, file.size], end, end - begin)
            for number, (file, (begin, end)) in enumerate(pieces)
        ]

    def small_weight(self) -> int:
        return SMALL_BYTES

    def read(self, range_: Range) -> Iterator[FetchedMessages]:
        return read_lines(self._file(range_), range_.start[0], range_.end)

    def last_before(self, range_: Range) -> FetchedMessages | None:
        """Return the last line of the file before a range."""
        file, begin = self._file(range_), range_.start[0]
        first, step = begin, _LOOKS_BACK
        while first:
            first, step = max(0, first - step), 16 * step
            found = list(read_lines(file, first, begin))
            if found:
                return found[-1].part(len(found[-1].messages) - 1, len(found[-1].messages))
        return None

    def _file(self, range_: Range) -> SourceFile:
        store, folder = _opened(self.settings.path)
        return SourceFile(store, folder, range_.place, range_.start[1])

    def is_shown_next(self, range_: Range, last: FetchedMessages) -> bool:
        """Return whether the file goes on after a range: messages of different files do not belong together."""
        return bool(range_.end < range_.start[1])

    def lag(self, offsets: Offsets) -> dict[str, int]:
        captured = self.ledger.captured_before(int(offsets["batch"]) + 1)
        return {file.name: file.size for file in _new_files(self._found(), captured, None)}

    def mirror(self, offsets: Offsets) -> None:
        """Do nothing: files have no place to mirror offsets to."""

    def close(self) -> None:
        self._ledger = None

    def _warn_of_changed(self, found: Iterable[FoundFile], captured: Mapping[str, int | None]) -> None:
        """Warn of files that were written again after they were read: once, as a file may grow all the time."""
        for file in found:
            read = captured.get(file.name)
            if read is None or read == file.size or file.name in self._warned:
                continue
            self._warned.add(file.name)
            log.warning(
                "event=file_changed_after_read file=%s size_read=%d size_now=%d note=each file is read once: its new"
                " lines are not read hint=write them into a file with another name",
                *(file.name, read, file.size),
            )

    def _found(self) -> list[FoundFile]:
        store, folder = _opened(self.settings.path)
        files = [FoundFile(entry.name, entry.size, entry.modified_nanos) for entry in store.walk(folder)]
        # A listing of a folder that does not exist is empty in an object store.
        if not files:
            self._check_folder(store, folder)
        by_time = self.settings.order == "time"
        return sorted(filter(self._is_wanted, files), key=lambda file: (file.modified if by_time else 0, file.name))

    def _check_folder(self, store: Storage, folder: str) -> None:
        """Raise a SourceError if the source folder does not exist, or is a file."""
        parent, _, name = folder.rpartition("/")
        is_file = any(entry.name == name and not entry.is_dir for entry in store.list(parent or "/"))
        if is_file or not store.exists(folder or "/"):
            raise SourceError(
                "the source folder is a file" if is_file else "the source folder does not exist",
                folder=self.settings.path,
                hint="create the folder, or correct  source: {path: ...}",
            )

    def _is_wanted(self, file: FoundFile) -> bool:
        parts = file.name.split("/")
        unfinished = any(fnmatch.fnmatchcase(part, mark) for part in parts for mark in _UNFINISHED)
        return fnmatch.fnmatchcase(parts[-1], self.settings.pattern) and not unfinished

    def _limited(self, files: list[FoundFile], limit: Limit) -> list[FoundFile]:
        """Return the first files within the limit, at least one.

        A row limit is converted to bytes by a sample of a file.
        """
        allowed = limit.bytes
        if limit.rows is not None:
            by_rows = int(limit.rows * self._bytes_per_line(files[0]))
            allowed = by_rows if allowed is None else min(allowed, by_rows)
        if allowed is None:
            return files
        # Sizes in the store: a compressed file counts with its compressed size, as in `_bytes_per_line`.
        ends = np.cumsum([file.size for file in files])
        return files[: max(1, int(np.searchsorted(ends, allowed, side="right")))]

    def _bytes_per_line(self, file: FoundFile) -> float:
        store, folder = _opened(self.settings.path)
        stored = store.read_range(f"{folder}/{file.name}", 0, min(SAMPLE_BYTES, file.size))
        codec = compression_of(file.name)
        if codec is None:
            return float(len(stored) / max(1, stored.count(b"\n")))
        lines = 0
        with pa.CompressedInputStream(pa.BufferReader(stored), codec) as plain:
            try:
                while block := plain.read(SAMPLE_BYTES):
                    lines += block.count(b"\n")
            except OSError:
                # The sample ends in the middle of the compressed stream.
                pass
        return float(len(stored) / max(1, lines))


def _new_files(found: Iterable[FoundFile], captured: Collection[str], until: Offsets | None) -> list[FoundFile]:
    wanted = None if until is None else set(until["names"])
    return [file for file in found if file.name not in captured and (wanted is None or file.name in wanted)]


def _opened(location: str) -> tuple[Storage, str]:
    store, folder = open_storage(location, {})
    return store, folder.rstrip("/")
