"""The ids of fetched messages, as texts that are made only for the messages that need one, such as dead letters."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EntryIds:
    """The ids of messages, by the entries that contain them.

    `entries` are ledger, entry and first index, and `firsts` the number of the first message of each entry.
    """

    entries: tuple[tuple[int, int, int], ...]
    firsts: tuple[int, ...]
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> str:
        """Return the id of a message by its number, as `ledger:entry:index`."""
        at = bisect_right(self.firsts, number) - 1
        ledger, entry, index = self.entries[at]
        return f"{ledger}:{entry}:{index + number - self.firsts[at]}"
