"""The state of a source whose tables are copied in chunks while its log is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

from penstock.ingest.connector_requests import TableName
from penstock.ingest.database.table_parts import TablePart, parts_besides
from penstock.ingest.source import Barrier


class PlannedChunk(Protocol):
    """A part of a table, between two bounds of its key."""

    @property
    def name(self) -> TableName: ...


K = TypeVar("K", bound=PlannedChunk)


@dataclass(frozen=True, slots=True)
class PlannedBatch(Generic[K]):
    """The content between the previous end and this one: it is never planned twice.

    `start` is where its part of the log begins; the part ends at the position of the offsets.
    """

    start: int = 0
    chunks: tuple[K, ...] = ()
    barriers: tuple[Barrier, ...] = ()

    @property
    def reads_present(self) -> bool:
        """True if the rows are current at the time of reading, which is after the batch was planned."""
        return bool(self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyProgress(Generic[K]):
    """The state of a source at the end of a batch. The log before the position `log` has been read.

    `known` are the captured tables, `waiting` the tables before their snapshot, `rest` the remainder of the table that
    is being cut into chunks. `settle` is the position after which the tables read last equal the source at one moment.
    `reread` is the last request to read tables again that was carried out, `signals` are the requests of users. `parts`
    are parts of tables that wait to be read again, `refused` those that could not be, with the reasons.
    """

    log: int
    batch: Any  # the `PlannedBatch` of the database
    known: Collection[TableName] = ()
    waiting: tuple[TableName, ...] = ()
    rest: K | None = None
    settle: int = 0
    reread: str = ""
    signals: tuple[str, ...] = ()
    parts: tuple[TablePart, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def reads_tables(self) -> bool:
        return bool(self.waiting or self.rest or self.parts)

    @property
    def is_settled(self) -> bool:
        """True if the tables equal the source at the position of the log."""
        return not (self.reads_tables or self.batch.reads_present) and self.log >= self.settle

    @property
    def unread(self) -> list[TableName]:
        """The tables that are still to be read, or being read."""
        rest = [] if self.rest is None else [self.rest.name]
        return [*self.waiting, *rest, *(part.name for part in self.parts)]

    def reading(self, names: Sequence[TableName]) -> Self:
        """Return this state with the rows of these tables still to be read, even if some were read before."""
        rest = None if self.rest is not None and self.rest.name in names else self.rest
        waiting = tuple(dict.fromkeys([*self.waiting, *names]))
        return replace(self, waiting=waiting, rest=rest, parts=parts_besides(self.parts, names))

    def without(self, names: Collection[TableName]) -> Self:
        """Return this state without the parts of these tables that are still to be read."""
        return replace(
            self,
            waiting=tuple(name for name in self.waiting if name not in names),
            rest=None if self.rest is not None and self.rest.name in names else self.rest,
            parts=tuple(part for part in self.parts if part.name not in names),
        )

    def reading_parts(self, parts: Sequence[TablePart]) -> Self:
        """Return this state with these parts still to be read.

        A table that waits to be read as a whole needs no more. One that is being read does: its first rows were read
        before.
        """
        return replace(self, parts=parts_besides([*self.parts, *parts], self.waiting))
