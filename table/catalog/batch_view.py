"""A consistent view of the tables of a pipeline: for each, the snapshot with exactly the batches up to one batch.

Tables are committed one by one, so their newest snapshots may belong to different batches while a batch is committed.
Each snapshot of a pipeline carries the pipeline's name, its checkpoint (in the commit user), the batch, and how many
tables the batch changed; this is enough to find a batch that all tables have.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import ConfigError
from penstock.table.catalog.base import CatalogBackend
from penstock.table.errors import SnapshotMissing
from penstock.table.handle import Table
from penstock.table.meta.snapshot import PARKED, PIPELINE, TABLES, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from penstock.table.read.scan import Scan

THREADS = 8
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchView:
    """The tables of a pipeline as they are after one batch.

    `snapshots` are the ids by table. Tables that the pipeline created after the batch are not among them. `parked` are
    those that lack batches up to this one, because they failed and wait for a retry.
    """

    pipeline: str
    batch: int
    snapshots: Mapping[str, int]
    _stores: Mapping[str, TableStore] = field(repr=False)
    parked: tuple[str, ...] = ()

    def scan(self, table: str, **options: Any) -> Scan:
        """Return a scan of a table at this moment, with the arguments of `Table.scan`."""
        return self._table(table).scan(snapshot=self.snapshots[table], **options)

    def create_tags(self, name: str) -> None:
        """Create a tag of this name in all tables, so that other engines can read this state and expiry keeps it.

        After an error no table has the new tag. A tag that an earlier call created at the same snapshot is kept.
        """
        created: list[Table] = []
        try:
            for table, snapshot in self.snapshots.items():
                handle = self._table(table)
                if handle.tags.get(name) != snapshot:
                    handle.create_tag(name, snapshot)
                    created.append(handle)
        except BaseException:
            for handle in created:
                handle.delete_tag(name)
            raise

    def _table(self, table: str) -> Table:
        if table not in self.snapshots:
            raise ConfigError(
                f"table {table!r} has no rows of this pipeline at batch {self.batch}",
                pipeline=self.pipeline,
                hint=f"the tables are {', '.join(sorted(self.snapshots))}",
            )
        return Table(self._stores[table])


@dataclass(frozen=True, slots=True)
class _History:
    """The snapshots that pipelines made of one table, from the newest to the oldest."""

    store: TableStore
    snapshots: Sequence[Snapshot]

    @classmethod
    def of(cls, store: TableStore) -> _History:
        found = store.snapshots.newest_first()
        return cls(store, [snapshot for snapshot in found if PIPELINE in snapshot.properties])

    def by_user(self, user: str) -> Iterator[Snapshot]:
        return (snapshot for snapshot in self.snapshots if snapshot.commit_user == user)

    def at(self, pipeline: str, user: str, batch: int) -> Snapshot | None:
        """Return the table's last snapshot up to the batch.

        If the table has no batch of this checkpoint yet, an older checkpoint made that snapshot. None if the table is
        newer than the batch. SnapshotMissing if the snapshot has expired.
        """
        later = False
        for snapshot in self.snapshots:
            if snapshot.properties[PIPELINE] != pipeline:
                continue
            # Snapshots of an older checkpoint are older than all batches of this one.
            if snapshot.commit_user != user or snapshot.commit_identifier <= batch:
                return snapshot
            later = True
        if later and (self.store.snapshots.earliest_id() or 1) > 1:
            raise SnapshotMissing(
                f"the snapshot of batch {batch} has expired",
                table=self.store.name,
                pipeline=pipeline,
                hint=self._kept(user, batch)
                or "keep more snapshots (snapshot.num-retained.min), or tag batches with create_tags",
            )
        return None

    def _kept(self, user: str, batch: int) -> str | None:
        """Return a hint to read the newest tagged snapshot up to the batch, or None if no tag keeps one.

        The table may have had later snapshots up to the batch, which no tag keeps.
        """
        tags = TagFiles(self.store.storage, self.store.paths.root).all()
        kept = [tag for tag in tags if tag.snapshot.commit_user == user]
        last = max(
            (tag.snapshot.commit_identifier for tag in kept if tag.snapshot.commit_identifier <= batch), default=-1
        )
        names = sorted(tag.name for tag in kept if tag.snapshot.commit_identifier == last)
        if not names:
            return None
        return f"read the table by its tag, which has it after batch {last}: scan(tag={names[0]!r})"


def batch_view(backend: CatalogBackend, batch: int | None, pipeline: str | None) -> BatchView:
    """Return the tables after a batch of a pipeline: the newest that all tables have, or the given one.

    ConfigError if the batch is not complete, or if several pipelines wrote tables and none is named.
    """
    names = [f"{database}.{table}" for database in backend.databases() for table in backend.tables(database)]
    with ThreadPoolExecutor(THREADS) as pool:
        histories = dict(zip(names, pool.map(lambda name: _History.of(backend.open(name, None)), names), strict=True))
    pipeline = _chosen(pipeline, histories.values())
    newest = [
        snapshot
        for history in histories.values()
        for snapshot in history.snapshots[:1]
        if snapshot.properties[PIPELINE] == pipeline
    ]
    # The checkpoint that wrote last: with a new checkpoint the numbers of batches begin again.
    user = max(newest, key=lambda snapshot: (snapshot.time_millis, snapshot.commit_identifier)).commit_user
    number = _complete(batch, pipeline, [list(history.by_user(user)) for history in histories.values()])
    at = {name: history.at(pipeline, user, number) for name, history in histories.items()}
    snapshots = {name: snapshot.id for name, snapshot in at.items() if snapshot is not None}
    parked = tuple(sorted(_parked(number, user, histories) & snapshots.keys()))
    for name in parked:
        log.warning("event=parked_table_in_view table=%s batch=%d snapshot=%d", name, number, snapshots[name])
    return BatchView(pipeline, number, snapshots, {name: histories[name].store for name in snapshots}, parked)


def _parked(batch: int, user: str, histories: Mapping[str, _History]) -> set[str]:
    """Return the tables that were parked at the batch and still are: a released table has had its batches since."""
    made = {name: list(history.by_user(user)) for name, history in histories.items()}
    numbers = {snapshot.commit_identifier for snapshots in made.values() for snapshot in snapshots}
    last = max(number for number in numbers if number <= batch)
    listed: dict[int, set[str]] = {last: set(), max(numbers): set()}
    for snapshots in made.values():
        for snapshot in snapshots:
            if snapshot.commit_identifier in listed:
                listed[snapshot.commit_identifier] |= set(json.loads(snapshot.properties.get(PARKED, "[]")))
    lacking = set.intersection(*listed.values())
    return {name for name in lacking if all(of.commit_identifier < last for of in made.get(name, ()))}


def _chosen(pipeline: str | None, histories: Iterable[_History]) -> str:
    """Return the pipeline, which may be left out where only one wrote tables."""
    names = {snapshot.properties[PIPELINE] for history in histories for snapshot in history.snapshots}
    # Dead letters of a table that was parked and retried are committed as PIPELINE.late.TABLE.
    names = {name for name in names if name.partition(".late.")[0] not in names - {name}}
    if pipeline is None and len(names) == 1:
        return names.pop()
    if pipeline is None or pipeline not in names:
        problem = "which pipeline's batch?" if pipeline is None else f"pipeline {pipeline!r} wrote no table"
        hint = f"pipeline= is one of {', '.join(sorted(names))}" if names else "no pipeline wrote into this warehouse"
        raise ConfigError(problem, hint=hint)
    return pipeline


def _complete(batch: int | None, pipeline: str, histories: Sequence[Sequence[Snapshot]]) -> int:
    """Return the batch, or the newest that all its tables have. ConfigError if it is not complete.

    A batch is complete when its tables have it, or when a later one has begun: batches follow one another.
    """
    if batch is not None and (getattr(batch, "__index__", None) is None or batch < 0):
        raise ConfigError(
            f"batch={batch!r} is not the number of a batch", pipeline=pipeline, hint="batches are numbered from 0"
        )
    newest = max(snapshots[0].commit_identifier for snapshots in histories if snapshots)
    made = [
        next((snapshot for snapshot in snapshots if snapshot.commit_identifier == newest), None)
        for snapshots in histories
    ]
    expected = max(int(snapshot.properties.get(TABLES, 0)) for snapshot in made if snapshot is not None)
    done = sum(snapshot is not None for snapshot in made)
    # Without the number of its tables, which older versions did not record, a batch is complete once the next
    # begins.
    last = newest if 0 < expected <= done else newest - 1
    if last < 0 or (batch is not None and batch > last):
        raise ConfigError(
            f"batch {newest if batch is None else batch} of the pipeline is not complete",
            pipeline=pipeline,
            newest_complete=last if last >= 0 else "none",
            hint="wait for its commits" if batch is None or batch == newest else "choose a batch that is complete",
        )
    return last if batch is None else batch
