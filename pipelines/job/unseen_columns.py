"""Columns that rules name but no row has had yet, in tables whose source does not list its columns.

Such a name is no error, because a later row may have the column. A misspelt name looks the same, so each is reported.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from penstock.errors import did_you_mean
from penstock.formats.change import SourceSchema
from penstock.pipelines.job.unmet_rules import columns_there
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.schema_evolution.expression_columns import ORIGINS
from penstock.schema_evolution.expressions.nodes import columns_of

log = logging.getLogger(__name__)


def unseen_columns(mapping: PipelineMapping, schemas: Sequence[SourceSchema]) -> Iterator[tuple[str, str]]:
    """Yield a message and a hint for each column that a rule names and that no row seen so far has."""
    for schema in schemas:
        if not schema.is_partial or mapping.target(schema.database, schema.table) is None:
            continue
        seen = {field.name for field in schema.fields} | columns_there(mapping, [schema])
        for rule, names in _named(mapping, schema):
            for name in sorted(names - seen - {*ORIGINS}):
                yield (
                    f"{rule} of {schema.database}.{schema.table} uses {name!r}, which no row seen so far has:"
                    " it is null until one has it",
                    did_you_mean(name, seen, f"the columns seen so far are {', '.join(sorted(seen))}", cutoff=0.5),
                )


def warn_of_unseen_columns(mapping: PipelineMapping, schemas: Sequence[SourceSchema]) -> None:
    """Log each column that a rule names and that no row seen so far has."""
    for message, hint in unseen_columns(mapping, schemas):
        log.warning("event=column_not_seen note=%s hint=%s", message, hint)


def _named(mapping: PipelineMapping, schema: SourceSchema) -> Iterator[tuple[str, set[str]]]:
    """Yield rules on a table with the names of the source columns that they use."""
    rules = mapping.table_rules
    transform = rules.transform(schema.database, schema.table)
    computed_names: set[str] = set()
    if transform is not None:
        computed_names = {item.name for item in transform.projection if item.value is not None}
        computed_names |= {name for step in rules.lookups_of(transform) for name, _ in step.columns}
        yield "the transform", {*rules.demand(schema, mapping.rules.mapping).unknown}
        yield "a mask", {*(transform.masks or {})} - computed_names
    route = rules.route(schema.database, schema.table)
    if route is not None:
        computed_names |= {name for name, _ in route.columns}
    for expectation in rules.expected(schema.database, schema.table):
        yield f"the expectation {expectation.name}", {*columns_of(expectation.node)} - computed_names
    computed_names |= mapping.made
    for computed in mapping.new_tables.computed:
        yield f"the computed column {computed.name}", {*computed.references} - computed_names
