"""The prediction which tables and columns a pipeline would create from a source, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import PenstockError
from penstock.formats.change import SourceField, SourceSchema
from penstock.ingest.freshness import NO_FRESHNESS, FreshnessRules, duration
from penstock.pipelines.errors import KeylessTable
from penstock.pipelines.mapping.described_tables import LEFT_OUT_HINT
from penstock.pipelines.mapping.new_tables import text_sequence
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.schema_evolution.drift import drift_of
from penstock.schema_evolution.drift_policy import Drift
from penstock.schema_evolution.row_versions import COLUMNS as VERSION_COLUMNS
from penstock.schema_evolution.soft_deletes import DELETED, DELETED_AT
from penstock.schema_evolution.types.source import TYPED
from penstock.table.meta.store import TableMissing
from penstock.table.option_needs import table_options_without_effect
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import written
from penstock.table.schema.validation import UnusableName
from penstock.table.usable import check_name, check_usable
from penstock.table.values.types import Field


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A column of a planned table.

    `source` is the type declared at its origin; `change` is empty if nothing has to change.
    """

    name: str
    type: str
    source: str
    reason: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A planned table.

    `action` is create, alter, keep, leave out or refuse; for the last two, `problem` gives the reason. `selections`
    describe the parts of source tables that a snapshot selects, if it does not select all.
    """

    table: str
    action: str
    sources: tuple[str, ...]
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    # The options that have no effect in this table, each with a note.
    unused_options: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[PlannedColumn, ...] = ()
    problem: str | None = None
    warnings: tuple[str, ...] = ()
    expectations: tuple[str, ...] = ()
    selections: tuple[str, ...] = ()
    freshness: str | None = None  # how old the table may become, if that is not decided by the trigger

    @property
    def heading(self) -> str:
        return f"cannot create or alter {self.table}" if self.action == "refuse" else f"{self.action} {self.table}"


def planned(
    mapping: PipelineMapping, schemas: Sequence[SourceSchema], *, now: int, rules: FreshnessRules = NO_FRESHNESS
) -> list[PlannedTable]:
    """Return a planned table for each target of the source schemas. Source tables that are left out have no target."""
    by_target: dict[str, list[SourceSchema]] = {}
    for schema in schemas:
        target = mapping.target(schema.database, schema.table)
        if target is not None:
            by_target.setdefault(target, []).append(schema)
    return [
        replace(
            _table(mapping, target, sources, now),
            expectations=_expectations(mapping, sources),
            freshness=_freshness(rules, sources),
        )
        for target, sources in sorted(by_target.items())
    ]


def _freshness(rules: FreshnessRules, sources: Sequence[SourceSchema]) -> str | None:
    interval = max(rules.interval(source.database, source.table) for source in sources)
    return duration(interval) if interval else None


def with_selections(table: PlannedTable, parts: Mapping[str, Sequence[str]]) -> PlannedTable:
    """Return the table with the selections from its sources, by their names."""
    lines = tuple(f"the snapshot of {name} {line}" for name in table.sources for line in parts.get(name, ()))
    return replace(table, selections=lines)


_CONSEQUENCES = {"drop": "drop (a dropped update leaves the row as it was before)"}


def _expectations(mapping: PipelineMapping, sources: Sequence[SourceSchema]) -> tuple[str, ...]:
    found = (
        expectation for source in sources for expectation in mapping.table_rules.expected(source.database, source.table)
    )
    return tuple(
        dict.fromkeys(
            f"{expectation.condition}, or {_CONSEQUENCES.get(expectation.action, expectation.action)}"
            for expectation in found
        )
    )


def _table(mapping: PipelineMapping, target: str, sources: list[SourceSchema], now: int) -> PlannedTable:
    names = tuple(dict.fromkeys(".".join(filter(None, (source.database, source.table))) for source in sources))
    try:
        current = _current(mapping, target)
        if current is None:
            check_name(target.partition(".")[0], "database")
            check_name(target.partition(".")[2], "table", more="; rename a source table with --table-mapping")
            created = mapping.planned(target, sources, now)
            check_usable(created)
            warnings = tuple(filter(None, (mapping.new_tables.unknown_types(sources), text_sequence(created))))
            return replace(_described(mapping, target, "create", names, created, sources, {}), warnings=warnings)
        wanted = dict(mapping.table_rules.new_tables(mapping.new_tables, target, sources).options)
        check_usable(replace(current, options={**wanted, **current.options}), current)
        drifts = [drift_of(source, target, current, mapping.rules) for source in sources]
        changes = _changes([*drifts, mapping.new_tables.missing_after(drifts, target, current)])
        return _described(mapping, target, "alter" if changes else "keep", names, current, sources, changes)
    except (UnusableName, KeylessTable) as error:
        leaves_out = mapping.table is None  # with a single table there would be nothing left
        hint = LEFT_OUT_HINT if leaves_out and isinstance(error, UnusableName) else error.hint
        problem = f"{error.message}; {hint}"
        return PlannedTable(target, "leave out" if leaves_out else "refuse", names, problem=problem)
    except PenstockError as error:
        problem = "; ".join(filter(None, (error.message, error.hint)))
        return PlannedTable(target, "refuse", names, problem=problem)


def _current(mapping: PipelineMapping, target: str) -> TableSchema | None:
    try:
        return mapping.warehouse.store(target).schema()
    except TableMissing:
        return None


def _changes(drifts: Sequence[Drift]) -> dict[str, str]:
    changes: dict[str, str] = {}
    for drift in drifts:
        changes |= {column.name: f"add {column.name} {written(column.type)}" for column in drift.added}
        changes |= {column.name: f"widen {column.name} to {written(column.type)}" for column in drift.widened}
        for comment in drift.comments:
            changes.setdefault(comment.name, f"change the comment of {comment.name}")
    return changes


def _described(
    mapping: PipelineMapping,
    target: str,
    action: str,
    names: tuple[str, ...],
    schema: TableSchema,
    sources: Sequence[SourceSchema],
    changes: Mapping[str, str],
) -> PlannedTable:
    # Reversed, so that the first one is shown if several sources have the column.
    origins = {
        mapping.rules.name(field.name): (source, field) for source in reversed(sources) for field in source.fields
    }
    columns = [_column(mapping, field, origins.get(field.name), schema, changes) for field in schema.fields]
    known = set(schema.names)
    columns += [
        _added(mapping, name, origins.get(name), change) for name, change in changes.items() if name not in known
    ]
    keys, partitions = tuple(schema.primary_keys), tuple(schema.partition_keys)
    options, unused = dict(schema.options), table_options_without_effect(schema)
    return PlannedTable(target, action, names, keys, partitions, options, unused, tuple(columns))


def _added(
    mapping: PipelineMapping, name: str, origin: tuple[SourceSchema, SourceField] | None, change: str
) -> PlannedColumn:
    if origin is None:
        return PlannedColumn(name, "", "", _made_here(mapping, name), change)
    return PlannedColumn(name, "", origin[1].type or "text", "new column of the source", change)


def _column(
    mapping: PipelineMapping,
    column: Field,
    origin: tuple[SourceSchema, SourceField] | None,
    schema: TableSchema,
    changes: Mapping[str, str],
) -> PlannedColumn:
    change = changes.get(column.name, "")
    if origin is None:
        return PlannedColumn(column.name, written(column.type), "", _made_here(mapping, column.name), change)
    source, declared = origin
    reason = _reason(mapping, source, declared)
    if column.name in schema.primary_keys:
        reason += ", part of the key: NOT NULL"
    of_source = "" if declared.type and declared.type.startswith(TYPED) else declared.type or "text"
    return PlannedColumn(column.name, written(column.type), of_source, reason, change)


def _reason(mapping: PipelineMapping, source: SourceSchema, declared: SourceField) -> str:
    rule = mapping.table_rules.transform(source.database, source.table)
    if rule is not None and declared.name in (rule.masks or {}):
        return f"masked by {(rule.masks or {})[declared.name]}"
    if rule is not None and declared.name in rule.clear_uses:
        return f"computed from {', '.join(rule.clear_uses[declared.name])} without the mask"
    if declared.type is None:
        return "the format declares no types: STRING"
    if declared.name in {DELETED, DELETED_AT} and mapping.marks_deletes(source.database, source.table):
        return "marks deleted rows"
    if declared.name in VERSION_COLUMNS and mapping.keeps_versions(source.database, source.table):
        return "describes versions of rows"
    if declared.type.startswith(TYPED):
        return "computed by the projection, or a constant string of the route"
    if mapping.rules.mapping.to_string:
        return "type-mapping to-string"
    return f"{source.dialect} {declared.type}"


def _made_here(mapping: PipelineMapping, name: str) -> str:
    for computed in mapping.new_tables.computed:
        if computed.name == name:
            return f"computed by {computed.function}({', '.join(argument.text for argument in computed.arguments)})"
    for column, kind in mapping.new_tables.metadata:
        if column == name:
            return f"metadata column {kind}"
    return "dropped at the source; the column is kept and null"
