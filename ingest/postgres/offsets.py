"""The end of a batch: one JSON object from which a restart on any machine can resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.ingest.postgres.log.truncations import EmptiedTable
from penstock.ingest.postgres.server.catalog import TableName
from penstock.ingest.postgres.server.slot import lsn_text, parse_lsn
from penstock.ingest.postgres.snapshot.chunks import KeyChunk
from penstock.ingest.source import Barrier, Offsets

VERSION = 1


@dataclass(frozen=True, slots=True)
class PgBatch:
    """The content between the previous end and this one: it is never planned twice.

    `start` is where its part of the log begins; the part ends at the position of the offsets. The rows of chunks are
    those of the position `as_of`, or of the time of reading if it is 0. `without` are new tables whose changes are left
    out, because their rows are read as of a later position. `emptied` are tables that the first transaction of the log
    empties: their rows before that are left out.
    """

    start: int = 0
    chunks: tuple[KeyChunk, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    as_of: int = 0
    without: tuple[TableName, ...] = ()
    emptied: tuple[EmptiedTable, ...] = ()


@dataclass(frozen=True, slots=True)
class PgProgress:
    """The state of a PostgreSQL source at the end of a batch.

    `known` are the captured tables, `waiting` those whose snapshot has not begun, `rest` what is left of the one that
    is being cut into chunks. Chunks may be read once no transaction older than `visible_from` runs. `settle` is the
    position after which the tables read last equal the source at one moment. `fresh` are new tables that can be read as
    of `exact_from` or later: earlier changes of them may be missing in the log. `emptied` are tables that the
    transaction at the position of the log empties; their targets are empty already.
    """

    server: str
    database: str
    slot: str
    log: int
    known: tuple[TableName, ...] = ()
    waiting: tuple[TableName, ...] = ()
    rest: KeyChunk | None = None
    visible_from: int = 0
    settle: int = 0
    exact_from: int = 0
    fresh: tuple[TableName, ...] = ()
    emptied: tuple[EmptiedTable, ...] = ()
    reread: str = ""  # the last request to read tables again that was carried out
    signals: tuple[str, ...] = ()
    batch: PgBatch = field(default_factory=PgBatch)

    @property
    def reads_tables(self) -> bool:
        return bool(self.waiting or self.rest)

    @property
    def is_settled(self) -> bool:
        """True if the tables equal the source at the position of the log."""
        reads = self.reads_tables or (self.batch.chunks and not self.batch.as_of)
        return not reads and self.log >= self.settle

    def reading(self, names: Sequence[TableName]) -> PgProgress:
        """Return this state with the rows of these tables still to be read, even if some were read before."""
        rest = None if self.rest is not None and self.rest.name in names else self.rest
        return replace(self, waiting=tuple(dict.fromkeys([*self.waiting, *names])), rest=rest)

    def to_json(self) -> Offsets:
        """Return the state as offsets; parts with default values are omitted."""
        batch: dict[str, Any] = {
            "from": lsn_text(self.batch.start),
            "chunks": [one.to_json() for one in self.batch.chunks],
            "barriers": [[one.kind, one.database, one.table] for one in self.batch.barriers],
            "as_of": lsn_text(self.batch.as_of) if self.batch.as_of else None,
            "without": [list(name) for name in self.batch.without],
            "emptied": [list(one) for one in self.batch.emptied],
        }
        made: Offsets = {
            "v": VERSION,
            "server": {"system": self.server, "database": self.database},
            "slot": self.slot,
            "phase": "snapshot" if self.reads_tables else "stream",
            "log": lsn_text(self.log),
            "known": [list(name) for name in self.known],
            "waiting": [list(name) for name in self.waiting],
            "rest": self.rest.to_json() if self.rest is not None else None,
            "visible_from": self.visible_from,
            "settle": lsn_text(self.settle) if self.settle else None,
            "exact_from": lsn_text(self.exact_from) if self.exact_from else None,
            "fresh": [list(name) for name in self.fresh],
            "emptied": [list(one) for one in self.emptied],
            "reread": self.reread,
            "signals": list(self.signals),
            "batch": {name: part for name, part in batch.items() if part},
        }
        return {name: part for name, part in made.items() if part}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PgProgress:
        batch = value.get("batch", {})
        return cls(
            str(value["server"]["system"]),
            str(value["server"]["database"]),
            str(value["slot"]),
            parse_lsn(value["log"]),
            _names(value.get("known", ())),
            _names(value.get("waiting", ())),
            KeyChunk.from_json(value["rest"]) if "rest" in value else None,
            int(value.get("visible_from", 0)),
            parse_lsn(value.get("settle", "0/0")),
            parse_lsn(value.get("exact_from", "0/0")),
            _names(value.get("fresh", ())),
            _emptied(value.get("emptied", ())),
            str(value.get("reread", "")),
            tuple(value.get("signals", ())),
            PgBatch(
                parse_lsn(batch.get("from", "0/0")),
                tuple(KeyChunk.from_json(one) for one in batch.get("chunks", ())),
                tuple(Barrier(kind, schema, table) for kind, schema, table in batch.get("barriers", ())),
                parse_lsn(batch.get("as_of", "0/0")),
                _names(batch.get("without", ())),
                _emptied(batch.get("emptied", ())),
            ),
        )


def _names(values: Sequence[Sequence[str]]) -> tuple[TableName, ...]:
    return tuple((schema, table) for schema, table in values)


def _emptied(values: Sequence[Sequence[Any]]) -> tuple[EmptiedTable, ...]:
    return tuple((str(schema), str(table), int(rows)) for schema, table, rows in values)
