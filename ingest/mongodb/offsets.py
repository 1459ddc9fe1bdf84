"""The end of a batch: one JSON object from which a restart on any machine can resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_from, time_json
from penstock.ingest.mongodb.server.collections import TableName
from penstock.ingest.mongodb.snapshot.chunks import IdChunk
from penstock.ingest.source import Barrier, Offsets

VERSION = 1


@dataclass(frozen=True, slots=True)
class MongoBatch:
    """The content between the previous end and this one: it is never planned twice.

    `start` is where its part of the log begins; the part ends before the time of the offsets.
    """

    start: ClusterTime = 0
    chunks: tuple[IdChunk, ...] = ()
    barriers: tuple[Barrier, ...] = ()


@dataclass(frozen=True, slots=True)
class MongoProgress:
    """The state of a MongoDB source at the end of a batch. All events before the time `log` have been read.

    `known` are the captured collections with their identities, `waiting` those whose snapshot has not begun, `rest`
    what is left of the one that is being cut into chunks. `settle` is the time after which the collections read last
    equal the source at one moment.
    """

    server: str
    log: ClusterTime
    known: Mapping[TableName, str] = field(default_factory=dict)
    waiting: tuple[TableName, ...] = ()
    rest: IdChunk | None = None
    settle: ClusterTime = 0
    reread: str = ""  # the last request to read collections again that was carried out
    signals: tuple[str, ...] = ()
    batch: MongoBatch = field(default_factory=MongoBatch)

    @property
    def reads_tables(self) -> bool:
        return bool(self.waiting or self.rest)

    def reading(self, names: Sequence[TableName]) -> MongoProgress:
        """Return this state with the documents of these collections still to be read, even if some were before."""
        rest = None if self.rest is not None and self.rest.name in names else self.rest
        return replace(self, waiting=tuple(dict.fromkeys([*self.waiting, *names])), rest=rest)

    def to_json(self) -> Offsets:
        """Return the state as offsets; parts with default values are omitted."""
        batch: dict[str, Any] = {
            "from": time_json(self.batch.start),
            "chunks": [one.to_json() for one in self.batch.chunks],
            "barriers": [[one.kind, one.database, one.table] for one in self.batch.barriers],
        }
        made: Offsets = {
            "v": VERSION,
            "server": self.server,
            "phase": "snapshot" if self.reads_tables else "stream",
            "log": time_json(self.log),
            "known": [[*name, identity] for name, identity in self.known.items()],
            "waiting": [list(name) for name in self.waiting],
            "rest": self.rest.to_json() if self.rest is not None else None,
            "settle": time_json(self.settle) if self.settle else None,
            "reread": self.reread,
            "signals": list(self.signals),
            "batch": {name: part for name, part in batch.items() if part},
        }
        return {name: part for name, part in made.items() if part}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MongoProgress:
        batch = value.get("batch", {})
        return cls(
            str(value["server"]),
            time_from(value["log"]),
            {(database, name): identity for database, name, identity in value.get("known", ())},
            tuple((database, name) for database, name in value.get("waiting", ())),
            IdChunk.from_json(value["rest"]) if "rest" in value else None,
            time_from(value.get("settle", "0:0")),
            str(value.get("reread", "")),
            tuple(value.get("signals", ())),
            MongoBatch(
                time_from(batch.get("from", "0:0")),
                tuple(IdChunk.from_json(one) for one in batch.get("chunks", ())),
                tuple(Barrier(kind, database, name) for kind, database, name in batch.get("barriers", ())),
            ),
        )
