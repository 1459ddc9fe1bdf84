"""The schemas of target tables by a pipeline's rules: of tables to create, and after their sources changed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.errors import ConfigError, SchemaConflict, did_you_mean
from penstock.formats.change import SourceSchema
from penstock.pipelines.mapping.new_tables import OLDER_TABLE, NewTables, text_sequence
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.mapping.table_rules import TableRules
from penstock.pipelines.mapping.target_rows import check_masked_key
from penstock.schema_evolution.drift import ColumnRules, comment_changes, drift_of, fold, nonsense
from penstock.schema_evolution.row_versions import as_history, check_history
from penstock.schema_evolution.soft_deletes import DELETED, check_marks
from penstock.schema_evolution.types.source import is_known
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.schema.changes import apply_changes
from penstock.table.schema.table_schema import TableSchema
from penstock.table.usable import check_usable
from penstock.table.values.types import type_json, with_nullability

log = logging.getLogger(__name__)

_KEYS_PER_SCHEMA = 4096
_APPENDS = (
    "an append table is created: updates add rows and deletes are dropped; --include-keyless leave-out"
    " (no-primary-key: skip) leaves such tables out"
)


@dataclass(frozen=True, slots=True)
class TargetSchemas:
    """The schemas that the tables of a pipeline get when they are created, and when their sources change."""

    warehouse: CatalogSettings
    new_tables: NewTables
    table_rules: TableRules
    is_one_table: bool  # all rows go to one table

    @property
    def rules(self) -> ColumnRules:
        return self.new_tables.rules

    def planned(self, table: str, sources: Sequence[SourceSchema], now: int) -> TableSchema:
        """Return the first schema of a table that does not exist yet."""
        self.rules.policy.check_create(table)
        self._check_masks(table, sources)
        keyed = [source for source in sources if not self.new_tables.leaves_out(source, has_table=False, has_key=False)]
        # Messages before a source table had a key do not decide the key of its target table.
        sources = keyed or sources
        rules = self.table_rules.new_tables(self.new_tables, table, sources)
        made = rules.schema(table, sources, insists=self.is_one_table, now=now)
        for source in sources:
            transform = self.table_rules.transform(source.database, source.table)
            check_masked_key(transform, source, made, self.rules)
        if DELETED in made.names and any(
            self.table_rules.marks_deletes(source.database, source.table) for source in sources
        ):
            check_marks(table, made)
            return _nullable_beside_keys(made)
        if self._keeps_versions(sources):
            return as_history(table, made)
        return made

    def _keeps_versions(self, sources: Sequence[SourceSchema]) -> bool:
        return any(self.table_rules.keeps_versions(source.database, source.table) for source in sources)

    def evolved(self, table: str, current: TableSchema | None, seen: Sequence[SeenSchema]) -> TableSchema:
        """Create the table or evolve its schema for the schemas seen in messages, and return the result."""
        with _naming(table, seen[0] if len({source.schema for source in seen}) == 1 else None):
            return self._evolved(table, current, seen)

    def _evolved(self, table: str, current: TableSchema | None, seen: Sequence[SeenSchema]) -> TableSchema:
        sources = [source.schema for source in seen]
        self._warn_of_unknown_types(table, current.names if current else (), sources)
        # Otherwise one of the two columns would be lost without notice.
        if twice := {name for source in sources for name in self.namesakes(source)}:
            kind = ConfigError if current is None else SchemaConflict
            raise kind(
                "the source has a column with the name of a computed or metadata column",
                columns=", ".join(sorted(twice)),
                hint="rename the computed column; --metadata-column-prefix adds a prefix to metadata columns",
            )
        seen = self._believed(table, current, seen)
        sources = [source.schema for source in seen]
        if current is None:
            planned = self.planned(table, sources, self.warehouse.now_millis())
            self._warn_of_new(planned, table, sources)
            return self.warehouse.created(
                table, replace(planned, comment=planned.comment or sources[0].comment or None)
            )
        if self._keeps_versions(sources):
            check_history(table, current)
        store = self.warehouse.store(table)
        drifts = []
        for source in seen:
            with _naming(table, source):
                if self.lacks_keys(current, source.schema):
                    raise _incompatible(table, current, source.schema)
                drifts.append(drift_of(source.schema, table, current, self.rules))
                drifts[-1].check(self.rules.policy)
        made = self.new_tables.missing_after(drifts, table, current)
        made.check(self.rules.policy)
        if made.added:
            names = ", ".join(column.name for column in made.added)
            log.warning("event=columns_added table=%s columns=%s note=%s", table, names, OLDER_TABLE)
        changes = fold([*drifts, made], current, self.rules.mapping)
        return store.evolve(changes, check_usable)

    def _believed(self, table: str, current: TableSchema | None, seen: Sequence[SeenSchema]) -> Sequence[SeenSchema]:
        """Return the schemas that declare a known type for every column, or one that other messages do not contradict.

        A message that declares an unknown type for a column whose type other messages know is left out. Read again,
        those messages become bad records.
        """
        known = [
            source for source in seen if all(is_known(source.schema.dialect, column) for column in source.schema.fields)
        ]
        if not known or len(known) == len(seen) or not all(source.by_message for source in seen):
            return seen
        schemas = [source.schema for source in known]
        if current is None:
            schema = self.planned(table, schemas, self.warehouse.now_millis())
        else:
            drifts = [drift_of(source, table, current, self.rules) for source in schemas]
            changes = fold(drifts, current, self.rules.mapping)
            # Computed in memory: nothing is committed until all schemas of the batch are folded.
            schema = apply_changes(current, changes, has_snapshots=True, now=current.time_millis)
        return [source for source in seen if source in known or nonsense_of(source.schema, schema, self.rules) is None]

    def commented(self, table: str, seen: Sequence[SeenSchema]) -> TableSchema | None:
        """Follow changed comments of the source, and return the new schema; None if no comment changed."""
        store = self.warehouse.store(table)
        changes = comment_changes([source.schema for source in seen], store.schema(), self.rules)
        if not changes:
            return None
        return store.evolve(changes, check_usable)

    def foreseen(self, table: str, current: TableSchema, source: SourceSchema) -> TableSchema | None:
        """Return the schema that the table will get for this source; None if it cannot follow."""
        try:
            drift = drift_of(source, table, current, self.rules)
            drift.check(self.rules.policy)
            changes = fold([drift, self.new_tables.missing_after([drift], table, current)], current, self.rules.mapping)
            return apply_changes(current, changes, has_snapshots=True, now=current.time_millis)
        except (SchemaConflict, ConfigError):
            return None

    def lacks_keys(self, table: TableSchema, source: SourceSchema) -> bool:
        """Return whether the source declares its columns, and a key column of the table is not among them."""
        if source.dialect == "text" or not table.primary_keys:
            return False
        given = {self.rules.name(field.name) for field in source.fields}
        return not set(table.primary_keys) <= given | self.made

    def leaves_out(self, source: SourceSchema, table: TableSchema | None) -> bool:
        """Return whether rows of this source table are left out because it has no key; `table` is None if missing."""
        # Canal finds the key in the row image: one that lacks the key column is an incomplete image, which is an error.
        if self.is_one_table or (table is not None and self.lacks_keys(table, source)):
            return False
        return self.new_tables.leaves_out(source, table is not None, table is not None and bool(table.primary_keys))

    def namesakes(self, source: SourceSchema) -> set[str]:
        """Return source columns that would be lost because a computed or metadata column has the same name."""
        made = self.made
        return made & {self.rules.name(field.name) for field in source.fields} if made else made

    @property
    def made(self) -> set[str]:
        """The columns that no source has: computed and metadata columns."""
        return {column.name for column in self.new_tables.computed} | {name for name, _ in self.new_tables.metadata}

    def _warn_of_new(self, planned: TableSchema, table: str, sources: Sequence[SourceSchema]) -> None:
        """Log properties of a new table that a user may not expect."""
        notes = {
            "types_not_declared": self.new_tables.unknown_types(sources),
            "sequence_is_text": text_sequence(planned),
        }
        for event, note in notes.items():
            if note is not None:
                log.warning("event=%s table=%s note=%s", event, table, note)
        if not planned.primary_keys and not self.is_one_table:
            source = ".".join(filter(None, (sources[0].database, sources[0].table)))
            log.warning("event=table_without_key table=%s source=%s note=%s", table, source, _APPENDS)

    def _warn_of_unknown_types(self, table: str, held: Collection[str], sources: Sequence[SourceSchema]) -> None:
        if self.rules.mapping.to_string:
            return
        unknown = {
            self.rules.name(field.name): field.type
            for source in sources
            for field in source.fields
            if not is_known(source.dialect, field)
        }
        for column, declared in unknown.items():
            if column not in held:
                log.warning("event=type_unknown table=%s column=%s type=%s taken_as=BYTES", table, column, declared)

    def _check_masks(self, table: str, sources: Sequence[SourceSchema]) -> None:
        """Raise ConfigError when a mask for exactly this table names a column it does not have.

        A misspelt mask would leave the column it should hide in clear text.
        """
        rule = self.table_rules.transform(sources[0].database, sources[0].table)
        if rule is None or not rule.tables.is_one_table or any(source.is_partial for source in sources):
            return
        columns = {field.name for source in sources for field in source.fields}
        for name in (rule.masks or {}).keys() - columns:
            raise ConfigError(
                f"mask on {name!r}, which is not a column of {rule.tables.text}",
                table=table,
                columns=", ".join(sorted(columns)),
                hint=did_you_mean(
                    name, columns, "create the table first if the source adds the column later", cutoff=0.5
                ),
            )


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


def _nullable_beside_keys(schema: TableSchema) -> TableSchema:
    """Return the columns without NOT NULL, except keys: a row that is marked as deleted may have its key alone."""
    keys = {*schema.primary_keys, *schema.partition_keys}
    fields = (
        field if field.name in keys else replace(field, type=with_nullability(field.type, nullable=True))
        for field in schema.fields
    )
    return replace(schema, fields=tuple(fields))


def _incompatible(table: str, schema: TableSchema, source: SourceSchema) -> SchemaConflict:
    ours = ", ".join(f"{field.name} {type_json(field.type)}" for field in schema.fields)
    theirs = ", ".join(f"{field.name} {field.type}" for field in source.fields)
    return SchemaConflict(
        "the table cannot follow the schema of its source table",
        table=table,
        paimon_message=f"Incompatible schema found.\nPaimon table is: {table}, fields are: {ours}.\n"
        f"Source table is: {source.database}.{source.table}, fields are: {theirs}.",
        hint="--ignore-incompatible leaves such tables out. A source table that was created again with another key"
        " needs another target table: name one with --table-mapping, or drop the old one and use --resnapshot. Changes"
        " without their key come from a server whose binlog_row_image is not FULL",
    )


@lru_cache(maxsize=_KEYS_PER_SCHEMA)
def nonsense_of(source: SourceSchema, table: TableSchema | None, rules: ColumnRules) -> str | None:
    """Return `nonsense` of a source schema, cached per pair of schemas."""
    return nonsense(source, table, rules)
