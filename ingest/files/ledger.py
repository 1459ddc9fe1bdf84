"""The record of which files belong to which batch: numbered JSON entries in a folder of the checkpoint.

The list of a batch is written before Spark learns its number, so that a batch planned again has the same files even if
the folder has changed since. Every fiftieth entry repeats all names of captured files; entries older than the last such
entry but one are deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from penstock.errors import PositionLost
from penstock.storage.state_folder import StateFolder

COMPLETE_EVERY = 50
# What to do when an entry is damaged or missing.
_RESTORED = (
    "restore the file from a backup of the checkpoint: it says which files the pipeline has read. Without it,  "
    "--checkpoint NEW --accept-replay  reads all files of the folder again"
)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file seen in the source's folder: `name` is relative to it, `modified` is in nanoseconds."""

    name: str
    size: int
    modified: int


class Ledger:
    """The ledger of one source. Only the driver writes; a batch that was planned before is answered from its entry."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._captured: dict[str, tuple[int, int | None]] = {}  # batch and size by name
        self._read_to = 0

    def entry(self, batch: int) -> list[FoundFile] | None:
        """Return the files of a batch, None if its entry was never written."""
        content = self._content(batch)
        return None if content is None else [FoundFile(*fields) for fields in content["files"]]

    def planned(self, batch: int) -> list[FoundFile]:
        """Return the files of a batch that was planned. PositionLost if its entry is gone.

        A table that was parked for very many batches needs entries that are deleted.
        """
        files = self.entry(batch)
        if files is None:
            raise PositionLost(
                "the record of the files of a batch is not in the checkpoint any more", batch=batch, hint=_RESTORED
            )
        return files

    def write(self, batch: int, files: list[FoundFile]) -> None:
        """Write the entry of a batch, and delete old entries when the entry is a complete one.

        An entry that exists stays: another driver has planned the batch meanwhile, and may have read its files.
        """
        captured = self.captured_before(batch) | {file.name: file.size for file in files}
        content: dict[str, Any] = {"files": [[file.name, file.size, file.modified] for file in files]}
        if batch % COMPLETE_EVERY == 0:
            content["taken"] = sorted(captured)
            content["sizes"] = [captured[name] for name in content["taken"]]
        # The complete entry is written before older ones are deleted: a crash between the two leaves files that are
        # merely not needed any more.
        is_ours = self._folder.create(_name(batch), json.dumps(content, separators=(",", ":")).encode())
        if is_ours and batch % COMPLETE_EVERY == 0:
            self._delete_old(batch)

    def captured_before(self, batch: int) -> dict[str, int | None]:
        """Return the names of all files in batches before this one, with their sizes then.

        Sizes of files that an older version has recorded may be unknown.
        """
        if self._read_to == 0 and batch > 1:
            self._read_complete(batch)
        for number in range(self._read_to + 1, batch):
            for file in self.planned(number):
                self._captured[file.name] = number, file.size
        self._read_to = max(self._read_to, batch - 1)
        # A batch that is planned again must not see its own files, or later ones, as captured.
        return {name: size for name, (number, size) in self._captured.items() if number < batch}

    def _read_complete(self, batch: int) -> None:
        # The last complete entry and those after it suffice, however long the pipeline has run.
        number = (batch - 1) // COMPLETE_EVERY * COMPLETE_EVERY
        content = self._content(number) if number else None
        if content is not None:
            taken = content["taken"]
            sizes = content.get("sizes", [None] * len(taken))
            self._captured = {name: (number, size) for name, size in zip(taken, sizes, strict=True)}
            self._read_to = number
        elif number:
            self.planned(number)

    def _content(self, batch: int) -> dict[str, Any] | None:
        entry = self._folder.read_json(_name(batch), _RESTORED)
        return None if entry is None else dict(entry)

    def _delete_old(self, batch: int) -> None:
        # The entries from the previous complete one on stay: they are read if this batch is planned again.
        for number in range(max(1, batch - 2 * COMPLETE_EVERY), batch - COMPLETE_EVERY):
            self._folder.delete(_name(number))


def _name(batch: int) -> str:
    return f"{batch}.json"
