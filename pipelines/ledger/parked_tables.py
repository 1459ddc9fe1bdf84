"""Tables that were set aside because they failed, and the batches that went by since.

Below the checkpoint: `parked/tables.json`, and `parked/N.json` for each batch that a parked table lacks. Both are on
file before the batch is committed to other tables, so a crash forgets neither.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from penstock.errors import PenstockError, SourceError
from penstock.ingest.source import Offsets
from penstock.pipelines.errors import CheckpointMismatch, ReplayUndecidable, TablesParked
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.mapping.target_tables import Warehouse
from penstock.table.commit.conflicts import ForeignWriter

FOLDER = "parked"
TABLES = "tables.json"


@dataclass(frozen=True, slots=True)
class Parked:
    """`batch` is the first that the table lacks."""

    table: str
    batch: int
    since_millis: int
    error: str
    reason: str


@dataclass(frozen=True, slots=True)
class MissedBatch:
    number: int
    checkpoint: str
    start: Offsets
    end: Offsets


def is_of_its_table(error: PenstockError) -> bool:
    """Whether only the table it was met in suffers. What may pass is tried again first; a source or a checkpoint that
    is wrong is so for all tables."""
    if isinstance(error, ForeignWriter):
        return True
    return not error.retryable and not isinstance(error, SourceError | CheckpointMismatch | ReplayUndecidable)


@dataclass(slots=True)
class Parking:
    """`isolates`: further tables may be parked. Those that are stay so without it: they lack batches."""

    place: Warehouse  # the checkpoint, as a place in the sense of the warehouse's stores
    isolates: bool = False
    tables: dict[str, Parked] = field(default_factory=dict)

    @classmethod
    def of(cls, place: Warehouse, *, isolates: bool = False) -> Parking:
        parking = cls(place, isolates)
        content = parking._content(TABLES)
        parking.tables = {one["table"]: Parked(**one) for one in content or ()}
        return parking

    def park(self, table: str, batch: int, error: PenstockError) -> None:
        """Called again for a table that is parked already, it keeps the batch since which it is."""
        before = self.tables.get(table)
        first, since = (before.batch, before.since_millis) if before else (batch, self.place.now_millis())
        self.tables[table] = Parked(table, first, since, type(error).__name__, error.message)
        self._save()

    def took(self, table: str, number: int) -> None:
        """It has the batch now."""
        self.tables[table] = replace(self.tables[table], batch=number + 1)
        self._save()

    def release(self, *tables: str) -> None:
        """These go on with the others. Batches that no table lacks any more are forgotten."""
        for table in tables:
            self.tables.pop(table, None)
        self._save()
        first = min((one.batch for one in self.tables.values()), default=None)
        storage, root = self.place.storage()
        for number in self._numbers():
            if first is None or number < first:
                storage.delete(f"{root.rstrip('/')}/{FOLDER}/{number}.json")

    def note(self, identity: BatchIdentity) -> None:
        """A batch that goes by. Called again, it changes nothing."""
        facts = MissedBatch(identity.number, identity.checkpoint, identity.start, identity.end)
        self._put(f"{identity.number}.json", asdict(facts))

    def missed(self, table: str) -> list[MissedBatch]:
        """The batches that a parked table lacks, in their order."""
        first = self.tables[table].batch
        found = (self._content(f"{number}.json") for number in self._numbers() if number >= first)
        return [MissedBatch(**one) for one in found if one is not None]

    def error(self) -> TablesParked:
        """What a run with parked tables ends with."""
        reasons = {one.table: f"since batch {one.batch}, {one.error}: {one.reason}" for one in self.tables.values()}
        some = dict(sorted(reasons.items())[:10])
        count = len(self.tables)
        return TablesParked(
            f"{count} table{'s' if count > 1 else ''} failed and {'are' if count > 1 else 'is'} parked; the others went"
            " on",
            hint="put right what is named, then  penstock run FILE --retry  reads what they missed. What is in those"
            " batches stays what it was: where it can never fit,  --reset TABLE  empties a table of a MySQL source and"
            " copies it as it is now",
            **some,
        )

    def _numbers(self) -> list[int]:
        storage, root = self.place.storage()
        names = (entry.name.removesuffix(".json") for entry in storage.list(f"{root.rstrip('/')}/{FOLDER}"))
        return sorted(int(name) for name in names if name.isdigit())

    def _save(self) -> None:
        self._put(TABLES, [asdict(one) for one in self.tables.values()])

    def _content(self, name: str) -> Any:
        storage, root = self.place.storage()
        try:
            return json.loads(storage.read(f"{root.rstrip('/')}/{FOLDER}/{name}"))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _put(self, name: str, content: object) -> None:
        storage, root = self.place.storage()
        folder = f"{root.rstrip('/')}/{FOLDER}"
        storage.mkdirs(folder)
        storage.write(f"{folder}/{name}", json.dumps(content).encode())
