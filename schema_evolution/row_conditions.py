"""Conditions that users write for single source tables, in the expression language of transforms."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch, SourceSchema
from penstock.formats.demand import ConditionMisfit, Demand
from penstock.schema_evolution.expression_columns import matching_rows
from penstock.schema_evolution.expressions.nodes import Node, columns_of
from penstock.schema_evolution.expressions.parse import parse_expression
from penstock.schema_evolution.source_conditions import SourceConditions
from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.transforms import depends_on_change
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import paimon_type


def parse_condition(text: str) -> Node:
    """Return the tree of a condition. ConfigError names the position of a syntax error."""
    node = parse_expression(text)
    if depends_on_change(node):
        raise ConfigError(
            "the condition depends on the time at which it is evaluated, or on the kind of a change",
            condition=text,
            hint="write the time as a constant, such as  created_at >= '2026-01-31 00:00:00'",
        )
    return node


def condition_part(text: str, schema: SourceSchema, mapping: TypeMapping, zone: str) -> Demand:
    """Return the part of a table that a condition selects. Columns have the types and names of the source table."""
    node, types = _parsed(text, schema, mapping, zone)
    return Demand(frozenset({*columns_of(node), *schema.primary_keys}), types.implied(node))


def rows_meeting(text: str, change: ChangeBatch, mapping: TypeMapping, zone: str) -> tuple[ChangeBatch, int]:
    """Return the rows that meet a condition, and how many have a value that it cannot read."""
    node, _ = _parsed(text, change.schema, mapping, zone)
    misfits = Misfits()
    try:
        flags = matching_rows(change, node, mapping, 0, zone, misfits)
    except ConfigError as error:
        raise _misfit(text, change.schema, error.message) from error
    flags = flags.copy()
    # The result of a condition is unknown for a value that it cannot read.
    flags[list(misfits.reasons)] = False
    return change if flags.all() else change.filter(flags), len(misfits.reasons)


def _parsed(text: str, schema: SourceSchema, mapping: TypeMapping, zone: str) -> tuple[Node, SourceConditions]:
    """Return the tree of a condition, and the columns of the table. It is evaluated once, on no rows."""
    types = {field.name: paimon_type(schema.dialect, field, mapping) for field in schema.fields}
    try:
        node = parse_condition(text)
        unknown = sorted(set(columns_of(node)) - types.keys())
        if unknown:
            columns = ", ".join(types)
            raise _misfit(text, schema, f"{', '.join(unknown)} is not a column of it; its columns are {columns}")
        matching_rows(_no_rows(schema), node, mapping, 0, zone, Misfits())
    except ConditionMisfit:
        raise
    except ConfigError as error:
        raise _misfit(text, schema, error.message) from error
    return node, SourceConditions(types)


def _no_rows(schema: SourceSchema) -> ChangeBatch:
    names = [field.name for field in schema.fields]
    return ChangeBatch.inserts(schema, pa.RecordBatch.from_arrays([pa.nulls(0)] * len(names), names=names))


def _misfit(text: str, schema: SourceSchema, reason: str) -> ConditionMisfit:
    return ConditionMisfit(
        f"the condition does not fit the table: {reason}", table=f"{schema.database}.{schema.table}", condition=text
    )
