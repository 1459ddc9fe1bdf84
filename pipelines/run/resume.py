"""Where the tables of a pipeline are, by their own snapshots: what a new checkpoint can begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.ingest.ranges import Offsets
from penstock.pipelines.run.identity import another_checkpoint, last_of_pipeline, range_of
from penstock.pipelines.run.tables import THREADS, Warehouse
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

    @classmethod
    def of(cls, warehouse: Warehouse, tables: Iterable[str], pipeline: str, most: int | None = None) -> Lineage:
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(lambda table: (table, last_of_pipeline(warehouse.store(table), pipeline, most)), tables)
            return cls(pipeline, {table: snapshot for table, snapshot in found if snapshot is not None})

    @property
    def users(self) -> frozenset[str]:
        return frozenset(snapshot.commit_user for snapshot in self.newest.values())

    def refuse(self) -> None:
        """CheckpointMismatch where there is any: at the start, before a table is touched."""
        for table, snapshot in self.newest.items():
            raise another_checkpoint(table, snapshot)

    def last(self) -> Reached:
        if not self.newest:
            raise ConfigError(
                "there is nothing to resume from: no table has a batch of this pipeline",
                pipeline=self.pipeline,
                hint="start without --resume-from-tables; or give the --name the tables were written with",
            )
        newest = max(self.newest.values(), key=lambda snapshot: snapshot.time_millis)
        return Reached(*range_of(newest))
