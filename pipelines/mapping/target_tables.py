"""The tables that a pipeline writes, as the driver, the planner and the tasks see them.

After each batch the driver writes the schema id of each table to a file on its own machine. The planner adds the ids to
the input partitions. A task reads the schema file of that version once and caches it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.pipelines.mapping.new_tables import NO_KEY, NO_KEY_HINT
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import BucketMode
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.options.checks import report

if TYPE_CHECKING:
    from penstock.pipelines.config.sink import CatalogConfig as CatalogSection

log = logging.getLogger(__name__)

FILE = "tables.json"
_KEYED = (
    "the source table has a primary key now; its earlier rows are not in the table until the producer sends them again"
)
# Threads only wait for the store, so their number does not depend on the cores.
THREADS = 8


# Snapshot ids begin at 1, so neither 0 nor -1 is an id.
NEWEST = -1


class TargetVersion(NamedTuple):
    """The version of a table that a batch works on.

    It has a schema id, and a snapshot id if all tasks must share one snapshot (0: no snapshot yet; NEWEST: each
    bucket's writer uses the latest).
    """

    schema: int
    snapshot: int = NEWEST


Versions: TypeAlias = dict[str, TargetVersion]
Schemas: TypeAlias = dict[str, int]


def settings_of(catalog: CatalogSection) -> CatalogSettings:
    """Return the settings of the catalog that a pipeline file describes."""
    return CatalogSettings.of(catalog.warehouse, catalog.all_options)


@dataclass(slots=True)
class Targets:
    """The driver's list of tables with their schema ids.

    Every change to it is written to a file before the next batch is planned.
    """

    warehouse: CatalogSettings
    folder: Path
    schemas: Schemas = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)  # in this run, because they cannot store incoming changes
    received: set[str] = field(default_factory=set)  # tables that received rows in this run
    reasons: dict[str, str] = field(default_factory=dict)  # why tables cannot be created
    keyless: dict[str, set[str]] = field(default_factory=dict)  # by table, sources left out because they have no key
    options: Mapping[str, str] = field(default_factory=dict)  # options that the pipeline sets on tables it creates
    reported: set[str] = field(default_factory=set)  # tables whose options without effect were logged

    def report_options(self, tables: Iterable[str]) -> None:
        """Log the options without effect of tables that receive rows for the first time in this run.

        Options that the pipeline sets on all its tables are not logged here.
        """
        for table in set(tables) - self.reported:
            self.reported.add(table)
            if table in self.schemas:
                options = self.warehouse.layout(table, self.schemas[table]).schema.options
                report(table, {key: value for key, value in options.items() if self.options.get(key) != value})

    def load(self, names: Iterable[str]) -> None:
        """Load the schema ids of those tables that exist."""

        def found(name: str) -> tuple[str, int] | None:
            try:
                return name, self.warehouse.store(name).schema().id
            except TableMissing:
                return None

        with ThreadPoolExecutor(THREADS) as pool:
            self.schemas = dict(filter(None, pool.map(found, names)))
        self._save()

    def put(self, schemas: Mapping[str, int]) -> None:
        if any(self.schemas.get(table) != schema for table, schema in schemas.items()):
            self.schemas.update(schemas)
            self._save()

    def leave_out(self, tables: Iterable[str], reason: str = "") -> None:
        names = set(tables)
        self.left_out |= names
        if reason:
            self.reasons |= dict.fromkeys(names, reason)
        self._save()

    def leave_out_keyless(self, table: str, source: str) -> None:
        """Log once that a source table is left out because it has no key, and keep the reason for `status`."""
        if source not in self.keyless.setdefault(table, set()):
            self.keyless[table].add(source)
            self.reasons[table] = _without_key(self.keyless[table])
            log.warning("event=table_left_out table=%s source=%s reason=%s hint=%s", table, source, NO_KEY, NO_KEY_HINT)

    def take_in_keyed(self, table: str, source: str) -> None:
        """Log that a source table that was left out has a key now, and is captured from here on."""
        if source in self.keyless.get(table, ()):
            self.keyless[table].remove(source)
            if self.keyless[table]:
                self.reasons[table] = _without_key(self.keyless[table])
            else:
                self.reasons.pop(table, None)
            log.warning("event=table_taken_in table=%s source=%s reason=%s", table, source, _KEYED)

    @contextmanager
    def only(self, tables: Collection[str]) -> Iterator[None]:
        """Leave out all other tables while the context is active."""
        before, self.left_out = self.left_out, set(self.schemas) - set(tables)
        try:
            yield
        finally:
            # A schema change in between has saved the temporary list.
            self.left_out = before
            self._save()

    def take_in(self, table: str) -> None:
        self.left_out.discard(table)
        self._save()

    def _save(self) -> None:
        # Renamed into place: the planner is another process, and must never read half a list.
        half = self.folder / f".{FILE}"
        half.write_text(json.dumps([self.schemas, sorted(self.left_out)]))
        half.replace(self.folder / FILE)


def _without_key(sources: Iterable[str]) -> str:
    return f"{NO_KEY} (source {', '.join(sorted(sources))})"


def known_tables(folder: str) -> tuple[Schemas, frozenset[str]]:
    """Return the schemas and the left-out tables that the driver wrote last. Called by the planner."""
    schemas, left_out = json.loads((Path(folder) / FILE).read_text())
    return schemas, frozenset(left_out)


def versions_now(warehouse: CatalogSettings, schemas: Schemas) -> Versions:
    """Return the versions that a batch or a replay works on.

    Only tables whose keys are looked up need one snapshot for all tasks: if two tasks looked up a key in two snapshots,
    they could assign it to two buckets.
    """

    def version(table: str, schema: int) -> TargetVersion:
        if warehouse.layout(table, schema).mode not in {BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION}:
            return TargetVersion(schema)
        return TargetVersion(schema, warehouse.store(table).snapshots.latest_id() or 0)

    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(schemas, pool.map(version, schemas, schemas.values()), strict=True))


def state_at(store: TableStore, version: TargetVersion) -> TableState:
    snapshots = store.snapshots
    if version.snapshot == NEWEST:
        return TableState(store, snapshots.latest())
    return TableState(store, snapshots.get(version.snapshot) if version.snapshot else None)
