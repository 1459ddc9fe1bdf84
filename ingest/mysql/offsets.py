"""The end of a batch: one JSON object from which a restart on any machine can resume."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.ingest.database.table_parts import TablePart, parts_besides, parts_from
from penstock.ingest.mysql.binlog.range_cutter import BinlogRange
from penstock.ingest.mysql.ddl.history import DefinitionVersion
from penstock.ingest.mysql.position import LogPosition, LogSample
from penstock.ingest.mysql.server.catalog import TableName
from penstock.ingest.mysql.snapshot.chunk import Chunk, ChunkCursor
from penstock.ingest.source import Barrier, Offsets

if TYPE_CHECKING:
    from penstock.ingest.mysql.binlog.prepared_transactions import Lacking

VERSION = 1


@dataclass(frozen=True, slots=True)
class BatchContent:
    """The content between the previous end and this one: it is never planned twice."""

    chunks: tuple[Chunk, ...] = ()
    log: tuple[BinlogRange, ...] = ()
    defined: tuple[DefinitionVersion, ...] = ()  # tables whose definition is new
    barriers: tuple[Barrier, ...] = ()
    as_of: LogPosition | None = None  # the binlog position of chunks that are exact as of it
    ignored: tuple[str, ...] = ()  # changes of whole tables that are not applied, by kind

    @property
    def is_empty(self) -> bool:
        return not (self.chunks or self.log or self.defined or self.barriers or self.ignored)


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a MySQL source at the end of a batch.

    `waiting` are tables whose snapshot has not begun, `cursors` those being cut into chunks. `settle` is the binlog
    position after which the snapshot tables equal the source at one moment; `unsettled` while it is still to be
    recorded. `parts` are parts of tables that wait to be read again, `refused` those that could not be, with reasons.
    `prepared` are the XA transactions that are prepared, None in offsets of former versions, and `lacking` those whose
    rows were passed before some tables were read, with these tables. `emptied` are tables whose targets were emptied at
    `emptied_at`, and whose changes are not read until the log has passed this position.
    """

    server: str
    log: LogPosition
    by_gtid: bool = False
    waiting: tuple[TableName, ...] = ()
    cursors: tuple[ChunkCursor, ...] = ()
    settle: LogPosition | None = None
    unsettled: bool = False
    signals: tuple[str, ...] = ()
    reread: str = ""  # the last request to read all tables again that was carried out
    parts: tuple[TablePart, ...] = ()
    refused: tuple[str, ...] = ()
    prepared: tuple[str, ...] | None = None
    lacking: Lacking = ()
    emptied: tuple[TableName, ...] = ()
    emptied_at: LogPosition | None = None
    batch: BatchContent = field(default_factory=BatchContent)

    @property
    def reads_tables(self) -> bool:
        return bool(self.waiting or self.cursors or self.parts)

    @property
    def unread(self) -> list[TableName]:
        """The tables that are still to be read, or being read."""
        cut = [(cursor.database, cursor.table) for cursor in self.cursors]
        return [*self.waiting, *cut, *(part.name for part in self.parts)]

    @property
    def identity(self) -> str:
        """A short text by which these offsets are recognized as the start of a plan.

        Their own batch is part of it: a batch that only copies a table ends where it began, but for its content.
        """
        state = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(state.encode()).hexdigest()[:16]

    def reading(self, names: Sequence[TableName]) -> Progress:
        """Return this state with the rows of these tables still to be read, even if some of them were read before."""
        # A table that is being cut into chunks starts again from its first key.
        cursors = tuple(cursor for cursor in self.cursors if (cursor.database, cursor.table) not in names)
        waiting = tuple(dict.fromkeys([*self.waiting, *names]))
        return replace(self, waiting=waiting, cursors=cursors, parts=parts_besides(self.parts, names))

    def reading_parts(self, parts: Sequence[TablePart]) -> Progress:
        """Return this state with these parts still to be read.

        A table that waits to be read as a whole needs no more. One that is being read does: its first rows were read
        before.
        """
        return replace(self, parts=parts_besides([*self.parts, *parts], self.waiting))

    def lacking_prepared(self, names: Sequence[TableName]) -> Progress:
        """Return this state in which these tables lack the rows of the transactions that are prepared now.

        The log is past these rows, and a table that is read before their commit does not have them either.
        """
        known = dict(self.lacking)
        lacking = {xa: tuple(dict.fromkeys([*known.get(xa, ()), *names])) for xa in self.prepared or ()}
        return replace(self, lacking=tuple((known | lacking).items())) if names else self

    def to_json(self) -> Offsets:
        """Return the state as offsets; parts with default values are omitted."""
        offsets: Offsets = {
            "v": VERSION,
            "server": self.server,
            "phase": "snapshot" if self.reads_tables or self.unsettled else "stream",
            "log": self.log.to_json(),
        }
        if self.by_gtid:
            offsets["by_gtid"] = True
        if self.waiting:
            offsets["waiting"] = [list(name) for name in self.waiting]
        if self.cursors:
            offsets["cursors"] = [_listed(cursor.to_json()) for cursor in self.cursors]
        if self.settle is not None:
            offsets["settle"] = self.settle.to_json()
        if self.unsettled:
            offsets["unsettled"] = True
        if self.signals:
            offsets["signals"] = list(self.signals)
        if self.reread:
            offsets["reread"] = self.reread
        if self.parts:
            offsets["parts"] = [part.to_json() for part in self.parts]
        if self.refused:
            offsets["refused"] = list(self.refused)
        if self.prepared is not None:
            offsets["prepared"] = list(self.prepared)
        if self.lacking:
            offsets["lacking"] = {name: [list(table) for table in tables] for name, tables in self.lacking}
        if self.emptied_at is not None:
            offsets["emptied"] = [list(name) for name in self.emptied]
            offsets["emptied_at"] = self.emptied_at.to_json()
        if not self.batch.is_empty:
            offsets["batch"] = _batch_json(self.batch)
        return offsets

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Progress:
        settle, emptied_at = value.get("settle"), value.get("emptied_at")
        return cls(
            str(value["server"]),
            LogPosition.from_json(value["log"]),
            bool(value.get("by_gtid", False)),
            _names(value.get("waiting", ())),
            tuple(ChunkCursor.from_json(cursor) for cursor in value.get("cursors", ())),
            None if settle is None else LogPosition.from_json(settle),
            bool(value.get("unsettled", False)),
            tuple(value.get("signals", ())),
            str(value.get("reread", "")),
            parts_from(value.get("parts", ())),
            tuple(value.get("refused", ())),
            tuple(value["prepared"]) if "prepared" in value else None,
            tuple((name, _names(tables)) for name, tables in value.get("lacking", {}).items()),
            _names(value.get("emptied", ())),
            None if emptied_at is None else LogPosition.from_json(emptied_at),
            _batch_from(value.get("batch", {})),
        )


