"""The number and the size of the files of tables, from their manifests, for readers that ask now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.live import live_entries
from penstock.table.meta.store import TableMissing

AGAIN_SECONDS = 60.0


class Size(NamedTuple):
    files: int
    bytes: int


@dataclass(slots=True)
class Sizes:
    """The sizes. A table's manifests are read at most once a minute, and only if it has a new snapshot."""

    warehouse: CatalogSettings
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, tuple[tuple[int, int], Size]] = field(default_factory=dict)
    _looked: float | None = None

    def of(self, tables: Iterable[str]) -> dict[str, Size]:
        due = self._looked is None or self.clock() - self._looked >= AGAIN_SECONDS
        if due:
            self._looked = self.clock()
        for table in tables:
            if due or table not in self._known:
                self._look(table)
        return {table: size for table, (_, size) in self._known.items()}

    def _look(self, table: str) -> None:
        try:
            store = self.warehouse.store(table)
            latest = store.snapshots.latest()
        except TableMissing:
            self._known.pop(table, None)
            return
        if latest is None:  # also of a table that was created again
            self._known.pop(table, None)
            return
        # Only a new snapshot can have other files. After a rollback, it may have the id of a former one.
        state = (latest.id, latest.mark)
        if table not in self._known or self._known[table][0] != state:
            files = live_entries(store, latest)
            self._known[table] = state, Size(len(files), sum(entry.file.size for entry in files))
