"""The table mapping by a pipeline's rules: names, keys, types and options of the tables it creates and alters."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError, DecodeError, SchemaConflict, did_you_mean
from penstock.formats.canal.encode import canal_message
from penstock.formats.change import BadRecord, ChangeBatch, DecodeOptions, RowBatch, SourceSchema
from penstock.ingest.fetched_chunk import FetchedMessages
from penstock.pipelines.mapping import partial_images
from penstock.pipelines.mapping.metadata_columns import COLUMNS, Metadata
from penstock.pipelines.mapping.new_tables import NewTables
from penstock.pipelines.mapping.routes import NO_RULES, TableRules
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.mapping.target_images import TargetImages
from penstock.pipelines.mapping.target_tables import set_options
from penstock.row_kinds import INSERT, is_retract
from penstock.schema_evolution.computed_times import wall_clock
from penstock.schema_evolution.drift import ColumnRules, comment_changes, drift_of, fold, nonsense
from penstock.schema_evolution.fit import Fit, FittedRows
from penstock.schema_evolution.target_names import TargetNames
from penstock.schema_evolution.types.source import is_known
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.merge.incoming_kinds import check_retracts, kept_rows, row_kinds
from penstock.table.merge.spec import MergeSpec
from penstock.table.schema.changes import apply_changes
from penstock.table.schema.table_schema import TableSchema
from penstock.table.usable import check_usable
from penstock.table.values.types import type_json

log = logging.getLogger(__name__)

_KEYS_PER_SCHEMA = 4096
_APPENDS = (
    "an append table is created: updates add rows and deletes are dropped; --include-keyless leave-out"
    " (no-primary-key: skip) leaves such tables out"
)


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
            return f"{self.database}.{self.table}" if self.naming.takes(database, table) else None
        if table is None or database is None:
            raise DecodeError(
                "Cannot synchronize record when database name or table name is unknown.",
                database_name=database,
                table_name=table,
                hint="the messages do not tell their source table: kafka-sync-table needs no names",
            )
        if not self.naming.takes(database, table):
            return None
        routed = self.table_rules.target(database, table)
        if routed is not None:
            return routed if self.naming.case_sensitive else routed.lower()
        return f"{self.database or database}.{self.naming.target(database, table)}"

    def transformed(
        self, change: ChangeBatch, fetched: FetchedMessages | None, now_millis: int
    ) -> tuple[ChangeBatch, tuple[BadRecord, ...]]:
        if not self.table_rules:
            return change, ()
        taken, bad = self.table_rules.applied(change, self.rules.mapping, now_millis, self.zone)
        return taken, tuple(_with_message(record, change, fetched) for record in bad)

    def column(self, source: str) -> str:
        return self.rules.name(source)

    def fit(
        self, change: ChangeBatch, table: TableSchema, fetched: FetchedMessages | None, now_millis: int
    ) -> FittedRows | None:
        source = change.schema
        if not _holds(source, table, self.rules) or self._lacking_keys(table, source) or self._namesakes(source):
            return None
        fitted = self._fit(table, fetched, now_millis).rows(change)
        batch = _as_upsert(fitted.batch, table) if table.primary_keys else _as_append(fitted.batch)
        dropped = 0 if table.primary_keys else len(fitted.batch) - len(batch)
        bad = tuple(_with_message(record, change, fetched) for record in fitted.bad)
        return replace(fitted, batch=batch, bad=bad, dropped=dropped)

    def left_out(self, change: ChangeBatch, table: TableSchema, fetched: FetchedMessages | None) -> tuple[str, ...]:
        return partial_images.left_out(change, fetched, table, self.rules, frozenset(self.made))

    def evolved(self, table: str, current: TableSchema | None, seen: Sequence[SeenSchema]) -> TableSchema:
        with _naming(table, seen[0] if len({one.schema for one in seen}) == 1 else None):
            return self._evolved(table, current, seen)

    def _evolved(self, table: str, current: TableSchema | None, seen: Sequence[SeenSchema]) -> TableSchema:
        sources = [one.schema for one in seen]
        self._tell_unknown_types(table, current.names if current else (), sources)
        if twice := {name for source in sources for name in self._namesakes(source)}:
            kind = ConfigError if current is None else SchemaConflict
            raise kind(
                "the source has a column with the name of a computed or metadata column",
                columns=", ".join(sorted(twice)),
                hint="name the computed one otherwise;  --metadata-column-prefix  stands before names of metadata",
            )
        seen = self._believed(table, current, seen)
        sources = [one.schema for one in seen]
        if current is None:
            planned = self.planned(table, sources, self.warehouse.now_millis())
            self._tell_new(planned, table, sources)
            return self.warehouse.created(
                table, replace(planned, comment=planned.comment or sources[0].comment or None)
            )
        store = self.warehouse.store(table)
        drifts = []
        for one in seen:
            with _naming(table, one):
                if self._lacking_keys(current, one.schema):
                    raise _incompatible(table, current, one.schema)
                drifts.append(drift_of(one.schema, table, current, self.rules))
                drifts[-1].check(self.rules.policy)
        changes = fold(drifts, current, self.rules.mapping)
        return store.evolve(changes, check_usable)

    def commented(self, table: str, seen: Sequence[SeenSchema]) -> TableSchema | None:
        store = self.warehouse.store(table)
        changes = comment_changes([one.schema for one in seen], store.schema(), self.rules)
        if not changes:
            return None
        return store.evolve(changes, check_usable)

    def _believed(self, table: str, current: TableSchema | None, seen: Sequence[SeenSchema]) -> Sequence[SeenSchema]:
        """Return the schemas that declare a known type for every column, or one that other messages do not contradict.

        A message that declares an unknown type for a column whose type other messages know is left out. Read again,
        those messages become bad records.
        """
        known = [one for one in seen if all(is_known(one.schema.dialect, column) for column in one.schema.fields)]
        if not known or len(known) == len(seen) or not all(one.by_message for one in seen):
            return seen
        schemas = [one.schema for one in known]
        if current is None:
            schema = self.planned(table, schemas, self.warehouse.now_millis())
        else:
            drifts = [drift_of(source, table, current, self.rules) for source in schemas]
            changes = fold(drifts, current, self.rules.mapping)
            schema = apply_changes(current, changes, has_snapshots=True, now=current.time_millis)
        return [one for one in seen if one in known or self.nonsense(one.schema, schema) is None]

    def shaped(self, source: SourceSchema) -> SourceSchema:
        """Return the schema of such rows after transforms and routes."""
        nothing = pa.RecordBatch.from_arrays(
            [pa.nulls(0, pa.string()) for _ in source.fields], names=[one.name for one in source.fields]
        )
        return self.transformed(ChangeBatch.inserts(source, nothing), None, 0)[0].schema

    def _tell_new(self, planned: TableSchema, table: str, sources: Sequence[SourceSchema]) -> None:
        """Log what a user may not expect of a new table."""
        if (warning := self.new_tables.unknown_types(sources)) is not None:
            log.warning("event=types_not_declared table=%s note=%s", table, warning)
        if not planned.primary_keys and self.table is None:
            source = ".".join(filter(None, (sources[0].database, sources[0].table)))
            log.warning("event=table_without_key table=%s source=%s note=%s", table, source, _APPENDS)

    def _tell_unknown_types(self, table: str, held: Collection[str], sources: Sequence[SourceSchema]) -> None:
        if self.rules.mapping.to_string:
            return
        unknown = {
            self.rules.name(one.name): one.type
            for source in sources
            for one in source.fields
            if not is_known(source.dialect, one)
        }
        for column, declared in unknown.items():
            if column not in held:
                log.warning("event=type_unknown table=%s column=%s type=%s taken_as=BYTES", table, column, declared)

    def adopt(self, known: Collection[str]) -> None:
        """If all rows go to one table and it exists, check its keys and set the options it lacks."""
        name = f"{self.database}.{self.table}"
        if self.table is None or name not in known:
            return
        schema = self.warehouse.store(name).schema()
        keys = self.new_tables.keys
        _check_keys("primary", keys.primary, schema.primary_keys)
        _check_keys("partition", keys.partition, schema.partition_keys)
        set_options(self.warehouse, name, dict(self.new_tables.options))

    def _lacking_keys(self, table: TableSchema, source: SourceSchema) -> bool:
        """Return whether the source declares its columns, and a key column of the table is not among them."""
        if source.dialect == "text" or not table.primary_keys:
            return False
        given = {self.rules.name(one.name) for one in source.fields}
        return not set(table.primary_keys) <= given | self.made

    def _namesakes(self, source: SourceSchema) -> set[str]:
        """Return source columns that would be lost because a computed or metadata column has the same name."""
        made = self.made
        return made & {self.rules.name(one.name) for one in source.fields} if made else made

    @property
    def made(self) -> set[str]:
        """The columns that no source has: computed and metadata columns."""
        return {one.name for one in self.new_tables.computed} | {name for name, _ in self.new_tables.metadata}

    def nonsense(self, source: SourceSchema, table: TableSchema | None) -> str | None:
        return _nonsense(source, table, self.rules)

    def foreseen(self, table: str, current: TableSchema, source: SourceSchema) -> TableSchema | None:
        try:
            drift = drift_of(source, table, current, self.rules)
            drift.check(self.rules.policy)
            changes = fold([drift], current, self.rules.mapping)
            return apply_changes(current, changes, has_snapshots=True, now=current.time_millis)
        except (SchemaConflict, ConfigError):
            return None

    def planned(self, table: str, sources: Sequence[SourceSchema], now: int) -> TableSchema:
        """Return the first schema of a table that does not exist yet."""
        self.rules.policy.check_create(table)
        self._check_masks(table, sources)
        rules = self.table_rules.new_tables(self.new_tables, table, sources)
        return rules.schema(table, sources, insists=bool(self.table), now=now)

    def _check_masks(self, table: str, sources: Sequence[SourceSchema]) -> None:
        """Raise ConfigError when a mask for exactly this table names a column it does not have.

        A misspelt mask would leave the column it should hide in clear text.
        """
        rule = self.table_rules.transform(sources[0].database, sources[0].table)
        if rule is None or not rule.tables.is_one_table:
            return
        columns = {field.name for source in sources for field in source.fields}
        for name in (rule.masks or {}).keys() - columns:
            raise ConfigError(
                f"mask on {name!r}, which is no column of {rule.tables.text}",
                table=table,
                columns=", ".join(sorted(columns)),
                hint=did_you_mean(name, columns, "make the table first where the column comes later", cutoff=0.5),
            )

    def _fit(self, table: TableSchema, fetched: FetchedMessages | None, now_millis: int) -> Fit:
        extras = {
            column: partial(_metadata_values, COLUMNS[name], fetched)
            for column, name in self.new_tables.metadata
            if column in table.names
        }
        clock, longest = wall_clock(now_millis, self.zone), self.warehouse.backend.longest_name
        return Fit(table, self.rules, extras, self.new_tables.computed, clock, longest, self.zone)


@contextmanager
def _naming(table: str, seen: SeenSchema | None) -> Iterator[None]:
    """Add the table, and the place of the record that was read, to errors about columns and options."""
    try:
        yield
    except (ConfigError, SchemaConflict) as error:
        error.facts.setdefault("table", table)
        if seen is not None and seen.place is not None and "place" not in error.facts:
            error.facts |= {"place": seen.place, "offset": seen.first[1]}
        raise


def _check_keys(kind: str, given: Sequence[str], own: Sequence[str]) -> None:
    if given and set(given) != set(own):
        raise ConfigError(
            f"Specified {kind} keys [{', '.join(given)}] are not equal to the existed table {kind} keys"
            f" [{', '.join(own)}]. You should remove the --{kind}-keys argument or re-create the table if the {kind}"
            " keys are wrong."
        )


def _incompatible(table: str, schema: TableSchema, source: SourceSchema) -> SchemaConflict:
    ours = ", ".join(f"{one.name} {type_json(one.type)}" for one in schema.fields)
    theirs = ", ".join(f"{one.name} {one.type}" for one in source.fields)
    return SchemaConflict(
        f"Incompatible schema found.\nPaimon table is: {table}, fields are: {ours}.\n"
        f"Source table is: {source.database}.{source.table}, fields are: {theirs}.\n"
        "If you want to ignore the incompatible tables, please specify --ignore-incompatible to true.",
        table=table,
        hint="a source table that was made anew with another key needs a table of its own: --table-mapping names one,"
        " or drop the old one, and --resnapshot; changes that come without their key are of a server whose"
        " binlog_row_image is not FULL",
    )


def _metadata_values(metadata: Metadata, fetched: FetchedMessages | None, change: ChangeBatch) -> pa.Array:
    return metadata.values(change, fetched)


def _as_append(batch: RowBatch) -> RowBatch:
    """Return the rows for a table without keys: only new rows. Deletes and the old images of updates are dropped."""
    retracts = is_retract(batch.kinds)
    kept = batch.filter(~retracts) if retracts.any() else batch
    return replace(kept, kinds=np.full(len(kept), INSERT, np.int8))


def _as_upsert(batch: RowBatch, table: TableSchema) -> RowBatch:
    """Return the rows for a table with keys, with the kinds that its options ask for."""
    merge = _merge(table)
    batch = replace(batch, kinds=row_kinds(merge, pa.Table.from_batches([batch.rows]), batch.kinds))
    kept = kept_rows(merge, batch.kinds)
    if kept is not None:
        batch = batch.filter(kept)
    check_retracts(merge, batch.kinds)
    return batch


def _with_message(record: BadRecord, change: ChangeBatch, fetched: FetchedMessages | None) -> BadRecord:
    """Return the bad record with its fetched message.

    A source without messages has rows only: use the last row at this position.
    """
    if fetched is not None:
        place = int(np.searchsorted(fetched.messages.offsets, record.pos))
        return replace(record, raw=fetched.messages.values[place] or b"")
    rows = np.flatnonzero(change.positions == record.pos)
    return replace(record, raw=canal_message(change, int(rows[-1])) if len(rows) else b"")


@lru_cache(maxsize=_KEYS_PER_SCHEMA)
def _holds(source: SourceSchema, table: TableSchema, rules: ColumnRules) -> bool:
    """Return whether the table can store all that the source declares. Cached per pair of schemas."""
    try:
        return drift_of(source, "", table, rules).is_none
    except SchemaConflict:  # the driver reports the conflict, or leaves the table out
        return False


@lru_cache(maxsize=_KEYS_PER_SCHEMA)
def _nonsense(source: SourceSchema, table: TableSchema | None, rules: ColumnRules) -> str | None:
    return nonsense(source, table, rules)


@lru_cache(maxsize=_KEYS_PER_SCHEMA)
def _merge(table: TableSchema) -> MergeSpec:
    return merge_spec(table)
