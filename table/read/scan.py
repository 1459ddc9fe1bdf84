"""The description of a batch read. Nothing is read before rows are asked for, and they can be asked for repeatedly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_times import snapshot_at
from penstock.table.meta.store import TableStore
from penstock.table.read.changes import read_between
from penstock.table.read.engine_read import EngineRead
from penstock.table.read.fallback import Fallback
from penstock.table.read.filter import RowFilter
from penstock.table.read.outputs import from_start
from penstock.table.read.plan import KeptLevels, Plan, plan_state
from penstock.table.read.snapshot_range import SnapshotRange
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from penstock.table.read.time_travel import NEWEST, ReadPoint, Travel, resolve
from penstock.table.schema.numbered_files import MAIN_BRANCH
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arguments import option_texts, optional_whole_number
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.html import facts_html
from penstock.table.values.names import no_column
from penstock.table.values.types import Field


@dataclass(frozen=True, slots=True)
class Scan(EngineRead):
    """A batch read of a table.

    Each call plans again on the newest snapshot, unless the scan names a snapshot or `at_one_snapshot` pinned it.
    """

    store: TableStore
    columns: tuple[str, ...] | None
    where: pc.Expression | str | RowFilter | None
    travel: Travel
    options: Mapping[str, str]
    between: SnapshotRange | None = None
    keep_levels: KeptLevels | None = None
    falls_back: bool = True
    snapshot: Snapshot | None = None
    limit: int | None = None

    @classmethod
    def of(
        cls,
        store: TableStore,
        *,
        columns: Sequence[str] | None = None,
        where: pc.Expression | str | None = None,
        point: ReadPoint = NEWEST,
        options: Mapping[str, object] | None = None,
        falls_back: bool = True,
        limit: int | None = None,
        schema: TableSchema | None = None,
    ) -> Scan:
        """Build a scan.

        With `falls_back`, partitions that this branch does not have are read from the fallback branch, if the table has
        one. `schema` is the newest schema if the caller has just read it.
        """
        if isinstance(columns, str):
            raise ConfigError("columns must be a list of names, not a text", hint=f"write columns=[{columns!r}]")
        given = option_texts(options)
        if "branch" in given:
            raise ConfigError(
                "a scan reads only one branch", table=store.name, hint="open the branch: table.branch(...)"
            )
        point.refuse_second(given)
        merged = {**(schema or store.schema()).options, **given}
        travel = Travel.of(merged, point)
        return cls(
            store,
            None if columns is None else tuple(columns),
            where,
            travel,
            given,
            SnapshotRange.of(merged),
            falls_back=falls_back,
            limit=_checked_limit(limit),
        )

    def __repr__(self) -> str:
        columns = "all columns" if self.columns is None else ", ".join(self.columns)
        where = "" if self.where is None else f" where {self.where}"
        return f"Scan({self.store.name}: {columns}{where})"

    def _repr_html_(self) -> str:
        where = None if self.where is None else str(self.where)
        return facts_html(self.store.name, {"columns": self.schema.names, "where": where, "limit": self.limit})

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows, including rowkind for reads of changes."""
        return self._reader(self.table_schema()).schema

    def plan(self) -> Plan:
        """Return the splits to read, of the fallback branch too, after pruning by statistics."""
        schema = self.table_schema()
        return self._plan(schema, self._condition(schema))

    def _plan(self, schema: TableSchema, where: RowFilter | None) -> Plan:
        snapshot = self.snapshot or resolve(self.store, self.travel)
        pruning = where.expression if where else None
        layout = Layout.of(replace(schema, options={**schema.options, **self.options}))
        # Options of the read, such as the size of splits, replace those of the table in the layout.
        plan = self._planned(self.store, layout, snapshot, pruning)
        fallback = self._fallback(schema, snapshot)
        if fallback is None:
            return plan
        beside = self._planned(fallback.store, fallback.layout(self.options), fallback.snapshot, pruning)
        branch = fallback.store.paths.branch or MAIN_BRANCH
        splits = [
            replace(split, branch=branch, schema_id=fallback.schema.id)
            for split in beside.splits
            if split.partition not in fallback.hidden
        ]
        return replace(plan, splits=(*plan.splits, *splits))

    def _planned(
        self, store: TableStore, layout: Layout, snapshot: Snapshot | None, where: pc.Expression | None
    ) -> Plan:
        after = self.travel.created_after
        keep_file = None if after is None else lambda file: (file.creation_millis or 0) > after
        return plan_state(store, layout, snapshot, where, keep_levels=self.keep_levels, keep_file=keep_file)

    def _fallback(self, schema: TableSchema, snapshot: Snapshot | None) -> Fallback | None:
        if not self.falls_back:
            return None
        # The options of the newest schema decide, whichever schema the rows are read by.
        newest = self.store.schema() if self.travel.travels else schema
        options = {**newest.options, **self.options}
        return Fallback.of(self.store, options, snapshot, travels=self.travel.travels)

    def at_one_snapshot(self) -> Scan:
        """Return this scan pinned to the snapshot that it would read now."""
        return self if self.between is not None else replace(self, snapshot=resolve(self.store, self.travel))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one split of the plan."""
        return self._reader(self.table_schema()).read(split)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Memory is bounded by one batch per sorted run, however large the table is. Reading stops after `limit` rows.
        """
        left = self.limit
        for batch in map(from_start, self._batches()):
            if left is not None and batch.num_rows >= left:
                if left:
                    yield batch.slice(0, left)
                return
            left = None if left is None else left - batch.num_rows
            yield batch

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.between is not None:
            yield from read_between(self.store, self.between, self._reader(self.store.schema(), kinds=True))
            return
        schema = self.table_schema()
        reader = self._reader(schema)
        for split in self._plan(schema, reader.where).splits:
            yield from reader.read(split)

    @property
    def is_divisible(self) -> bool:
        """Return whether the rows of the plan's splits are the scan's rows."""
        return self.between is None and self.limit is None

    def narrowed(self, columns: Sequence[str] | None, where: pc.Expression | None) -> Scan:
        """Return this scan with the columns and the filter of an engine's query.

        ConfigError if the scan cannot evaluate the filter, or must not: a limit counts rows before the filter.
        """
        if where is not None and (not self.is_divisible or isinstance(self.where, str | RowFilter)):
            raise ConfigError(
                "a filter cannot be added to this scan", table=self.store.name, hint="filter the result instead"
            )
        both = self.where if where is None else where if self.where is None else self.where & where
        shown = self.columns if columns is None or self.between is not None else tuple(columns)
        narrowed = replace(self, columns=shown, where=both)
        # Checked here: an engine that must filter all rows itself has to know before it gets the first of them.
        narrowed._condition(narrowed.table_schema())
        return narrowed

    def head(self, rows: int = 10) -> pa.Table:
        """Return up to `rows` rows, in no particular order."""
        return replace(self, limit=_checked_limit(rows)).to_arrow()

    def count(self) -> int:
        """Return the number of rows. Only the columns needed for keys and conditions are read."""
        return sum(batch.num_rows for batch in replace(self, columns=()).to_batches())

    def table_schema(self) -> TableSchema:
        """Return the schema of the snapshot the scan travels to, else the table's newest schema."""
        if not self.travel.travels:
            return self.store.schema()
        snapshot = self._schema_snapshot()
        return self.store.schema() if snapshot is None else self.store.schemas.get(snapshot.schema_id)

    def _schema_snapshot(self) -> Snapshot | None:
        """Return the snapshot whose schema is read.

        A stream that starts before the first snapshot uses the schema of the first one.
        """
        if self.snapshot is not None:
            return self.snapshot
        millis = self.travel.millis
        if millis is None or snapshot_at(self.store.snapshots, millis) is not None:
            return resolve(self.store, self.travel)
        return self.store.snapshots.find(self.store.snapshots.earliest_id() or 0)

    def _reader(self, schema: TableSchema, *, kinds: bool = False) -> SplitReader:
        show_kinds = kinds or self.between is not None
        layout = Layout.of(replace(schema, options={**schema.options, **self.options}))
        return SplitReader(self.store, layout, self._wanted(schema), self._condition(schema), show_kinds)

    def _condition(self, schema: TableSchema) -> RowFilter | None:
        if self.where is None or isinstance(self.where, RowFilter):
            return self.where
        return RowFilter.of(self.where, arrow_schema(schema.fields), self.store.name)

    def _wanted(self, schema: TableSchema) -> tuple[Field, ...]:
        if self.columns is None:
            return schema.fields
        unknown = [name for name in self.columns if name not in schema.names]
        if unknown:
            raise no_column(unknown, schema.names, self.store.name)
        return schema.select(self.columns)


def _checked_limit(limit: int | None) -> int | None:
    limit = optional_whole_number(limit, "limit")
    if limit is not None and limit < 0:
        raise ConfigError(f"{limit} rows cannot be read", hint="a limit is 0 or more")
    return limit
