"""Tables that were set aside because they failed, and the batches that they missed since.

The checkpoint contains a record of the parked tables, and one of each batch that a parked table lacks. Both are written
before the batch is committed to other tables, so a crash loses neither.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from penstock.errors import CheckpointDamaged, PenstockError, SourceError
from penstock.ingest.source import Offsets
from penstock.pipelines.errors import CheckpointMismatch, ReplayUndecidable, TablesParked
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.storage.environment import Environment
from penstock.table.commit.conflicts import ForeignWriter


@dataclass(frozen=True, slots=True)
class ParkedTable:
    """A parked table. `batch` is the first batch that it lacks."""

    table: str
    batch: int
    since_millis: int
    error: str
    reason: str
    hint: str = ""  # checkpoints of older versions have none


@dataclass(frozen=True, slots=True)
class MissedBatch:
    number: int
    checkpoint: str
    start: Offsets
    end: Offsets


def is_of_its_table(error: PenstockError) -> bool:
    """Return whether the error concerns only the table in which it occurred.

    Transient errors are retried first; a wrong source or checkpoint concerns all tables.
    """
    if isinstance(error, ForeignWriter):
        return True
    return not error.retryable and not isinstance(
        error, SourceError | CheckpointMismatch | CheckpointDamaged | ReplayUndecidable
    )


@dataclass(slots=True)
class ParkedTables:
    """The parked tables.

    `isolates`: further tables may be parked. Tables already parked stay parked without it, because they lack batches.
    """

    checkpoint: CheckpointFolder
    isolates: bool = False
    tables: dict[str, ParkedTable] = field(default_factory=dict)

    @classmethod
    def of(cls, checkpoint: CheckpointFolder, *, isolates: bool = False) -> ParkedTables:
        parked = {table: ParkedTable(**record) for table, record in checkpoint.parked().items()}
        return cls(checkpoint, isolates, parked)

    def park(self, table: str, batch: int, error: PenstockError) -> None:
        """Park a table. Called again for a parked table, it keeps the batch since which the table is parked."""
        before = self.tables.get(table)
        first, since = (before.batch, before.since_millis) if before else (batch, Environment().now_millis())
        self.tables[table] = ParkedTable(table, first, since, type(error).__name__, error.message, error.hint or "")
        self._save()

    def record_batch(self, table: str, number: int) -> None:
        """Record that the parked table has this batch now."""
        # Saved after each batch: a crash before this line repeats one batch, which the table recognizes.
        self.tables[table] = replace(self.tables[table], batch=number + 1)
        self._save()

    def release(self, *tables: str) -> None:
        """Let these tables continue with the others. Forget batches that no parked table lacks any more."""
        for table in tables:
            self.tables.pop(table, None)
        self._save()
        # After the list is saved: a crash in between leaves unneeded records, but never a parked table without its
        # records.
        first = min((table.batch for table in self.tables.values()), default=None)
        for number in self.checkpoint.missed_batches():
            if first is None or number < first:
                self.checkpoint.delete_missed_batch(number)

    def note(self, identity: BatchIdentity) -> None:
        """Record a batch that parked tables miss. Called again, it changes nothing."""
        facts = MissedBatch(identity.number, identity.checkpoint, identity.start, identity.end)
        self.checkpoint.put_missed_batch(identity.number, asdict(facts))

    def missed(self, table: str) -> list[MissedBatch]:
        """Return the batches that a parked table lacks, in order."""
        # Batches are noted once for all parked tables, and each table needs those since it was parked.
        first = self.tables[table].batch
        numbers = (number for number in self.checkpoint.missed_batches() if number >= first)
        found = (self.checkpoint.missed_batch(number) for number in numbers)
        return [MissedBatch(**facts) for facts in found if facts is not None]

    def error(self) -> TablesParked:
        """Return the error with which a run with parked tables ends."""
        reasons = {
            table.table: f"since batch {table.batch}, {table.error}: {table.reason}"
            + (f" To repair: {table.hint}" if table.hint else "")
            for table in self.tables.values()
        }
        shown = dict(sorted(reasons.items())[:10])
        count = len(self.tables)
        return TablesParked(
            f"{count} table{'s' if count > 1 else ''} failed and {'are' if count > 1 else 'is'} parked; the others"
            " continued",
            hint="correct the cause, then  penstock run FILE --retry  reads the batches they missed. The source still"
            " has the same changes in them: if these can never fit,  --reset TABLE  empties a table of a database"
            " and copies it again. So it does for PostgreSQL, which keeps no changes that were read",
            **shown,
        )

    def _save(self) -> None:
        records = [asdict(parked) for parked in self.tables.values()]
        for record in records:
            if not record["hint"]:  # older versions know only the other keys
                del record["hint"]
        self.checkpoint.put_parked(records)
