"""The columns of a query on one source table, and the check that the rows of the source fit into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructType

from penstock.errors import ConfigError, SchemaConflict, did_you_mean
from penstock.formats.change import SourceSchema
from penstock.pipelines.spark_cdc.declared_columns import (
    METADATA,
    check_names,
    declared_schema,
    metadata_names,
    rules_of,
)
from penstock.pipelines.spark_cdc.read_options import CdcRead
from penstock.pipelines.spark_source.spark_api import arrow_target
from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.schema_evolution.drift import ColumnRules, drift_of
from penstock.schema_evolution.drift_policy import Drift
from penstock.table.schema.members import number_columns
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import from_arrow, to_arrow
from penstock.table.values.types import DataType, Field, type_json, with_nullability

_AGAIN = (
    "restart the query, which reads the columns of the table again; or set new-columns=ignore to leave new columns"
    " out, or list all columns in .schema(...), which a source that declares none may need"
)


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """The columns of one query: `table` has those that are read from the source, `target` all that Spark expects.

    `chosen`: the user has set them by .schema(...), and wants no others.
    """

    read: CdcRead
    table: TableSchema
    target: pa.Schema
    chosen: bool = False

    @classmethod
    def of(cls, read: CdcRead, schema: StructType) -> QueryColumns:
        """Return the columns of a query whose schema Spark has."""
        target = arrow_target(schema)
        added = metadata_names(read)
        own = {read.kinds, *added}
        columns = [
            Field(-1, field.name, from_arrow(field.type, nullable=True)) for field in target if field.name not in own
        ]
        # Read with the columns, because only the batch of changes has times.
        time = Field(-1, f"{read.prefix}time", from_arrow(METADATA["time"], nullable=True))
        # `declared_schema` has all columns of the read, around those of the source.
        chosen = target.names[:1] != [read.kinds] or target.names[-len(added) :] != added
        return cls(read, _table([*columns, time]), target, chosen)

    @property
    def rules(self) -> ColumnRules:
        return rules_of(self.read)

    def check(self, source: SourceSchema) -> None:
        """Raise SchemaConflict if the source declares columns or types that the query does not have."""
        _check(source, self.table, self.read, takes_all=not self._leaves_out)

    @property
    def _leaves_out(self) -> bool:
        """Return whether columns of the source that the query does not have are left out."""
        return self.chosen if self.read.ignores_new is None else self.read.ignores_new

    def check_chosen(self) -> None:
        """Raise ConfigError when the user has chosen a column that the source table does not have."""
        if not (self.chosen and self.read.connector.capabilities.describes_tables):
            return
        declared = declared_schema(self.read).names
        for name in self.target.names:
            if name not in declared:
                hint = did_you_mean(
                    name, declared, ".schema(...) chooses some of them, with their names as they are there"
                )
                raise ConfigError(
                    f"the source has no column {name!r}", table=self.read.title, columns=", ".join(declared), hint=hint
                )


# Compared for each chunk, and schemas are frozen, so that they can be keys.
@lru_cache(maxsize=4096)
def _drift(source: SourceSchema, title: str, table: TableSchema, rules: ColumnRules) -> Drift:
    return drift_of(source, title, table, rules)


def _check(source: SourceSchema, table: TableSchema, read: CdcRead, *, takes_all: bool) -> None:
    check_names(read, source)
    try:
        drift = _drift(source, read.title, table, rules_of(read))
    except SchemaConflict as error:
        # Not the text of pipelines, which names their tables and flags.
        raise _other_kind(source, table, read, str(error.facts["column"])) from error
    if drift.added and takes_all:
        names = ", ".join(f"{column.name} {type_json(column.type)}" for column in drift.added)
        raise _conflict(read, "the source has columns that the query does not have", names)
    widened = [column for column in drift.widened if _in_spark(column.type) != _in_spark(table.field(column.name).type)]
    if widened:
        names = ", ".join(
            f"{column.name} {type_json(column.type)}, in the query {type_json(table.field(column.name).type)}"
            for column in widened
        )
        raise _conflict(read, "columns of the source have other types than those of the query", names)


def _in_spark(type_: DataType) -> SparkType:
    """Return the type in Spark, which has times of microseconds only and texts of any length only."""
    return spark_schema(pa.schema([("column", to_arrow(type_))])).fields[0].dataType


def _other_kind(source: SourceSchema, table: TableSchema, read: CdcRead, name: str) -> SchemaConflict:
    wanted = next(column for column in rules_of(read).wanted(source) if column.name == name)
    return SchemaConflict(
        f"column {name!r} of the query has another kind of type than the source",
        table=read.title,
        in_the_query=type_json(table.field(name).type),
        in_the_source=type_json(wanted.type),
        hint="set a type of the same kind by .schema(...), such as BIGINT for an INT; or "
        "type-mapping=allow-non-string-to-string, allow-lossless  for more conversions",
    )


def _conflict(read: CdcRead, message: str, columns: str) -> SchemaConflict:
    return SchemaConflict(message, table=read.title, columns=columns, hint=_AGAIN)


def _table(columns: Sequence[Field]) -> TableSchema:
    """Return the columns as a table without a key. Not checked as one, because it is never stored."""
    # Nullable, because a delete may have the key alone.
    fields = (replace(column, type=with_nullability(column.type, nullable=True)) for column in columns)
    return TableSchema(0, *number_columns(tuple(fields)))
