"""Plans, checks and creates the target tables of source tables that a source has described, before the first batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import ConfigError, SchemaConflict
from penstock.formats.change import SourceSchema
from penstock.ingest.connector_requests import TableName
from penstock.pipelines.config.sink import SinkConfig
from penstock.pipelines.errors import not_created
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.pipelines.mapping.table_rules import NO_RULES
from penstock.pipelines.mapping.target_options import options_to_set, set_options
from penstock.schema_evolution.drift import drift_of
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.validation import UnusableName
from penstock.table.usable import check_usable
from penstock.table.values.types import type_json

log = logging.getLogger(__name__)

LEFT_OUT_HINT = (
    "its rows are in no table. Exclude it (--excluding-tables, in a file  selection: {excluding-tables: NAME}), or"
    " name it by --table-mapping and its columns by a projection: MySQL's rows are then copied at the next start"
)
_LEFT_OUT = "event=table_left_out table=%s source=%s reason=%s hint=%s"
# An option that decides how rows of one key are ordered is not changed, although a table could change it.
_KEPT = frozenset({"sequence.field"})


@dataclass(frozen=True, slots=True)
class DescribedTables:
    """The target tables as they will be, the sources to leave out, and why tables cannot be created.

    `before_images` are the sources for which a transform or a target table needs the old rows of updates. `warnings`
    are to be logged by a run.
    """

    tables: list[TableSchema]
    left_out: frozenset[TableName]
    reasons: Mapping[str, str]
    before_images: frozenset[TableName]
    warnings: tuple[tuple[str, ...], ...] = ()
    _plans: Mapping[str, TableSchema] = field(default_factory=dict)

    def create(self, sink: SinkConfig, warehouse: CatalogSettings) -> None:
        """Create missing target tables, and set options of those that exist."""
        for warning in self.warnings:
            log.warning(*warning)
        for target, planned in self._plans.items():
            _make_table(target, planned, sink, warehouse)


def plan_described(
    schemas: Sequence[SourceSchema],
    sink: SinkConfig,
    mapping: PipelineMapping,
    warehouse: CatalogSettings,
    *,
    checks: bool,
    isolate: bool,
) -> DescribedTables:
    """Plan the target tables; with `checks`, compare existing ones with their sources. Nothing is changed.

    All tables that cannot be created are reported at once.
    """
    sources = sources_by_target(schemas, mapping)
    left_out: set[TableName] = set()
    plans: dict[str, TableSchema] = {}
    refused: dict[str, ConfigError] = {}
    warnings: list[tuple[str, ...]] = []
    for target, merged in sources.items():
        names = [name_of(schema) for schema in merged]
        try:
            plans[target] = _planned_table(target, merged, sink, mapping, warehouse, checks=checks)
        except ConfigError as error:
            refused[target] = error
        except SchemaConflict as error:
            if isolate:  # its first batch fails with the same error and parks it
                continue
            if not sink.ignore_incompatible:
                raise
            warnings.append(("event=table_incompatible table=%s reason=%s", target, error.message))
            left_out.update(names)
    _check_refused(refused, leaves_others=sink.table is None and len(refused) < len(sources))
    reasons: dict[str, str] = {}
    for target, reason in refused.items():
        names = [name_of(schema) for schema in sources[target]]
        source_names = ", ".join(map(".".join, names))
        warnings.append((_LEFT_OUT, target, source_names, reason.message, LEFT_OUT_HINT))
        reasons[target] = f"{reason.message} (source {source_names})"
        left_out.update(names)
    tables, unstored = list(plans.values()), frozenset(left_out)
    return DescribedTables(tables, unstored, reasons, _before_images(plans, sources, mapping), tuple(warnings), plans)


def _check_refused(refused: Mapping[str, ConfigError], *, leaves_others: bool) -> None:
    """Raise the errors of tables that cannot be created, unless these can be left out and `leaves_others`.

    An unusable name is the source's and stops only its table. Other errors are in the settings of the pipeline.
    """
    if refused and not (leaves_others and all(isinstance(error, UnusableName) for error in refused.values())):
        raise not_created(refused)


def sources_by_target(schemas: Sequence[SourceSchema], mapping: PipelineMapping) -> dict[str, list[SourceSchema]]:
    """Return the source tables by the table that stores their rows, without those that no table stores."""
    sources: dict[str, list[SourceSchema]] = {}
    for schema in schemas:
        target = mapping.target(schema.database, schema.table)
        if target is not None:
            sources.setdefault(target, []).append(schema)
    return sources


def _before_images(
    plans: Mapping[str, TableSchema], sources: Mapping[str, Sequence[SourceSchema]], mapping: PipelineMapping
) -> frozenset[TableName]:
    return frozenset(
        name_of(source)
        for target, table in plans.items()
        for source in sources[target]
        if mapping.needs_before_images(source, table)
    )


def _planned_table(
    target: str,
    merged: Sequence[SourceSchema],
    sink: SinkConfig,
    mapping: PipelineMapping,
    warehouse: CatalogSettings,
    *,
    checks: bool,
) -> TableSchema:
    schemas = [mapping.shaped(schema) for schema in merged]
    try:
        store = warehouse.store(target)
        current = store.schema()  # a store that this process opened before may be of a table that is dropped by now
    except TableMissing:
        _check_shared_key(target, sink, merged)
        try:
            schema = mapping.planned(target, _with_common_key(schemas), warehouse.now_millis())
            check_usable(schema)
        except ConfigError as error:
            error.facts = {"table": target, "source": ", ".join(_qualified(schema) for schema in merged), **error.facts}
            error.hint = error.hint or _cure(target, schemas, mapping, warehouse)
            raise
        if not schema.primary_keys and not _may_be_keyless(sink, merged):
            raise _no_key(target, merged) from None
        return replace(schema, comment=merged[0].comment)
    for source in schemas if checks else ():
        _check_compatible(target, source, current, mapping)
    for source in merged:
        mapping.check_existing(source, current)
    return options_to_set(store, _wanted(target, sink), kept=_KEPT).after(store)


def _make_table(target: str, planned: TableSchema, sink: SinkConfig, warehouse: CatalogSettings) -> None:
    try:
        warehouse.store(target)
    except TableMissing:
        warehouse.created(target, planned)
    else:
        set_options(warehouse, target, _wanted(target, sink), kept=_KEPT)


def _wanted(target: str, sink: SinkConfig) -> Mapping[str, str]:
    return sink.options | sink.per_table.get(target, {})


def _cure(target: str, schemas: Sequence[SourceSchema], mapping: PipelineMapping, warehouse: CatalogSettings) -> str:
    """Return the hint for a table that cannot be created.

    Creating it without options shows whether they or the table itself are the cause.
    """
    bare = replace(mapping, new_tables=replace(mapping.new_tables, options=()), table_rules=NO_RULES)
    try:
        check_usable(bare.planned(target, _with_common_key(schemas), warehouse.now_millis()))
    except ConfigError:
        return "leave the table out with --excluding-tables, in a file  selection: {excluding-tables: NAME}"
    return "put the table option right: --table-conf, in a file  sink: {table-options: ...}"


def _check_shared_key(target: str, sink: SinkConfig, merged: Sequence[SourceSchema]) -> None:
    """Raise ConfigError when the key should come from source tables that have different keys."""
    differ = len({schema.primary_keys for schema in merged}) > 1
    if differ and not sink.primary_keys and sink.sync_primary_keys_from_source_schema:
        raise _no_key(target, merged)


def _no_key(target: str, merged: Sequence[SourceSchema]) -> ConfigError:
    # The text of Paimon's action, for users who search for it.
    return ConfigError(
        f"Failed to set specified primary keys for sink table {target}. Also, can't infer primary keys from "
        "source table schemas because source tables have no primary keys or have different primary keys.",
        table=target,
        keys="; ".join(f"{_qualified(schema)}: {', '.join(schema.primary_keys) or 'none'}" for schema in merged[:8]),
        hint="name the key with --primary-keys",
    )


def _with_common_key(schemas: Sequence[SourceSchema]) -> list[SourceSchema]:
    """Return the schemas with their common key; shards with different keys have no key."""
    keys = {schema.primary_keys for schema in schemas}
    return list(schemas) if len(keys) == 1 else [replace(schema, primary_keys=()) for schema in schemas]


def _may_be_keyless(sink: SinkConfig, merged: Sequence[SourceSchema]) -> bool:
    return not sink.sync_primary_keys_from_source_schema or not any(schema.primary_keys for schema in merged)


def _check_compatible(target: str, source: SourceSchema, current: TableSchema, mapping: PipelineMapping) -> None:
    try:
        drift_of(source, target, current, mapping.rules)
    except SchemaConflict as error:
        columns = ", ".join(f"{field.name} {field.type}" for field in source.fields)
        raise SchemaConflict(
            "Paimon schema and source table schema are not compatible.",
            table=target,
            source=f"{source.database}.{source.table}",
            reason=error.message,
            paimon_fields=", ".join(f"{field.name} {type_json(field.type)}" for field in current.fields),
            source_table_fields=columns,
            hint=error.hint,
        ) from error


def name_of(schema: SourceSchema) -> TableName:
    """Return the name of a described table, which always has a database and a name."""
    return str(schema.database), str(schema.table)


def _qualified(schema: SourceSchema) -> str:
    return ".".join(name_of(schema))
