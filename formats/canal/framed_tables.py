"""The messages of canal-json with a known frame by their tables, in the blocks in which they were found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.formats.canal.bulk import BulkMessages
from penstock.formats.canal.message import ABSENT, read_names
from penstock.formats.canal.message_frame import DeclaredTable
from penstock.formats.canal.same_layout import PIECE
from penstock.formats.change import Int64s, SourceField, SourceSchema
from penstock.formats.json_bytes import Bytes


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Messages of one table in a block: as `BulkMessages`, with `data` one after the other in `text`."""

    messages: BulkMessages
    text: Bytes
    ends: Int64s


@dataclass(slots=True)
class FramedTable:
    """The messages of one declared table in several blocks."""

    declared: DeclaredTable
    blocks: list[TableBlock] = field(default_factory=list)

    @property
    def database(self) -> str | None:
        return self.declared.database

    @property
    def table(self) -> str | None:
        return self.declared.table

    @property
    def types(self) -> bytes:
        return self.declared.types

    @property
    def keys(self) -> bytes:
        return self.declared.keys

    @property
    def count(self) -> int:
        return sum(len(block.ends) for block in self.blocks)

    def schema(self, fields: tuple[SourceField, ...], keys: tuple[str, ...]) -> SourceSchema:
        """Return the schema of the rows, with these columns and keys of the declaration."""
        states_no_key = self.keys != bytes(ABSENT) and not read_names(self.keys)
        return SourceSchema("mysql", self.database, self.table, fields, keys, states_no_key=states_no_key)

    def pieces(self) -> Iterator[TableBlock]:
        """Yield blocks that are joined if they have few messages."""
        waiting: list[TableBlock] = []
        for block in self.blocks:
            waiting.append(block)
            if sum(len(block.ends) for block in waiting) >= PIECE // 2:
                yield joined(waiting)
                waiting = []
        if waiting:
            yield joined(waiting)


def joined(blocks: Sequence[TableBlock]) -> TableBlock:
    """Return the messages of all blocks, one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    begins = np.cumsum([0, *(len(block.text) for block in blocks[:-1])])
    parts = [block.messages for block in blocks]
    changes = BulkMessages(
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.operations for part in parts]),
        np.concatenate([part.times for part in parts]),
        [old for part in parts for old in part.olds],
    )
    ends = np.concatenate([block.ends + begin for block, begin in zip(blocks, begins.tolist(), strict=True)])
    return TableBlock(changes, np.concatenate([block.text for block in blocks]), ends)


def piece_ends(ends: Int64s) -> list[int]:
    """Return the numbers of the messages before which pieces of nearly equal numbers of messages end."""
    count = max(1, len(ends) // PIECE)
    return [len(ends) * (place + 1) // count for place in range(count)]
