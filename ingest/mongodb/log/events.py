"""The events of a change stream as columns: operation, collection, time, and where their documents begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import Bools, Int64s, at_every_byte, slices
from penstock.ingest.database.buffers import UInt64s, unsigned_at
from penstock.ingest.mongodb.bson.elements import Block, ElementSegment, segments
from penstock.ingest.mongodb.bson.single_document import members, text_at
from penstock.ingest.mongodb.bson.texts import plain_texts
from penstock.ingest.mongodb.bson.value_types import DOCUMENT
from penstock.ingest.mongodb.server.cluster_time import ClusterTime
from penstock.ingest.mongodb.server.collections import TableName
from penstock.ingest.mongodb.server.replies import Reply

ROWS = ("insert", "update", "replace", "delete")
# Operations on whole collections and databases: they yield no rows.
OTHERS = ("drop", "rename", "dropDatabase", "invalidate")


@dataclass(frozen=True, slots=True)
class Events:
    """Consecutive events. Positions of documents are -1 where an event has none.

    `operation` numbers ROWS and OTHERS, `table` the names in `tables`, and `to` those in `names_to`: the new names of
    renamed collections. `milliseconds` are times of the server's clock, `time` the cluster times.
    """

    block: Block
    operation: Int64s
    table: Int64s
    tables: tuple[TableName, ...]
    key: Int64s
    after: Int64s
    before: Int64s
    time: UInt64s
    milliseconds: Int64s
    to: Int64s
    names_to: tuple[TableName, ...]

    def __len__(self) -> int:
        return len(self.time)

    @classmethod
    def of(cls, block: Block, at: Int64s) -> Events:
        """Return the events that begin at these positions."""
        by_name: dict[bytes, list[ElementSegment]] = {}
        for segment in segments(block, at):
            by_name.setdefault(segment.name, []).append(segment)
        count = len(at)
        time_at = _positions(by_name.get(b"clusterTime", ()), count)
        time = at_every_byte(block.data, "<u8")[np.maximum(time_at, 0)] if count else np.empty(0, np.uint64)
        # An `invalidate` of old servers has no time: it belongs to the event before it.
        time = np.maximum.accumulate(np.where(time_at < 0, 0, time)) if (time_at < 0).any() else time
        wall = _positions(by_name.get(b"wallTime", ()), count)
        seconds = (time >> np.uint64(32)).astype(np.int64) * 1000
        walls = at_every_byte(block.data, "<i8")[np.maximum(wall, 0)] if count else np.empty(0, np.int64)
        table, tables = _tables(block, by_name.get(b"ns", ()), count)
        return cls(
            block,
            _operations(block, by_name.get(b"operationType", ()), count),
            table,
            tables,
            _documents(by_name.get(b"documentKey", ()), count),
            _documents(by_name.get(b"fullDocument", ()), count),
            _documents(by_name.get(b"fullDocumentBeforeChange", ()), count),
            time,
            np.where(wall < 0, seconds, walls),
            *_tables(block, by_name.get(b"to", ()), count),
        )

    def before_time(self, end: int) -> Events:
        """Return the events before this cluster time."""
        count = int(np.searchsorted(self.time, np.uint64(end)))
        if count == len(self):
            return self
        return replace(
            self,
            operation=self.operation[:count],
            table=self.table[:count],
            key=self.key[:count],
            after=self.after[:count],
            before=self.before[:count],
            time=self.time[:count],
            milliseconds=self.milliseconds[:count],
            to=self.to[:count],
        )

    def others(self) -> Counter[tuple[str, TableName]]:
        """Count the operations that yield no rows."""
        places = np.flatnonzero(self.operation >= len(ROWS))
        names = (*ROWS, *OTHERS, "unknown")
        return Counter((names[int(self.operation[place])], self.tables[int(self.table[place])]) for place in places)

    def new_names(self) -> set[TableName]:
        """Return the names that collections got by renames."""
        return {self.names_to[number] for number in np.unique(self.to[self.to > 0]).tolist()}

    def is_row(self) -> Bools:
        found: Bools = self.operation < len(ROWS)
        return found


def time_of_last(reply: Reply) -> ClusterTime:
    """Return the time of the last event of a reply; 0 if it has no time, as `invalidate` of old servers."""
    raw = reply.block.raw
    found = members(raw, int(reply.documents[-1])).get("clusterTime")
    return 0 if found is None else int.from_bytes(raw[found[1] : found[1] + 8], "little")


def _positions(elements: Sequence[ElementSegment], count: int) -> Int64s:
    found = np.full(count, -1, np.int64)
    for segment in elements:
        found[segment.lanes] = segment.start
    return found


def _documents(elements: Sequence[ElementSegment], count: int) -> Int64s:
    return _positions([segment for segment in elements if segment.kind == DOCUMENT], count)


def _operations(block: Block, elements: Sequence[ElementSegment], count: int) -> Int64s:
    found = np.full(count, len(ROWS) + len(OTHERS), np.int64)
    numbers = {name: number for number, name in enumerate(ROWS + OTHERS)}
    for segment in elements:
        texts = plain_texts(block, segment.kind, segment.start, segment.length, Counter()).dictionary_encode()
        known = np.array([numbers.get(name, len(numbers)) for name in texts.dictionary.to_pylist()], np.int64)
        found[segment.lanes] = known[texts.indices.to_numpy()]
    return found


def _tables(block: Block, elements: Sequence[ElementSegment], count: int) -> tuple[Int64s, tuple[TableName, ...]]:
    """Return a number for each event, and the names of the collections by number: 0 if an event has no collection."""
    found, names = np.zeros(count, np.int64), [("", "")]
    for segment in elements:
        # The documents of one collection are equal byte by byte, so each is read once.
        size = unsigned_at(block.data, segment.start, 4)
        texts = slices(
            pa.binary(), block.data, segment.start, size, np.zeros(len(segment.start), bool)
        ).dictionary_encode()
        found[segment.lanes] = texts.indices.to_numpy() + len(names)
        names += [_name(document) for document in texts.dictionary.to_pylist()]
    return found, tuple(names)


def _name(document: bytes) -> TableName:
    parts = members(document)
    database, collection = (text_at(document, parts[name][1]) if name in parts else "" for name in ("db", "coll"))
    return database, collection
