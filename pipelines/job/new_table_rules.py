"""The rules for new target tables, from the description of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.formats import format_named
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job.source_request import connector
from penstock.pipelines.mapping.metadata_columns import check_names
from penstock.pipelines.mapping.new_tables import KeyRules, NewTables
from penstock.schema_evolution.computed_columns import ComputedColumn, in_order
from penstock.schema_evolution.drift import ColumnRules
from penstock.schema_evolution.drift_policy import SchemaPolicy
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.options.changelogs import CHANGELOG_PRODUCER_COMPACTION_INTERVAL, FULL_COMPACTION_DELTA_COMMITS
from penstock.table.options.table_options import TableOptions


def new_tables_of(spec: PipelineSpec) -> NewTables:
    sink = spec.sink
    policy = SchemaPolicy(
        spec.pipeline.schema_change_behavior, sink.include_schema_changes, sink.exclude_schema_changes
    )
    sensitive, capabilities = sink.catalog.case_sensitive, connector(spec).capabilities
    database = connector(spec).database_of_schemas(spec.source)
    check_names(tuple(sink.metadata_columns), numbered=capabilities.numbers_messages, has_schemas=database is not None)
    names = [f"{sink.metadata_column_prefix}{name}" for name in sink.metadata_columns.values()]
    computed = tuple(in_order([ComputedColumn.of(text, sensitive) for text in sink.computed_columns]))
    metadata = tuple(zip(names if sensitive else map(str.lower, names), sink.metadata_columns, strict=True))
    made = frozenset({*(column.name for column in computed), *(name for name, _ in metadata)})
    return NewTables(
        rules=ColumnRules(TypeMapping.of(sink.type_mapping), sensitive, policy, made),
        keys=KeyRules(
            sink.primary_keys,
            sink.partition_keys,
            sink.multiple_table_partition_keys,
            sink.sync_primary_keys_from_source_schema,
        ),
        computed=computed,
        metadata=metadata,
        options=tuple(_with_delta_commits(sink.options, spec.pipeline.trigger).items()),
        # A source that describes its tables leaves out such tables itself, before reading a row.
        keyless="append" if capabilities.describes_tables else spec.keyless,
        names_rows=capabilities.names_rows,
        database=database,
        typing_hint=format_named(connector(spec).message_format(spec.source)).typing_hint,
    )


def _with_delta_commits(options: Mapping[str, str], trigger_seconds: float) -> Mapping[str, str]:
    """Convert a time between full compactions into a number of batches, as Flink counts it in checkpoints."""
    interval = TableOptions(options).given(CHANGELOG_PRODUCER_COMPACTION_INTERVAL)
    if interval is None or not trigger_seconds or FULL_COMPACTION_DELTA_COMMITS.key in options:
        return options
    return {
        **options,
        FULL_COMPACTION_DELTA_COMMITS.key: str(max(1, interval // max(1, round(trigger_seconds * 1000)))),
    }
