"""Reads the state of a pipeline from its checkpoint and its tables: no driver has to run for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc

from penstock.errors import PenstockError
from penstock.pipelines.ledger.batch_identity import END, NEWEST
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.filled_tables import FilledTables
from penstock.pipelines.monitor.deferred_tables import DeferredTables
from penstock.pipelines.monitor.pipeline_state import PipelineState, TableStatus
from penstock.pipelines.tasks.dead_letter_table import DEFAULT_NAME
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import PIPELINE, Snapshot
from penstock.table.meta.store import TableMissing, TableStore

_LOOKED_AT = 200  # snapshots of a table that are searched for the pipeline's last one
THREADS = 8


def state_of(
    name: str,
    checkpoint: str,
    warehouse: CatalogSettings,
    databases: Iterable[str],
    lag: Mapping[str, int] | None = None,
) -> PipelineState:
    """Return the state, from snapshots and manifests of the tables in these databases that this pipeline wrote."""
    folder = CheckpointFolder(checkpoint, warehouse.store_options)
    progress, filled = folder.batches.progress(), FilledTables.of(folder, warehouse)
    sources, uncaptured = filled.sources, filled.uncaptured
    # Snapshots name their pipeline, but they expire. The checkpoint lists the tables without such snapshots.
    made = {*sources.values(), *uncaptured}
    names = [table for database in databases for table in warehouse.tables(database)]
    with ThreadPoolExecutor(THREADS) as pool:
        states = list(pool.map(lambda table: _table(warehouse, table, name, in_ledger=table in made), names))
    driver, parked, signals = folder.status(), folder.parked(), folder.signals()
    known = {state.table for state in states if state is not None}
    states += [TableStatus(table, 0) for table in sorted(parked.keys() - known)]  # they could not be created
    return PipelineState(
        name=name,
        checkpoint=checkpoint,
        progress=progress,
        driver=driver,
        paused=signals.paused,
        requests=signals.snapshots,
        tables=tuple(state for state in states if state is not None),
        now_millis=warehouse.now_millis(),
        lag=lag,
        parked=parked,
        uncaptured=uncaptured,
        letters=letters_kept(warehouse, _tables_of_letters(driver, names), name),
        deferred=DeferredTables.of(progress.offsets or {}, sources),
    )


def _tables_of_letters(driver: Mapping[str, Any] | None, names: Iterable[str]) -> list[str]:
    said = (driver or {}).get("dead_letter_table")
    return [str(said)] if said else [name for name in names if name.endswith(f".{DEFAULT_NAME}")]


def letters_kept(warehouse: CatalogSettings, tables: Iterable[str], pipeline: str) -> dict[str, int]:
    """Return the number of a pipeline's dead letters by their target tables."""
    found: Counter[str] = Counter()
    for table in tables:
        try:
            latest = warehouse.store(table).snapshots.latest()
        except TableMissing:
            continue
        if latest is not None:
            found.update(_letters(warehouse, table, latest.id, latest.mark, pipeline))
    return dict(found)


@lru_cache(maxsize=32)  # the status page asks every few seconds
def _letters(warehouse: CatalogSettings, table: str, snapshot: int, _mark: int, pipeline: str) -> Mapping[str, int]:
    rows = Table(warehouse.store(table)).scan(
        columns=["target_table"], where=pc.field("pipeline") == pipeline, snapshot=snapshot
    )
    # The snapshot is a part of the cache's key: new letters have a new snapshot, with another mark if it has the id of
    # one that was rolled back.
    return Counter(target or "" for target in rows.to_arrow()["target_table"].to_pylist())


def _table(warehouse: CatalogSettings, table: str, pipeline: str, *, in_ledger: bool) -> TableStatus | None:
    """Return the status of a table of the pipeline, or None for a table of others.

    A table that the pipeline fills may have no snapshot of it yet, or not any more after an expiry or a fast-forward.
    The checkpoint lists such tables.
    """
    try:
        store = warehouse.store(table)
        schema = store.schema().id
    except TableMissing:
        return None
    try:
        last = _last(store, pipeline)
        return None if last is None and not in_ledger else _described(store, table, schema, last)
    except PenstockError as error:
        return TableStatus(table, schema, error=error.message)


def _last(store: TableStore, pipeline: str) -> Snapshot | None:
    for seen, snapshot in enumerate(store.snapshots.newest_first()):
        if snapshot.properties.get(PIPELINE) == pipeline:
            return snapshot
        if seen >= _LOOKED_AT:
            return None
    return None


def _described(store: TableStore, table: str, schema: int, last: Snapshot | None) -> TableStatus:
    newest = None if last is None else last.properties.get(NEWEST)
    latest = store.snapshots.latest() or last
    counts: dict[tuple[bytes, int], list[int]] = {}
    for entry in live_entries(store, latest) if latest else ():
        bucket = counts.setdefault((entry.partition, entry.bucket), [0, 0, 0])
        bucket[0] += 1
        bucket[1] += entry.file.level == 0
        # One bit per level with files. Level 0 is shifted out below, because each of its files is counted as a run.
        bucket[2] |= 1 << entry.file.level
    return TableStatus(
        table=table,
        schema=schema,
        snapshot=latest.id if latest else None,
        batch=last.commit_identifier if last else None,
        committed_millis=last.time_millis if last else None,
        newest_millis=None if newest is None else int(newest),
        records=latest.total_record_count if latest else 0,
        files=max((files for files, _, _ in counts.values()), default=0),
        level0=max((level0 for _, level0, _ in counts.values()), default=0),
        # Each file of level 0 is a sorted run of its own, each deeper level is one.
        runs=max((level0 + (levels >> 1).bit_count() for _, level0, levels in counts.values()), default=0),
    )


def position_of(state: PipelineState, warehouse: CatalogSettings) -> Mapping[str, Any] | None:
    """Return the position of the tables: from Spark's log, otherwise from the most advanced snapshot."""
    if state.progress.offsets is not None:
        return state.progress.offsets
    for table in sorted(state.tables, key=lambda status: status.batch or -1, reverse=True):
        last = _last(warehouse.store(table.table), state.name)
        if last is not None and END in last.properties:
            return dict(json.loads(last.properties[END]))
    return None
