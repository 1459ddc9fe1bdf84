"""Rules that fail on a table which the pipeline has read before, for example because a column was dropped.

If tables that fail are parked, such a rule does not prevent a start: the next row of its table parks that table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.errors import ConfigError
from penstock.formats.change import SourceSchema
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.ledger.filled_tables import SourceName
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping


def failing_rules(
    spec: PipelineSpec, mapping: PipelineMapping, schemas: Sequence[SourceSchema], before: Collection[SourceName]
) -> dict[SourceName, ConfigError]:
    """Return the tables of the past that rules fail on, with the errors, if these tables may be parked."""
    if not spec.errors.isolate or spec.sink.table is not None:
        return {}
    found: dict[SourceName, ConfigError] = {}
    for schema in schemas:
        name = str(schema.database), str(schema.table)
        if name in before and mapping.target(*name) is not None:
            try:
                mapping.shaped(schema)
                mapping.examined(schema)
            except ConfigError as error:
                found[name] = error
    return found


def without_failing(schemas: Sequence[SourceSchema], failing: Mapping[SourceName, ConfigError]) -> list[SourceSchema]:
    """Return the schemas of the other tables."""
    return [schema for schema in schemas if (schema.database, schema.table) not in failing]


def shaped_unless_failing(
    mapping: PipelineMapping, schema: SourceSchema, failing: Collection[SourceName]
) -> SourceSchema:
    """Return the schema after its rules; the given one if they fail on it."""
    return schema if (schema.database, schema.table) in failing else mapping.shaped(schema)


def failure_text(name: SourceName, error: ConfigError) -> str:
    return f"a rule fails on {'.'.join(name)}, which its next row parks: {error.message}"


def failure_hint(error: ConfigError) -> str:
    cure = f"{error.hint}; " if error.hint else ""
    return f"{cure}change the rule, then  penstock run FILE --retry"
