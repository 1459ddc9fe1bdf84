"""Partitions whose rows are in the log, under the name of their table.

pgoutput describes the partition of a row as well as the table under whose name it sends the row: the description of
the partition comes last, directly before the row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.ingest.postgres.log import messages as log_messages
from penstock.ingest.postgres.log.messages import MessageBlock, parse_relation

_ROWS = [log_messages.INSERT, log_messages.UPDATE, log_messages.DELETE]


@dataclass(frozen=True, slots=True)
class LoggedPartition:
    """A partition by name and number, the number of the table that its rows are logged under, and their position.

    The position is where its first rows in a range of the log were committed.
    """

    oid: int
    root: int
    name: str
    position: int


@dataclass(slots=True)
class LoggedPartitions:
    """The partitions that consecutive blocks of one range of the log describe."""

    found: list[LoggedPartition] = field(default_factory=list)
    _position: int = 0  # of the transaction that was open at the end of the block before
    _last: bytes = b""  # the description with which the block before ended

    def take(self, block: MessageBlock) -> None:
        """Add the partitions of the next block."""
        tag = block.tag
        begins = np.flatnonzero(tag == log_messages.BEGIN)
        positions = np.concatenate([[self._position], block.longs(begins, 1)])
        is_row = np.isin(tag, _ROWS)
        if self._last and len(block) and is_row[0]:
            self._note(self._last, block, 0, self._position)
        described = np.flatnonzero(tag == log_messages.RELATION)
        for number in described[described + 1 < len(block)].tolist():
            if is_row[number + 1]:
                position = int(positions[np.searchsorted(begins, number)])
                self._note(block.body(number), block, number + 1, position)
        self._position = int(positions[-1])
        if len(block):
            self._last = block.body(len(block) - 1) if tag[-1] == log_messages.RELATION else b""

    def _note(self, body: bytes, block: MessageBlock, row: int, position: int) -> None:
        root = int(block.unsigned(np.array([row]), 1)[0])
        if root != int.from_bytes(body[1:5], "big"):
            logged = parse_relation(body)
            self.found.append(LoggedPartition(logged.oid, root, f"{logged.schema}.{logged.table}", position))
