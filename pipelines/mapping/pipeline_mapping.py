"""The table mapping by a pipeline's rules: the target of each source table, and the rows that fit it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from penstock.errors import DecodeError
from penstock.formats.change import BadRecord, Bools, ChangeBatch, DecodeOptions, RowBatch, SourceSchema
from penstock.ingest.fetched_messages import FetchedMessages
from penstock.pipelines.mapping import target_images
from penstock.pipelines.mapping.lookup_run import LookupRun
from penstock.pipelines.mapping.metadata_columns import Values, values_of
from penstock.pipelines.mapping.new_tables import NewTables
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.mapping.table_rules import NO_RULES, TableRules
from penstock.pipelines.mapping.target_images import TargetImages
from penstock.pipelines.mapping.target_options import check_keys, options_to_set, set_options
from penstock.pipelines.mapping.target_rows import (
    as_append,
    as_upsert,
    can_store,
    check_history_of,
    check_marks_of,
    check_masked_key,
    check_retracts_by_clock,
    check_retracts_of_dropped,
    check_retracts_with_lookups,
)
from penstock.pipelines.mapping.target_schemas import TargetSchemas, nonsense_of
from penstock.schema_evolution.computed_times import wall_clock
from penstock.schema_evolution.drift import ColumnRules
from penstock.schema_evolution.expectations import CheckedRows, checked
from penstock.schema_evolution.fit import Fit, FittedRows
from penstock.schema_evolution.row_versions import source_keys
from penstock.schema_evolution.target_names import TargetNames
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class PipelineMapping:
    """An implementation of `TableMapping`.

    With `table`, all rows go to that one table; otherwise each source table has its own.
    """

    warehouse: CatalogSettings
    database: str | None
    table: str | None
    naming: TargetNames
    new_tables: NewTables
    zone: str = "UTC"
    table_rules: TableRules = NO_RULES

    @property
    def rules(self) -> ColumnRules:
        return self.new_tables.rules

    def decode_options(self, known: Mapping[str, TableSchema]) -> DecodeOptions:
        images = TargetImages(self.target, self.table is None, self.table_rules, self.new_tables, known)
        return DecodeOptions(zone=self.zone, images=images)

    def target(self, database: str | None, table: str | None) -> str | None:
        if self.table is not None:
            return f"{self.database}.{self.table}" if self.naming.includes(database, table) else None
        if table is None or database is None:
            raise DecodeError(
                "the record does not name its source database and table",
                database_name=database,
                table_name=table,
                paimon_message="Cannot synchronize record when database name or table name is unknown.",
                hint="use kafka-sync-table, which writes all records of its topics to one table",
            )
        if not self.naming.includes(database, table):
            return None
        routed = self.table_rules.target(database, table)
        if routed is not None:
            return routed if self.naming.case_sensitive else routed.lower()
        return f"{self.database or database}.{self.naming.target(database, table)}"

    @property
    def dimensions(self) -> frozenset[str]:
        return self.table_rules.dimensions

    @property
    def reads_places(self) -> bool:
        return bool(self.new_tables.metadata) or self.table_rules.keep_versions

    def transformed(
        self,
        change: ChangeBatch,
        fetched: FetchedMessages | None,
        now_millis: int,
        lookups: LookupRun | None = None,
        stream: str = "",
    ) -> tuple[ChangeBatch, tuple[BadRecord, ...]]:
        if not self.table_rules:
            return change, ()
        taken, bad = self.table_rules.applied(change, self.rules.mapping, now_millis, self.zone, lookups, stream)
        return taken, tuple(bad)

    def checked(self, change: ChangeBatch, fetched: FetchedMessages | None, now_millis: int) -> CheckedRows:
        expected = self.table_rules.expected(change.schema.database, change.schema.table)
        if not expected:
            return CheckedRows(change)
        transform = self.table_rules.transform(change.schema.database, change.schema.table)
        own = () if transform is None else transform.primary_keys
        keys = own or self.new_tables.keys.primary or change.schema.primary_keys
        return checked(change, expected, self.rules.mapping, now_millis, self.zone, keys)

    def column(self, source: str) -> str:
        return self.rules.name(source)

    def marks_deletes(self, database: str | None, table: str | None) -> bool:
        return self.table_rules.marks_deletes(database, table)

    def keeps_versions(self, database: str | None, table: str | None) -> bool:
        return self.table_rules.keeps_versions(database, table)

    def needs_before_images(self, source: SourceSchema, table: TableSchema) -> bool:
        """Return whether updates of a source table are applied correctly only with their old rows.

        An old row says which aggregate to undo, at which key and partition a row was, and whether it passed a filter.
        """
        transform = self.table_rules.transform(source.database, source.table)
        filters = transform is not None and transform.filters
        places = {*source_keys(table), *table.partition_keys} if table.primary_keys else set[str]()
        places = self.new_tables.sources_of(places)
        keys = {self.column(name) for name in source.primary_keys}
        return filters or not places <= keys or target_images.needs_before(table)

    def fit(
        self, change: ChangeBatch, table: TableSchema, fetched: FetchedMessages | None, now_millis: int
    ) -> FittedRows | None:
        source = change.schema
        if (
            not can_store(source, table, self.rules)
            # A row without a key column cannot be stored, although the table has all columns of the source.
            or self._schemas.lacks_keys(table, source)
            or self._schemas.namesakes(source)
            or self.new_tables.missing(table)
        ):
            return None
        name = f"{source.database}.{source.table}"
        marks = self.marks_deletes(source.database, source.table)
        if marks:
            check_marks_of(name, table)
        self.check_existing(source, table)
        transform = self.table_rules.transform(source.database, source.table)
        if transform is not None and transform.looks_up:
            check_retracts_with_lookups(change, table, transform, self.new_tables.sources_of(table.primary_keys))
        if transform is not None and transform.filters_by_clock:
            check_retracts_by_clock(change, table)
        # Fitted before rows are dropped: a value that does not fit is reported in a delete as well.
        fitted = self._fit(table, fetched, now_millis).rows(change)
        rows = fitted.batch
        batch = as_upsert(rows, table, marks=marks) if table.primary_keys else as_append(rows)
        check_retracts_of_dropped(batch, table, name, self.table_rules.expected(source.database, source.table))
        dropped = 0 if table.primary_keys else len(rows) - len(batch)
        return replace(fitted, batch=batch, dropped=dropped)

    def check_existing(self, source: SourceSchema, table: TableSchema) -> None:
        """Raise ConfigError if a table can never store the rows of this source as they have to be."""
        check_masked_key(self.table_rules.transform(source.database, source.table), source, table, self.rules)
        if self.keeps_versions(source.database, source.table):
            check_history_of(f"{source.database}.{source.table}", table)

    def left_out(self, change: ChangeBatch, table: TableSchema, fetched: FetchedMessages | None) -> tuple[str, ...]:
        return target_images.left_out(change, fetched, table, self.rules, frozenset(self.made))

    def unordered_deletes(self, rows: RowBatch, source: SourceSchema, table: TableSchema) -> Bools:
        return target_images.unordered_deletes(rows, source, table, self.rules, frozenset(self.made))

    def leaves_out(self, source: SourceSchema, table: TableSchema | None) -> bool:
        return self._schemas.leaves_out(source, table)

    def shaped(self, source: SourceSchema) -> SourceSchema:
        """Return the schema of such rows after transforms and routes."""
        return self._nothing(source).schema

    def compared(self, change: ChangeBatch) -> ChangeBatch:
        """Return rows of a source table as their transform leaves them, to compare them with a target table."""
        transform = self.table_rules.transform(change.schema.database, change.schema.table)
        if transform is None or transform.looks_up:
            return change
        return transform.applied(change, self.rules.mapping, 0, self.zone)[0]

    def compared_columns(self, source: SourceSchema) -> set[str]:
        """Return the columns of `compared` rows that are the same whenever a row is read."""
        transform = self.table_rules.transform(source.database, source.table)
        moving = frozenset() if transform is None else transform.moving_columns
        names = {field.name for field in self.compared(_no_rows(source)).schema.fields}
        return {self.column(name) for name in names - moving}

    def examined(self, source: SourceSchema) -> None:
        """Raise ConfigError for a quality rule that the columns of this table do not allow."""
        rows = self._nothing(source)
        for expectation in self.table_rules.expected(source.database, source.table):
            expectation.check_columns(rows.schema)
        self.checked(rows, None, 0)

    def _nothing(self, source: SourceSchema) -> ChangeBatch:
        """Return a transformed batch without rows.

        It passes the same code as rows do, so that its schema cannot differ from theirs.
        """
        self.table_rules.check_columns(source, self.rules.mapping)
        return self.transformed(_no_rows(source), None, 0)[0]

    @property
    def _schemas(self) -> TargetSchemas:
        return TargetSchemas(self.warehouse, self.new_tables, self.table_rules, is_one_table=self.table is not None)

    @property
    def made(self) -> set[str]:
        """The columns that no source has: computed and metadata columns."""
        return self._schemas.made

    def planned(self, table: str, sources: Sequence[SourceSchema], now: int) -> TableSchema:
        """Return the first schema of a table that does not exist yet."""
        return self._schemas.planned(table, sources, now)

    def evolved(self, table: str, current: TableSchema | None, seen: Sequence[SeenSchema]) -> TableSchema:
        return self._schemas.evolved(table, current, seen)

    def commented(self, table: str, seen: Sequence[SeenSchema]) -> TableSchema | None:
        return self._schemas.commented(table, seen)

    def foreseen(self, table: str, current: TableSchema, source: SourceSchema) -> TableSchema | None:
        return self._schemas.foreseen(table, current, source)

    def adopt(self, known: Collection[str]) -> None:
        """If all rows go to one table and it exists, check its keys and set the options it lacks."""
        self.check_adoption(known)
        name = f"{self.database}.{self.table}"
        if self.table is not None and name in known:
            set_options(self.warehouse, name, dict(self.new_tables.options))

    def check_adoption(self, known: Collection[str]) -> None:
        name = f"{self.database}.{self.table}"
        if self.table is None or name not in known:
            return
        store = self.warehouse.store(name)
        schema, keys = store.schema(), self.new_tables.keys
        check_keys("primary", [self.column(name) for name in keys.primary], source_keys(schema))
        check_keys("partition", [self.column(name) for name in keys.partition], schema.partition_keys)
        options_to_set(store, dict(self.new_tables.options)).after(store)

    def nonsense(self, source: SourceSchema, table: TableSchema | None) -> str | None:
        return nonsense_of(source, table, self.rules)

    def _fit(self, table: TableSchema, fetched: FetchedMessages | None, now_millis: int) -> Fit:
        extras = {
            column: partial(_metadata_values, values_of(name, self.new_tables.database), fetched)
            for column, name in self.new_tables.metadata
            # A pipeline that adds no columns (schema.change.behavior) leaves it out of older tables.
            if column in table.names
        }
        clock, longest = wall_clock(now_millis, self.zone), self.warehouse.backend.longest_name
        return Fit(table, self.rules, extras, self.new_tables.computed, clock, longest, self.zone)


def _no_rows(source: SourceSchema) -> ChangeBatch:
    names = [field.name for field in source.fields]
    nothing = pa.RecordBatch.from_arrays([pa.nulls(0, pa.string()) for _ in names], names=names)
    return ChangeBatch.inserts(source, nothing)


def _metadata_values(values: Values, fetched: FetchedMessages | None, change: ChangeBatch) -> pa.Array:
    return values(change, fetched)
