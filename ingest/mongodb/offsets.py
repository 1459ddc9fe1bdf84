"""The end of a batch: one JSON object from which a restart on any machine can resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.ingest.database.progress import CopyProgress, PlannedBatch
from penstock.ingest.mongodb.server.cluster_time import ClusterTime, time_from, time_json
from penstock.ingest.mongodb.server.collections import TableName
from penstock.ingest.mongodb.snapshot.chunks import IdChunk
from penstock.ingest.source import Barrier, Offsets

VERSION = 1


@dataclass(frozen=True, slots=True)
class MongoBatch(PlannedBatch[IdChunk]):
    """The content of a batch; its part of the log ends before the time of the offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoProgress(CopyProgress[IdChunk]):
    """The state of a MongoDB source at the end of a batch.

    All events before the time `log` have been read. `known` contains the identities of the captured collections. `new`
    are collections with the time after which each is read: earlier events under its name may be those of another one.
    """

    server: str
    known: Mapping[TableName, str] = field(default_factory=dict)
    new: Mapping[TableName, ClusterTime] = field(default_factory=dict)
    batch: MongoBatch = field(default_factory=MongoBatch)

    @property
    def reads_tables(self) -> bool:
        return bool(self.new or self.waiting or self.rest or self.parts)

    @property
    def unread(self) -> list[TableName]:
        rest = [] if self.rest is None else [self.rest.name]
        return list(dict.fromkeys([*self.new, *self.waiting, *rest]))

    def to_json(self) -> Offsets:
        """Return the state as offsets; parts with default values are omitted."""
        batch: dict[str, Any] = {
            "from": time_json(self.batch.start),
            "chunks": [chunk.to_json() for chunk in self.batch.chunks],
            "barriers": [[barrier.kind, barrier.database, barrier.table] for barrier in self.batch.barriers],
        }
        offsets: Offsets = {
            "v": VERSION,
            "server": self.server,
            "phase": "snapshot" if self.reads_tables else "stream",
            "log": time_json(self.log),
            "known": [[*name, identity] for name, identity in self.known.items()],
            "new": [[*name, time_json(after)] for name, after in self.new.items()],
            "waiting": [list(name) for name in self.waiting],
            "rest": self.rest.to_json() if self.rest is not None else None,
            "settle": time_json(self.settle) if self.settle else None,
            "reread": self.reread,
            "signals": list(self.signals),
            "refused": list(self.refused),
            "batch": {name: part for name, part in batch.items() if part},
        }
        return {name: part for name, part in offsets.items() if part}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MongoProgress:
        batch = value.get("batch", {})
        return cls(
            server=str(value["server"]),
            log=time_from(value["log"]),
            known={(database, name): identity for database, name, identity in value.get("known", ())},
            new={(database, name): time_from(after) for database, name, after in value.get("new", ())},
            waiting=tuple((database, name) for database, name in value.get("waiting", ())),
            rest=IdChunk.from_json(value["rest"]) if "rest" in value else None,
            settle=time_from(value.get("settle", "0:0")),
            reread=str(value.get("reread", "")),
            signals=tuple(value.get("signals", ())),
            refused=tuple(value.get("refused", ())),
            batch=MongoBatch(
                time_from(batch.get("from", "0:0")),
                tuple(IdChunk.from_json(chunk) for chunk in batch.get("chunks", ())),
                tuple(Barrier(kind, database, name) for kind, database, name in batch.get("barriers", ())),
            ),
        )
