"""A folder of numbered files with the hint files LATEST and EARLIEST: snapshot/ and changelog/."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.storage.base import Storage
from penstock.table.schema.numbered_files import numbers_in

HINT_TRIES = 3


@dataclass(frozen=True, slots=True)
class HintedFolder:
    """The numbered files of a folder, found by hints.

    Every hint is verified against the files. A wrong, missing or truncated hint only costs a listing.
    """

    storage: Storage
    folder: str
    prefix: str

    def path(self, number: int) -> str:
        return f"{self.folder}/{self.prefix}{number}"

    def exists(self, number: int) -> bool:
        return self.storage.exists(self.path(number))

    def numbers(self) -> list[int]:
        return numbers_in(self.storage, self.folder, self.prefix)

    def latest(self) -> int | None:
        """Return the highest number, or None if the folder is empty."""
        hint = self._hint("LATEST")
        if hint is not None and not self.exists(hint + 1) and self.exists(hint):
            return hint
        newest = self._listed(max)
        # A listing may lag behind the latest writes.
        while newest is not None and self.exists(newest + 1):
            newest += 1
        return newest

    def earliest(self) -> int | None:
        """Return the lowest number, or None if the folder is empty."""
        hint = self._hint("EARLIEST")
        if hint is not None and self.exists(hint):
            return hint
        return self._listed(min)

    def begins_after(self, number: int) -> bool:
        """Return whether a file with this number would precede the earliest file, in the range that has expired."""
        hint = self._hint("EARLIEST")
        return hint is not None and hint > number and self.exists(hint)

    def _listed(self, choose: Callable[[list[int]], int]) -> int | None:
        numbers = self.numbers()
        return choose(numbers) if numbers else None

    def _hint(self, name: str) -> int | None:
        try:
            text = self.storage.read(f"{self.folder}/{name}").strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdigit() and len(text) < 19 else None

    def write_latest(self, number: int) -> None:
        self._write_hint("LATEST", number)

    def write_earliest(self, number: int) -> None:
        self._write_hint("EARLIEST", number)

    def delete_hints(self) -> None:
        self.storage.delete(f"{self.folder}/LATEST")
        self.storage.delete(f"{self.folder}/EARLIEST")

    def _write_hint(self, name: str, number: int) -> None:
        # Failing to write a hint is not an error, because readers do not depend on it.
        for _ in range(HINT_TRIES):
            try:
                return self.storage.write(f"{self.folder}/{name}", str(number).encode())
            except OSError:
                continue
        return None
