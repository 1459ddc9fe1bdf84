"""A pipeline as the job that runs it: its source, its mapping, and its settings. Independent of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.source import NO_LIMIT, Limit
from penstock.pipelines.driver.batch_driver import BatchDriver, OnBatch, RereadFn
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.driver.first_sample import FirstLook
from penstock.pipelines.ledger.batch_identity import LastBatch, Lineage
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.filled_tables import FilledTables, SourceName
from penstock.pipelines.ledger.parked_tables import ParkedTables
from penstock.pipelines.mapping.table_mapping import TableMapping
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks import bad_records
from penstock.pipelines.tasks.bad_records import FAIL, OnBad
from penstock.pipelines.tasks.read import BatchReader
from penstock.table.catalog.settings import CatalogSettings


@dataclass(frozen=True, slots=True)
class Job:
    """A pipeline ready to run. `tables` are existing tables that it may write; others are created when first needed."""

    name: str
    source: ChangeSource
    mapping: TableMapping
    warehouse: CatalogSettings
    checkpoint: str
    tables: tuple[str, ...] = ()
    trigger_seconds: float = 30.0
    until_caught_up: bool = False
    limit: Limit = NO_LIMIT
    on_bad: OnBad = FAIL
    accept_replay: bool = False
    resume_from_tables: bool = False
    ignore_incompatible: bool = False
    eager_init: bool = False
    compacts_in_background: bool = False
    readers: int | None = None  # tasks reading at once, to limit the load on the source
    compaction_tasks: int | None = None  # of a compaction in the background; None: a quarter of the slots
    maintenance_seconds: float = 60.0
    first_look: FirstLook | None = None
    retries: int = 0
    backoff_seconds: tuple[float, float] = (1.0, 300.0)
    isolates: bool = False  # a table that fails is parked, and the others continue
    retry_parked: bool = False
    forget_parked: bool = False  # all tables are read again
    reset: tuple[str, ...] = ()  # these tables are read again
    table_options: Mapping[str, str] = field(default_factory=dict)  # of new tables
    leaves_out: bool = False  # new tables that cannot be created are left out
    left_out: Mapping[str, str] = field(default_factory=dict)  # tables known at the start to be left out, and why
    filled: FilledTables | None = None  # the checkpoint's record of the tables that were filled
    # target tables of the source tables known at the start
    goes_to: Mapping[SourceName, str | None] = field(default_factory=dict)

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
        self.mapping.adopt(self.tables)
        if self.on_bad.table is not None:
            bad_records.ensure(self.warehouse, self.on_bad.table)
        targets.load({*self.tables, *self.on_bad.letters})
        parking = self.parking()
        released = parking.tables if self.forget_parked else parking.tables.keys() & set(self.reset)
        if released:
            parking.release(*released)
        targets.leave_out(parking.tables)
        targets.reasons |= self.left_out
        follows, resumes = self._lineage(targets)
        reader = BatchReader(
            self.source,
            self.mapping,
            self.warehouse,
            str(folder),
            min(tasks, self.readers or tasks),
            writers,
            limit=self.limit,
            on_bad=self.on_bad,
            resumes=resumes,
            ignore_incompatible=self.ignore_incompatible,
            compacts_in_background=self.compacts_in_background,
            isolates=self.isolates,
            leaves_out=self.leaves_out,
        )
        if self.first_look is not None and resumes is None and self._own_checkpoint.is_new:
            self.first_look.make_tables(reader, targets, stopped)
        commits = Commits(self.warehouse, self.accept_replay, follows, self.isolates)
        own = Lineage.of(self.warehouse, targets.schemas, self.name).newest if self.eager_init else {}
        eager = set(own) if self.eager_init else None
        if self.filled is not None:
            self.filled.begin(self.goes_to)
        return BatchDriver(
            self.name, reader, targets, commits, parking, reread_fn, on_batch, eager=eager, filled=self.filled
        )

    def parking(self) -> ParkedTables:
        """Return the tables that are parked now."""
        return ParkedTables.of(self._own_checkpoint, isolates=self.isolates)

    @property
    def is_new(self) -> bool:
        """True if no batch was ever planned with the checkpoint."""
        return self._own_checkpoint.is_new

    @property
    def _own_checkpoint(self) -> CheckpointFolder:
        return CheckpointFolder(self.checkpoint, self.warehouse.store_options)

    def _lineage(self, targets: Targets) -> tuple[frozenset[str], LastBatch | None]:
        """Return the commit users of older checkpoints that this one may continue, and the batch at which it begins."""
        checkpoint = self._own_checkpoint
        new = checkpoint.is_new
        if not (new or self.accept_replay):
            return checkpoint.follows(), None
        lineage = Lineage.of(self.warehouse, targets.schemas, self.name)
        resumes = lineage.last() if self.resume_from_tables and new else None
        if resumes is None and not self.accept_replay:
            lineage.refuse()
        return checkpoint.follow(lineage.users), resumes
