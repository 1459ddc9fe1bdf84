"""Lookups of a pipeline: columns of dimension tables added to the changes of a source table.

The rows of a batch come from one snapshot of each dimension, which the driver chooses and stores with the offsets of
the batch. Only rows that missed, and are asked for again, may come from a newer one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import sleep
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch, SourceField
from penstock.pipelines.mapping.lookup_run import LookupRun
from penstock.row_kinds import is_retract
from penstock.schema_evolution.expression_columns import may_lack_columns, typed_columns
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import typed
from penstock.schema_evolution.update_images import filtered_by
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.errors import SnapshotMissing
from penstock.table.lookup.flink_hints import report_hints
from penstock.table.lookup.matches import LookupRetry, Matches, all_rows
from penstock.table.lookup.partitions import LookupPartitions
from penstock.table.meta.store import TableMissing, TableStore
from penstock.table.values.buffers import Ints, one_batch, rows_at
from penstock.table.values.types import with_nullability

if TYPE_CHECKING:
    from penstock.pipelines.config.rules import LookupConfig
    from penstock.table.lookup.dimension import Dimension

log = logging.getLogger(__name__)

_MOST_OPEN = 32


@dataclass(frozen=True, slots=True)
class LookupStep:
    """One dimension. `on` are pairs of a column of the row and one of the dimension; `columns` of new name and column.

    `partitions` are the partitions of the dimension that are looked up. With `inner`, a row whose key is missing is
    left out; otherwise its new columns are null.
    """

    catalog: CatalogSettings
    table: str
    on: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    inner: bool = False
    retry: LookupRetry | None = None
    partitions: LookupPartitions | None = None

    @classmethod
    def of(cls, given: LookupConfig, catalog: CatalogSettings) -> LookupStep:
        """Build from the section of a pipeline file."""
        columns = tuple(_renamed(text) for text in given.columns)
        retry = None if given.retry is None else LookupRetry(given.retry.fixed_delay, given.retry.max_attempts)
        if given.retry is not None:
            report_hints(given.table, {"output-mode": given.retry.output_mode})
        inner = given.join == "inner"
        partitions = None if given.partitions is None else LookupPartitions.parse(given.partitions)
        return cls(catalog, given.table, tuple(given.on.items()), columns, inner, retry, partitions)

    def joined(self, change: ChangeBatch, mapping: TypeMapping, zone: str, run: LookupRun) -> ChangeBatch:
        """Return the changes with the columns of the dimension."""
        self._follow(run)
        fields = self._fields(change)
        if not len(change):
            nothing = pa.schema([pa.field(field.name, pa.string()) for field in fields]).empty_table()
            return _with_columns(change, fields, nothing)
        keys = typed_columns(change, [name for name, _ in self.on], mapping, zone)
        matches = self._found(keys, run)
        matched = np.ones(len(change), np.bool_)
        matched[matches.missing] = False
        run.missed += len(change) - int(matched.sum())
        numbers, rows = matches.beside(outer=True)
        if len(numbers) > len(change):
            change = _at(change, numbers)
            matched = matched[numbers]
        change = _with_columns(change, fields, rows.rename_columns([name for name, _ in self.columns]))
        # A retract is kept without its columns: the row that it takes away was found before.
        return filtered_by(change, matched | is_retract(change.kinds)) if self.inner else change

    def _follow(self, run: LookupRun) -> None:
        """Leave the table that this process has opened if another table has its name now."""
        wanted, known = run.snapshots.get(self.table), _open.get(self._key(later=False))
        # The catalog is not asked if the snapshot is that of the range before.
        if wanted is not None and known is not None and known.place != wanted:
            self.catalog.follow(self.table)

    def _fields(self, change: ChangeBatch) -> list[SourceField]:
        """Return the new columns. ConfigError if the row or the dimension lacks a column, or both have one."""
        own = [field.name for field in change.schema.fields]
        source = f"{change.schema.database}.{change.schema.table}"
        if not may_lack_columns(change.schema):
            self.check_keys(own, source)
        for name, _ in self.columns:
            if name in own:
                raise ConfigError(
                    f"{source} has a column {name!r}, and so has the lookup in {self.table}",
                    hint=f"name it in  columns: [{name} as another_name]",
                )
        schema = self._store().schema()
        missing = [name for _, name in (*self.on, *self.columns) if name not in schema.names]
        if missing:
            raise ConfigError(
                f"a lookup uses {missing[0]!r}, which is not a column of {self.table}",
                hint=f"the columns are {', '.join(schema.names)}",
            )
        if self.partitions is not None:
            self.partitions.check(schema, self.table)
        by_name = {field.name: field for field in schema.fields}
        types = [(new, with_nullability(by_name[name].type, nullable=True)) for new, name in self.columns]
        return [SourceField(new, typed(type_)) for new, type_ in types]

    def check_keys(self, own: Sequence[str], source: str) -> None:
        """Raise ConfigError if a key of the lookup is not a column of the source table, which has the columns `own`."""
        for name, _ in self.on:
            if name not in own:
                raise ConfigError(
                    f"a lookup uses {name!r}, which is not a column of {source}",
                    hint=f"the columns are {', '.join(own)}",
                )

    def _store(self) -> TableStore:
        try:
            return self.catalog.store(self.table)
        except TableMissing as reason:
            raise ConfigError(
                "the table of a lookup does not exist", table=self.table, hint="create it before the pipeline"
            ) from reason

    def _found(self, keys: Sequence[pa.Array], run: LookupRun) -> Matches:
        matches = self._dimension(run, run.snapshots).rows(keys)
        if self.retry is None:
            return matches
        missing = _without_null(matches.missing, keys)
        if len(missing) and run.later.get(self.table, run.snapshots[self.table]) != run.snapshots[self.table]:
            # Other rows of the range have waited.
            matches, missing = self._found_later(matches, missing, keys, run)
        while len(missing) and run.attempts[self.table] < self.retry.attempts:
            run.attempts[self.table] += 1
            text = "event=lookup_waits table=%s keys=%d attempt=%d seconds=%g"
            log.info(text, self.table, len(missing), run.attempts[self.table], self.retry.delay)
            sleep(self.retry.delay)
            before = run.later.pop(self.table, None)
            if self._dimension(run, run.later).place not in {before, run.snapshots[self.table]}:
                matches, missing = self._found_later(matches, missing, keys, run)
        return matches

    def _found_later(
        self, matches: Matches, missing: Ints, keys: Sequence[pa.Array], run: LookupRun
    ) -> tuple[Matches, Ints]:
        """Return the matches, also of missing keys in the later snapshot, and the keys still missing."""
        places = pa.array(missing)
        again = self._dimension(run, run.later).rows([key.take(places) for key in keys])
        matches = _merged(matches, again, missing)
        return matches, _without_null(matches.missing, keys)

    def _dimension(self, run: LookupRun, snapshots: dict[str, tuple[int, int]]) -> Dimension:
        """Return the dimension at its snapshot; at the newest one if it has none there, or if that has expired.

        `snapshots` are the snapshots of the run, or its later ones.
        """
        dimension = self._opened(later=snapshots is run.later)
        wanted = snapshots.get(self.table)
        if wanted is None:
            dimension.refresh()
        else:
            try:
                dimension.move_to(*wanted)
                if self.table not in run.used:
                    dimension.follow_schema()
            except SnapshotMissing as reason:
                dimension.refresh()
                text = "event=lookup_snapshot_expired table=%s snapshot=%d used=%s reason=%s"
                log.warning(text, self.table, wanted[0], dimension.snapshot, reason.message)
        snapshots[self.table] = dimension.place
        run.note(self.table, dimension.snapshot or 0)
        return dimension

    def _opened(self, *, later: bool) -> Dimension:
        """Return the dimension. This process keeps it open: once for planned snapshots, and once for `later` ones."""
        key = self._key(later=later)
        dimension = _open.pop(key, None)
        if dimension is None:
            # It imports the reader of tables, which takes half a second, and most pipelines look nothing up.
            from penstock.table.lookup.dimension import Dimension

            by, columns = [name for _, name in self.on], [name for _, name in self.columns]
            dimension = Dimension.open(self._store(), by=by, columns=columns, partitions=self.partitions)
        _open[key] = dimension  # the last one is the most recently used
        while len(_open) > _MOST_OPEN:
            del _open[next(iter(_open))]
        return dimension

    def _key(self, *, later: bool) -> object:
        return (self.catalog, self._store().paths.root, self.on, self.columns, self.partitions, later)


# Worker processes serve many batches, and keep the rows that a dimension has read.
_open: dict[object, Dimension] = {}


def _renamed(text: str) -> tuple[str, str]:
    """Return the new name and the column of `city`, or of `city as user_city`."""
    words = text.split()
    return (words[-1], words[0])


def _without_null(numbers: Ints, keys: Sequence[pa.Array]) -> Ints:
    """Return the numbers of the keys that may be found later. A key with a null is never found."""
    for key in keys:
        if key.null_count and len(numbers):
            numbers = numbers[key.take(pa.array(numbers)).is_valid().to_numpy(zero_copy_only=False)]
    return numbers


def _merged(first: Matches, again: Matches, asked: Ints) -> Matches:
    numbers = np.concatenate([first.keys, asked[again.keys]])
    order = np.argsort(numbers, kind="stable")
    return Matches(numbers[order], rows_at(all_rows([first.rows, again.rows]), order), first.count)


def _at(change: ChangeBatch, numbers: Ints) -> ChangeBatch:
    """Return the rows with these numbers."""
    return replace(
        change,
        rows=rows_at(change.rows, numbers),
        kinds=change.kinds[numbers],
        positions=change.positions[numbers],
        subs=change.subs[numbers],
        event_times=change.event_times[numbers],
    )


def _with_columns(change: ChangeBatch, fields: Sequence[SourceField], rows: pa.Table) -> ChangeBatch:
    columns = [*change.rows.columns, *one_batch(rows).columns]
    schema = replace(change.schema, fields=(*change.schema.fields, *fields))
    batch = pa.RecordBatch.from_arrays(columns, names=[field.name for field in schema.fields])
    return replace(change, schema=schema, rows=batch)
