"""Options of merge engines that name columns, or that belong to one column."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.errors import ConfigError, did_you_mean
from penstock.table.merge.aggregates.function import Aggregate
from penstock.table.merge.aggregates.registry import aggregate_function
from penstock.table.merge.spec import MergeSpec
from penstock.table.options.merge_engines import (
    FIELD_AGGREGATE_FUNCTION,
    FIELD_COUNT_LIMIT,
    FIELD_DISTINCT,
    FIELD_IGNORE_RETRACT,
    FIELD_LIST_AGG_DELIMITER,
    FIELD_NESTED_KEY,
    FIELDS_DEFAULT_AGGREGATE_FUNCTION,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import ArrayType, Field, RowType


def named_columns(schema: TableSchema, key: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that the option with this key contains; ConfigError if one is not a column."""
    for name in names:
        if name not in schema.names:
            hint = did_you_mean(name, schema.names, _listed(schema.names))
            raise ConfigError(f"{key} names {name!r}, which is not a column", hint=hint)
    return names


def column_aggregates(
    spec: MergeSpec, schema: TableSchema, sequences: Collection[str], fallback: str | None
) -> dict[str, Aggregate]:
    """Return the aggregates of the columns, except keys, sequence fields, and `sequences` (fields of sequence groups).

    `fallback` is the function of columns for which neither they nor the table name one; None: they have no function.
    """
    options = schema.typed
    fallback = options[FIELDS_DEFAULT_AGGREGATE_FUNCTION] or fallback
    plain = {*schema.primary_keys, *spec.sequence_fields, *sequences}
    found = {}
    for column in schema.fields:
        named = options[FIELD_AGGREGATE_FUNCTION.of(column.name)]
        if named is not None and column.name in spec.sequence_fields:
            raise ConfigError(
                "a sequence field cannot have an aggregate function",
                column=column.name,
                function=named,
                hint=f"reset {FIELD_AGGREGATE_FUNCTION.of(column.name).key}",
            )
        name = named or fallback
        if name and column.name not in plain:
            found[column.name] = _aggregate(options, column, name.strip())
    return found


def _aggregate(options: TableOptions, column: Field, name: str) -> Aggregate:
    nested_key = FIELD_NESTED_KEY.of(column.name)
    aggregate = Aggregate(
        function=aggregate_function(name, column.type, column.name),
        ignore_retract=options[FIELD_IGNORE_RETRACT.of(column.name)],
        distinct=options[FIELD_DISTINCT.of(column.name)],
        delimiter=options[FIELD_LIST_AGG_DELIMITER.of(column.name)],
        nested_key=options[nested_key],
        count_limit=options[FIELD_COUNT_LIMIT.of(column.name)],
    )
    if isinstance(column.type, ArrayType) and isinstance(column.type.element, RowType):
        members = [member.name for member in column.type.element.fields]
        for key in aggregate.nested_key:
            if key not in members:
                raise ConfigError(
                    f"{nested_key.key} names {key!r}, which is not a member of the row", hint=_listed(members)
                )
    return aggregate


def _listed(names: Sequence[str]) -> str:
    return f"choices are {', '.join(names)}"
