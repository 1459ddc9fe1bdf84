"""Partitions in which a metastore differs from the tables, because the process that committed them was stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import PenstockError, counted
from penstock.pipelines.monitor.pipeline_state import PipelineState
from penstock.table.catalog.settings import CatalogSettings

_NAMED = 3
# A comparison reads the lists of all files, and all partitions of the metastore. `status --watch` shows the state much
# more often.
_AGAIN_S = 60.0


@dataclass(slots=True)
class OwedPartitions:
    """The warnings of the last comparison with the tables, which is repeated once a minute at most."""

    _found: tuple[str, ...] = ()
    _again_at: float = float("-inf")

    def of(self, state: PipelineState, warehouse: CatalogSettings) -> tuple[str, ...]:
        if time.monotonic() >= self._again_at:
            self._found = tuple(owed(state, warehouse))
            self._again_at = time.monotonic() + _AGAIN_S
        return self._found


def owed(state: PipelineState, warehouse: CatalogSettings) -> Iterator[str]:
    """Yield a sentence for each table of a pipeline whose catalog lacks partitions, or has too many."""
    for table in state.tables:
        if table.error is not None or table.table in state.parked:
            continue  # it may not exist, or be unreadable
        try:
            store = warehouse.store(table.table)
            folders = store.commits.owed_partitions(store)
        except PenstockError as error:
            yield f"{table.table}: its partitions in the metastore cannot be read:  {error.message}"
            continue
        if folders:
            named = ", ".join(folders[:_NAMED]) + (", ..." if len(folders) > _NAMED else "")
            yield (
                f"{table.table}: the metastore does not follow the table in {counted(len(folders), 'partition')} "
                f"({named}); the first commit of the next run corrects it, or now: penstock repair --identifier "
                f"{table.table}"
            )
