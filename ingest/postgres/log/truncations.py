"""TRUNCATE in the log: which transaction is the next one that empties captured tables.

A batch has to end before it, so the planner reads the log before the tasks do, and looks at the kinds of messages only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from penstock.ingest.postgres.log import messages as log_messages
from penstock.ingest.postgres.log.messages import MessageBlock, parse_relation, parse_truncate
from penstock.ingest.postgres.log.partitions import LoggedPartitions
from penstock.ingest.postgres.log.stream import WalRange, streamed
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.slot import copied_slot

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import TableName
    from penstock.ingest.postgres.settings import PgSettings

# Schema, table, and the rows of its transaction that the log has before the last TRUNCATE of the table.
EmptiedTable = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class TruncateTransaction:
    """A transaction that empties captured tables; `position` is the position of its commit."""

    position: int
    tables: tuple[EmptiedTable, ...]


def next_truncate(
    settings: PgSettings,
    tables: Collection[TableName],
    start: int,
    end: int,
    applied: int,
    partitions: LoggedPartitions,
) -> TruncateTransaction | None:
    """Return the first transaction in [start, end) that empties some of the tables, if any.

    The transaction whose commit is at `applied` does not count. `partitions` gets those that the log has until then.
    Reads a copy of the slot; holds one block in memory.
    """
    scan = TruncateScan(tables, applied)
    with connected(settings.server, replication=True) as stream:
        copy = copied_slot(stream, settings.slot)
        for messages in streamed(stream, WalRange(copy, (settings.publication.name,), start, end, binary=True)):
            block = MessageBlock.of(messages)
            partitions.take(block)
            if scan.is_over(block):
                break
    return scan.found


@dataclass(slots=True)
class TruncateScan:
    """A scan of consecutive blocks of the log for a transaction with TRUNCATE."""

    tables: Collection[TableName]
    applied: int = 0
    _names: dict[int, TableName] = field(default_factory=dict)
    _tables: dict[TableName, int] = field(default_factory=dict)
    _at: int = 0
    # The transaction that was open at the end of the block before, and its rows so far.
    _position: int = 0
    _rows: int = 0

    @property
    def found(self) -> TruncateTransaction | None:
        if not self._tables:
            return None
        return TruncateTransaction(self._at, tuple((*name, rows) for name, rows in self._tables.items()))

    def is_over(self, block: MessageBlock) -> bool:
        """Take the next block; return whether the transaction has been found and has ended."""
        tag = block.tag
        for number in np.flatnonzero(tag == log_messages.RELATION).tolist():
            logged = parse_relation(block.body(number))
            self._names[logged.oid] = (logged.schema, logged.table)
        begins = np.flatnonzero(tag == log_messages.BEGIN)
        # Number 0 is the transaction that was open before, n the one of the n-th BEGIN of this block.
        positions = np.concatenate([[self._position], block.longs(begins, 1)])
        counted = np.cumsum(np.isin(tag, [log_messages.INSERT, log_messages.UPDATE, log_messages.DELETE]))
        before = np.concatenate([[-self._rows], counted[begins]])
        for number in np.flatnonzero(tag == log_messages.TRUNCATE).tolist():
            part = int(np.searchsorted(begins, number))
            self._note(block.body(number), int(positions[part]), int(counted[number] - before[part]))
        self._position = int(positions[-1])
        self._rows = int((counted[-1] if len(counted) else 0) - before[-1])
        return bool(self._tables) and self._position != self._at

    def _note(self, body: bytes, position: int, rows: int) -> None:
        if position == self.applied or (self._tables and position != self._at):
            return
        for oid in parse_truncate(body):
            name = self._names.get(oid)
            if name is not None and name in self.tables:
                self._at = position
                self._tables[name] = rows