def _names(values: Sequence[Sequence[str]]) -> tuple[TableName, ...]:
    return tuple((database, table) for database, table in values)


def _listed(value: Mapping[str, object]) -> dict[str, object]:
    """Return tuples as the lists that JSON turns them into, so that offsets are equal before and after a checkpoint."""
    return {name: list(part) if isinstance(part, tuple) else part for name, part in value.items()}


def _batch_json(batch: BatchContent) -> dict[str, Any]:
    content: dict[str, Any] = {
        "chunks": [chunk_json(chunk) for chunk in batch.chunks],
        "log": [range_json(part) for part in batch.log],
        "defined": [version.to_json() for version in batch.defined],
        "barriers": [barrier_json(barrier) for barrier in batch.barriers],
        "as_of": None if batch.as_of is None else batch.as_of.to_json(),
        "ignored": list(batch.ignored),
    }
    return {name: part for name, part in content.items() if part}


def _batch_from(value: Mapping[str, Any]) -> BatchContent:
    as_of = value.get("as_of")
    return BatchContent(
        tuple(chunk_from(chunk) for chunk in value.get("chunks", ())),
        tuple(range_from(range_) for range_ in value.get("log", ())),
        tuple(DefinitionVersion.from_json(version) for version in value.get("defined", ())),
        tuple(barrier_from(barrier) for barrier in value.get("barriers", ())),
        None if as_of is None else LogPosition.from_json(as_of),
        tuple(value.get("ignored", ())),
    )


def chunk_json(chunk: Chunk) -> dict[str, Any]:
    parts = _listed(asdict(chunk))
    return {name: part for name, part in parts.items() if name == "number" or part}


def chunk_from(value: Mapping[str, Any]) -> Chunk:
    known: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in value.items()}
    return Chunk(**known)


def range_json(part: BinlogRange) -> list[Any]:
    # Table maps are bytes, which JSON cannot contain.
    maps = [base64.b64encode(body).decode() for body in part.maps]
    more = [list(map(list, part.rolled_back)), part.begun, part.sample.to_json() if part.sample else []]
    while more and not more[-1]:  # left out from the end if there are none
        more.pop()
    return [part.file, part.start, part.until, maps, part.known, *more]


def range_from(value: Sequence[Any]) -> BinlogRange:
    file, start, until, maps, known, *more = value
    # Offsets of former versions lack the last parts.
    spans = tuple((begin, end) for begin, end in more[0]) if more else ()
    begun = int(more[1]) if len(more) > 1 else 0
    sample = LogSample.from_json(more[2]) if len(more) > 2 else None
    return BinlogRange(file, start, until, tuple(base64.b64decode(body) for body in maps), known, spans, begun, sample)


def barrier_json(barrier: Barrier) -> list[Any]:
    return [barrier.kind, barrier.database, barrier.table, [list(pair) for pair in barrier.columns]]


def barrier_from(value: Sequence[Any]) -> Barrier:
    kind, database, table, columns = value
    return Barrier(kind, database, table, tuple((old, new) for old, new in columns))
