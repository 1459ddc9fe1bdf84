"""Where the tables of a pipeline are, by their own snapshots: what a new checkpoint can begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.ingest.source import Offsets
from penstock.pipelines.ledger.batch_identity import PIPELINE, another_checkpoint, last_of_pipeline, range_of
from penstock.pipelines.mapping.target_tables import THREADS, Warehouse
from penstock.table.meta.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Reached:
    """The last batch that came to any table. It may have missed others when the driver died between two commits, so it
    is read again, and the tables that have it pass it over."""

    start: Offsets
    end: Offsets


@dataclass(frozen=True, slots=True)
class Lineage:
    """`newest`: the last snapshot that runs of a pipeline, whatever their checkpoints, made in each of its tables."""

    pipeline: str
    newest: Mapping[str, Snapshot]
    warehouse: Warehouse | None = None

    @classmethod
    def of(cls, warehouse: Warehouse, tables: Iterable[str], pipeline: str, most: int | None = None) -> Lineage:
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(lambda table: (table, last_of_pipeline(warehouse.store(table), pipeline, most)), tables)
            newest = {table: snapshot for table, snapshot in found if snapshot is not None}
            return cls(pipeline, newest, warehouse)

    @property
    def users(self) -> frozenset[str]:
        return frozenset(snapshot.commit_user for snapshot in self.newest.values())

    def refuse(self) -> None:
        """CheckpointMismatch where there is any: at the start, before a table is touched."""
        for table, snapshot in self.newest.items():
            raise another_checkpoint(table, snapshot)

    def last(self) -> Reached:
        """By the numbers of batches, which only rise within a checkpoint: clocks may go back."""
        if not self.newest:
            raise ConfigError(
                "there is nothing to resume from: no table has a batch of this pipeline",
                pipeline=self.pipeline,
                hint="start without --resume-from-tables; or give the --name the tables were written with",
            )
        user = self._last_user()
        of_user = (snapshot for snapshot in self.newest.values() if snapshot.commit_user == user)
        return Reached(*range_of(max(of_user, key=lambda snapshot: snapshot.commit_identifier)))

    def _last_user(self) -> str:
        """Of the checkpoints that wrote these tables the one that no other came after in any of them."""
        users = self.users
        if len(users) > 1 and self.warehouse is not None:
            for table, newest in self.newest.items():
                users -= self._before(table, newest)
        last = [snapshot for snapshot in self.newest.values() if snapshot.commit_user in (users or self.users)]
        return max(last, key=lambda snapshot: snapshot.time_millis).commit_user

    def _before(self, table: str, newest: Snapshot) -> set[str]:
        """The other checkpoints of the pipeline whose snapshots lie before the newest of a table."""
        assert self.warehouse is not None
        older = (one for one in self.warehouse.store(table).snapshots.newest_first() if one.id < newest.id)
        ours = {one.commit_user for one in older if one.properties.get(PIPELINE) == self.pipeline}
        return ours - {newest.commit_user}
