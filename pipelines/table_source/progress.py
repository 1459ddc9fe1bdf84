"""How far a table was read, as it is stored in offsets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The end of a batch for one table, with the whole content of the batch, so that it can be planned again.

    First the rows of snapshot `state` are read (0: none), split by split: `splits` is their number, `done` how many of
    them were read. Then come the changes of the snapshots before `next`. `done_before` and `next_before` are the
    values at which the batch begins. `mark` is the time of the snapshot before `next`, by which a rollback shows; 0 if
    there is no such snapshot.
    """

    state: int
    splits: int
    done: int
    next: int
    done_before: int
    next_before: int
    mark: int = 0

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> TableProgress:
        return cls(**stored)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def keep(self) -> int:
        """Return the first snapshot that reading this batch again needs."""
        return self.state if self.done_before < self.splits else self.next_before

    @property
    def is_empty(self) -> bool:
        return self.done == self.done_before and self.next == self.next_before
