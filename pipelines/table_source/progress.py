"""The progress of reading a table, as it is stored in offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from penstock.ingest.source import Offsets

TABLES = "tables"
REQUESTS = ","  # between the names of requests
_REREAD, _EMPTIED = "reread", "emptied"


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The end of a batch for one table, with the whole content of the batch, so that it can be planned again.

    First the rows of snapshot `state` are read (0: none), split by split: `splits` is their number, `done` how many of
    them were read. Then come the changes of the snapshots before `next`. `done_before` and `next_before` are the values
    at which the batch begins. `mark` is the mark of the snapshot before `next`, which shows a rollback; 0 if there is
    no such snapshot. `created` is the time at which the table was created; 0 in offsets of older versions.
    """

    state: int
    splits: int
    done: int
    next: int
    done_before: int
    next_before: int
    mark: int = 0
    created: int = 0

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

    def unchanged(self) -> TableProgress:
        """Return the progress of a batch without rows, behind this one."""
        return replace(self, done_before=self.done, next_before=self.next)


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The end of a batch for all tables. `reread` are the requests to read tables again that were carried out last.

    A batch with `emptied` has no rows: it empties the target tables of these tables, which are read again after it.
    """

    tables: Mapping[str, TableProgress]
    reread: str = ""
    emptied: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, stored: Offsets) -> SourceProgress:
        tables = {name: TableProgress.from_json(node) for name, node in stored.get(TABLES, {}).items()}
        return cls(tables, stored.get(_REREAD, ""), tuple(stored.get(_EMPTIED, ())))

    def to_json(self) -> Offsets:
        tables = {name: table.to_json() for name, table in self.tables.items()}
        made: Offsets = {TABLES: tables}
        if self.reread:
            made[_REREAD] = self.reread
        if self.emptied:
            made[_EMPTIED] = list(self.emptied)
        return made

    @property
    def carried_out(self) -> list[str]:
        return self.reread.split(REQUESTS)

    @property
    def reached(self) -> tuple[int, int]:
        """Return a number that grows with every batch: snapshots, then splits of the first state."""
        return sum(table.next for table in self.tables.values()), sum(table.done for table in self.tables.values())
