"""The last batches of a pipeline in its tables, by any checkpoint: where a new checkpoint resumes, or is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.ingest.source import Offsets
from penstock.pipelines.ledger.batch_identity import another_checkpoint, last_of_pipeline, range_of
from penstock.pipelines.mapping.target_tables import THREADS
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.snapshot import PARKED, PIPELINE, Snapshot


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last batch that any table has.

    Other tables may lack it if the driver crashed between two commits, so it is read again, and the tables that have it
    skip it. Tables in `parked` may lack earlier batches too.
    """

    start: Offsets
    end: Offsets
    parked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lineage:
    """The commits of a pipeline by all of its checkpoints.

    `newest` has, by table, the last snapshot that any run of the pipeline made, with any checkpoint.
    """

    pipeline: str
    newest: Mapping[str, Snapshot]
    warehouse: CatalogSettings | None = None

    @classmethod
    def of(cls, warehouse: CatalogSettings, tables: Iterable[str], pipeline: str, most: int | None = None) -> Lineage:
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(lambda table: (table, last_of_pipeline(warehouse.store(table), pipeline, most)), tables)
            newest = {table: snapshot for table, snapshot in found if snapshot is not None}
            return cls(pipeline, newest, warehouse)

    @property
    def users(self) -> frozenset[str]:
        return frozenset(snapshot.commit_user for snapshot in self.newest.values())

    def refuse(self) -> None:
        """Raise CheckpointMismatch if there is any such snapshot. Called at the start, before a table is changed."""
        for table, snapshot in self.newest.items():
            raise another_checkpoint(table, snapshot)

    def last(self) -> LastBatch:
        """Return the last batch.

        Compares batch numbers, which only rise within a checkpoint, because clocks may go backwards.
        """
        if not self.newest:
            raise ConfigError(
                "there is nothing to resume from: no table has a batch of this pipeline",
                pipeline=self.pipeline,
                hint="start without --resume-from-tables, or set --name to the name with which the tables were written",
            )
        user = self._last_user()
        of_user = {table: snapshot for table, snapshot in self.newest.items() if snapshot.commit_user == user}
        last = max(of_user.values(), key=lambda snapshot: snapshot.commit_identifier)
        have = {table for table, snapshot in of_user.items() if snapshot.commit_identifier == last.commit_identifier}
        parked = [table for table in json.loads(last.properties.get(PARKED, "[]")) if table not in have]
        return LastBatch(*range_of(last), tuple(parked))

    def _last_user(self) -> str:
        """Return the commit user of the newest checkpoint, which no other checkpoint followed in any table."""
        users = self.users
        if len(users) > 1 and self.warehouse is not None:
            # A user with snapshots before another user's newest one has been followed by that user.
            for table, newest in self.newest.items():
                users -= self._before(table, newest)
        # If two checkpoints have written in turns, each seems to follow the other, and only their times are left to
        # compare.
        last = [snapshot for snapshot in self.newest.values() if snapshot.commit_user in (users or self.users)]
        return max(last, key=lambda snapshot: snapshot.time_millis).commit_user

    def _before(self, table: str, newest: Snapshot) -> set[str]:
        """Return the commit users of the pipeline's other checkpoints with snapshots before a table's newest."""
        assert self.warehouse is not None
        older = (
            snapshot for snapshot in self.warehouse.store(table).snapshots.newest_first() if snapshot.id < newest.id
        )
        ours = {snapshot.commit_user for snapshot in older if snapshot.properties.get(PIPELINE) == self.pipeline}
        return ours - {newest.commit_user}
