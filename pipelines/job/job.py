"""A pipeline as the job that runs it: its source, its mapping, and its settings. Independent of Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.errors import PenstockError
from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.source import NO_LIMIT, Limit, Offsets
from penstock.pipelines.driver.batch_driver import BatchDriver, OnBatch, RereadFn
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.driver.first_sample import FirstLook
from penstock.pipelines.driver.run_warnings import RunWarnings
from penstock.pipelines.driver.watermarks import TableWatermarks
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.filled_tables import FilledTables, SourceName
from penstock.pipelines.ledger.holes import check_parked
from penstock.pipelines.ledger.lineage import LastBatch, Lineage
from penstock.pipelines.ledger.parked_tables import ParkedTables
from penstock.pipelines.mapping.table_mapping import TableMapping
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks import dead_letter_table
from penstock.pipelines.tasks.bad_records import STRICT, ErrorPolicy
from penstock.pipelines.tasks.read import BatchReader
from penstock.storage.base import store_error
from penstock.table.catalog.settings import CatalogSettings


@dataclass(frozen=True, slots=True)
class Trigger:
    """When batches start, how large one may be, and whether the run ends."""

    seconds: float = 30.0  # between the starts of two batches
    limit: Limit = NO_LIMIT
    until_caught_up: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """How batches become commits: the rules for a new checkpoint over tables that the pipeline wrote before.

    With `eager`, each batch makes a snapshot of every table that the pipeline writes, with or without rows.
    """

    accept_replay: bool = False
    resume_from_tables: bool = False
    eager: bool = False
    accept_gap: bool = False


def may_pass(error: BaseException) -> bool:
    """Return whether the error may not occur another time, such as a timeout of a store or a server that is away."""
    known = store_error(error, "the store failed") if isinstance(error, OSError) else error
    return isinstance(known, PenstockError) and known.retryable


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a run is repeated after an error that may pass, and the pauses before it."""

    times: int = 0
    first_seconds: float = 1.0
    longest_seconds: float = 300.0

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after this many failures: twice as long each time."""
        return min(self.longest_seconds, self.first_seconds * 2.0 ** (failures - 1))


@dataclass(frozen=True, slots=True)
class Recovery:
    """The tables that catch up or begin again when a run starts."""

    retry_parked: bool = False  # parked tables first apply the batches they missed
    reread_all: bool = False
    reread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BackgroundWork:
    """The work beside the batches: compaction, if they do not do it themselves, and maintenance."""

    compacts: bool = False
    compaction_tasks: int | None = None  # None: a quarter of the slots
    maintenance_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class TablesAtStart:
    """The tables as they are known when a run starts.

    `existing` are target tables that the pipeline may write. `left_out` maps tables that cannot be created to the
    reason, `goes_to` source tables to their target tables, or to None if they are not captured. `filled` is the
    checkpoint's record of the tables that the pipeline filled.
    """

    existing: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    goes_to: Mapping[SourceName, str | None] = field(default_factory=dict)
    filled: FilledTables | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A pipeline ready to run. Target tables that do not exist are created when they are first needed."""

    name: str
    source: ChangeSource
    mapping: TableMapping
    warehouse: CatalogSettings
    checkpoint: str
    tables: TablesAtStart = TablesAtStart()
    table_options: Mapping[str, str] = field(default_factory=dict)  # of new tables
    trigger: Trigger = Trigger()
    delivery: Delivery = Delivery()
    errors: ErrorPolicy = STRICT
    retry: RetryPolicy = RetryPolicy()
    recovery: Recovery = Recovery()
    background: BackgroundWork = BackgroundWork()
    readers: int | None = None  # tasks reading at once, to limit the load on the source
    first_look: FirstLook | None = None
    expects_one_source: bool = False  # all messages go to one table, and nobody chose their source tables
    passes_places: bool = False  # as the source's connector says; watermarks depend on it

    def check_start(self) -> None:
        """Raise the errors that `driver` would raise, except about tables of another checkpoint. Changes nothing."""
        self.mapping.check_adoption(self.tables.existing)
        if self.errors.on_bad.table is not None:
            dead_letter_table.check_columns(self.warehouse, self.errors.on_bad.table)
        if self.delivery.resume_from_tables and self.is_new:
            self._resumed(Lineage.of(self.warehouse, self.tables.existing, self.name))

    def driver(
        self,
        folder: Path,
        tasks: int,
        writers: int,
        reread_fn: RereadFn,
        on_batch: OnBatch | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> BatchDriver:
        """Return the driver's part of a run, with its list of tables in `folder`.

        Creates what must exist before the first batch. `reread_fn` runs the tasks of a replay.
        """
        targets = Targets(self.warehouse, folder, options=self.table_options)
        self.mapping.adopt(self.tables.existing)
        on_bad = self.errors.on_bad
        # Before the tables are loaded: read tasks need the version of the dead-letter table with the first bad
        # record.
        if on_bad.table is not None:
            dead_letter_table.ensure(self.warehouse, on_bad.table)
        targets.load({*self.tables.existing, *on_bad.letters})
        parking = self._released_parking()
        targets.leave_out(parking.tables)
        targets.reasons |= self.tables.left_out
        follows, resumes, resumed = self._lineage(targets)
        reader = self._reader(folder, tasks, writers, resumes)
        # Later batches create tables as they appear. It costs them a second reading, which this spares the first batch.
        if self.first_look is not None and resumes is None and self._own_checkpoint.batches.is_new:
            self.first_look.make_tables(reader, targets, stopped)
        commits = Commits(self.warehouse, self.delivery.accept_replay, follows, self.errors.isolates)
        # Tables that other writers fill exist in the same databases, and must not get snapshots of this pipeline.
        own = Lineage.of(self.warehouse, targets.schemas, self.name).newest if self.delivery.eager else {}
        eager = set(own) if self.delivery.eager else None
        filled = self.tables.filled
        # Sources that are skipped from now on must be recorded before the first batch: a crash after the batch
        # would leave no trace of the rows that were skipped.
        if filled is not None:
            filled.begin(self.tables.goes_to, resumed)
        return BatchDriver(
            self.name,
            reader,
            targets,
            commits,
            parking,
            reread_fn,
            on_batch,
            eager=eager,
            filled=filled,
            watermarks=TableWatermarks(self.passes_places),
            warnings=RunWarnings(self.expects_one_source),
        )

    def _released_parking(self) -> ParkedTables:
        """Return the parked tables. One that is emptied and read again does not need the batches that it missed."""
        parking, recovery = self.parking(), self.recovery
        released = parking.tables if recovery.reread_all else parking.tables.keys() & set(recovery.reread)
        if released:
            parking.release(*released)
        return parking

    def _reader(self, folder: Path, tasks: int, writers: int, resumes: LastBatch | None) -> BatchReader:
        return BatchReader(
            self.source,
            self.mapping,
            self.warehouse,
            str(folder),
            # Only reading is limited: write tasks do not connect to the source.
            min(tasks, self.readers or tasks),
            writers,
            limit=self.trigger.limit,
            errors=self.errors,
            resumes=resumes,
            compacts_in_background=self.background.compacts,
        )

    def knowing(self, tables: Iterable[str]) -> Job:
        """Return the job with these target tables as existing ones, so that no batch has to look for them."""
        existing = tuple(sorted({*self.tables.existing, *tables}))
        return replace(self, tables=replace(self.tables, existing=existing))

    def parking(self) -> ParkedTables:
        """Return the tables that are parked now."""
        return ParkedTables.of(self._own_checkpoint, isolates=self.errors.isolates)

    @property
    def is_new(self) -> bool:
        """True if no batch was ever planned with the checkpoint."""
        return self._own_checkpoint.batches.is_new

    @property
    def planned_offsets(self) -> Offsets | None:
        """Return the end of the newest batch that was planned with the checkpoint, None before the first."""
        return self._own_checkpoint.batches.planned_offsets

    @property
    def _own_checkpoint(self) -> CheckpointFolder:
        return CheckpointFolder(self.checkpoint, self.warehouse.store_options)

    def _resumed(self, lineage: Lineage) -> LastBatch:
        resumes = lineage.last()
        check_parked(resumes, accept=self.delivery.accept_gap)
        return resumes

    def _lineage(self, targets: Targets) -> tuple[frozenset[str], LastBatch | None, Collection[str]]:
        """Return the commit users of older checkpoints that this one may continue, and the batch at which it begins.

        The third value are the tables that have rows of these checkpoints; empty unless this one continues with them.
        """
        checkpoint = self._own_checkpoint
        new = checkpoint.batches.is_new
        # A checkpoint that has planned batches continues with its own list, which was stored at its first start.
        if not (new or self.delivery.accept_replay):
            return checkpoint.follows(), None, ()
        lineage = Lineage.of(self.warehouse, targets.schemas, self.name)
        resumes = self._resumed(lineage) if self.delivery.resume_from_tables and new else None
        if resumes is None and not self.delivery.accept_replay:
            lineage.refuse()
        resumed = lineage.newest.keys() & set(self.tables.existing) if resumes is not None else ()
        return checkpoint.follow(lineage.users), resumes, resumed
