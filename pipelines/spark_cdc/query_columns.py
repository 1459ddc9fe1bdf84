"""The columns of a read of one source table: those of the table, its row kinds, and where each row comes from."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructType

from penstock.errors import ConfigError, SchemaConflict, SourceError, did_you_mean
from penstock.formats.change import BadRecord, DecodeOptions, SourceSchema
from penstock.ingest.connector_requests import SourceRequest
from penstock.ingest.database.findings import NothingCaptured
from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.source import Limit, Range
from penstock.pipelines.spark_cdc.read_options import CdcRead
from penstock.pipelines.spark_source.spark_api import arrow_target
from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.schema_evolution.drift import ColumnRules, drift_of
from penstock.schema_evolution.policy import Drift
from penstock.schema_evolution.type_changes import Verdict, change_of
from penstock.storage.state_folder import StateFolder
from penstock.table.schema.members import number_columns
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import from_arrow, to_arrow
from penstock.table.values.types import DataType, Field, type_json, with_nullability

SEQUENCE = pa.struct([("batch", pa.int64()), ("range", pa.int32()), ("position", pa.int64()), ("sub", pa.int32())])
# Behind the prefix of their names, in the order of the columns.
METADATA = {
    "database": pa.string(),
    "table": pa.string(),
    "time": pa.timestamp("ms", "UTC"),
    "place": pa.string(),
    "position": pa.int64(),
    "sequence": SEQUENCE,
}
_AGAIN = (
    "restart the query, which reads the columns of the table again; or set new-columns=ignore to leave new columns out"
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
            Field(-1, one.name, from_arrow(one.type, True))  # noqa: FBT003 -- nullable
            for one in target
            if one.name not in own
        ]
        # Read with the columns, because only the batch of changes has times.
        time = Field(-1, f"{read.prefix}time", from_arrow(METADATA["time"], True))  # noqa: FBT003 -- nullable
        # `declared_schema` has all columns of the read, around those of the source.
        chosen = target.names[:1] != [read.kinds] or target.names[-len(added) :] != added
        return cls(read, _table([*columns, time]), target, chosen)

    @property
    def rules(self) -> ColumnRules:
        return rules_of(self.read)

    def check(self, source: SourceSchema) -> None:
        """Raise SchemaConflict when the source declares what the query's columns cannot hold."""
        _check(source, self.table, self.read, takes_all=not self._leaves_out)

    @property
    def _leaves_out(self) -> bool:
        """Return whether columns of the source that the query does not have are left out."""
        return self.chosen if self.read.ignores_new is None else self.read.ignores_new

    def check_chosen(self) -> None:
        """Raise ConfigError when the user has chosen a column that the source table does not have."""
        if not (self.chosen and self.read.connector.capabilities.describes_tables):
            return
        there = declared_schema(self.read).names
        for name in self.target.names:
            if name not in there:
                hint = did_you_mean(
                    name, there, ".schema(...) chooses some of them, with their names as they are there"
                )
                raise ConfigError(
                    f"the source has no column {name!r}", table=self.read.title, columns=", ".join(there), hint=hint
                )


def rules_of(read: CdcRead) -> ColumnRules:
    return ColumnRules(read.mapping)


def metadata_names(read: CdcRead) -> list[str]:
    return [f"{read.prefix}{name}" for name in METADATA]


# Compared for each chunk, and schemas are frozen, so that they can be keys.
@lru_cache(maxsize=4096)
def _drift(source: SourceSchema, title: str, table: TableSchema, rules: ColumnRules) -> Drift:
    return drift_of(source, title, table, rules)


def _check(source: SourceSchema, table: TableSchema, read: CdcRead, *, takes_all: bool) -> None:
    _check_names(read, source)
    try:
        drift = _drift(source, read.title, table, rules_of(read))
    except SchemaConflict as error:
        # The texts of pipelines name their table and their flags.
        raise _other_kind(source, table, read, str(error.facts["column"])) from error
    if drift.added and takes_all:
        names = ", ".join(f"{one.name} {type_json(one.type)}" for one in drift.added)
        raise _conflict(read, "the source has columns that the query does not have", names)
    widened = [one for one in drift.widened if _in_spark(one.type) != _in_spark(table.field(one.name).type)]
    if widened:
        names = ", ".join(
            f"{one.name} {type_json(one.type)}, in the query {type_json(table.field(one.name).type)}" for one in widened
        )
        raise _conflict(read, "columns of the source have other types than those of the query", names)


def _in_spark(type_: DataType) -> SparkType:
    """Return the type in Spark, which has times of microseconds only and texts of any length only."""
    return spark_schema(pa.schema([("column", to_arrow(type_))])).fields[0].dataType


def _other_kind(source: SourceSchema, table: TableSchema, read: CdcRead, name: str) -> SchemaConflict:
    wanted = next(one for one in rules_of(read).wanted(source) if one.name == name)
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


def _check_names(read: CdcRead, source: SourceSchema) -> None:
    """Raise ConfigError when a column of the source has the name of a column that the read adds."""
    added = {name.lower(): name for name in (read.kinds, *metadata_names(read))}
    for one in source.fields:
        if one.name.lower() in added:
            option = "rowkind-column" if one.name.lower() == read.kinds.lower() else "metadata-prefix"
            raise ConfigError(
                f"the source has a column {one.name!r}, which is also the name of a column of the read",
                table=read.title,
                hint=f'.option("{option}", ...) chooses another name',
            )


def declared_schema(read: CdcRead) -> StructType:
    """Return the columns that the source declares now, with those that the read adds."""
    sources = _captured(read) if read.connector.capabilities.describes_tables else _sampled(read)
    for one in sources:
        _check_names(read, one)
    columns = spark_schema(pa.schema([(name, to_arrow(type_)) for name, type_ in _joined(sources, read).items()]))
    added = spark_schema(pa.schema([(name, METADATA[name.removeprefix(read.prefix)]) for name in metadata_names(read)]))
    return StructType([*spark_schema(pa.schema([(read.kinds, pa.string())])), *columns, *added])


def _captured(read: CdcRead) -> list[SourceSchema]:
    """Return the table as its server describes it; SourceError if it is not there, or cannot be captured."""
    seen = None
    try:
        for one in read.connector.tables(read.config, read.request):
            if (one.database, one.table) == read.table:
                return [one]
    except NothingCaptured as error:
        seen = error.facts.get("seen")
    raise SourceError(
        "the source does not capture this table", table=read.title, tables_that_are_seen=seen, hint=_uncaptured(read)
    )


def _joined(sources: Sequence[SourceSchema], read: CdcRead) -> dict[str, DataType]:
    """Return the columns of all these schemas, each with a type that holds the values of all."""
    types: dict[str, DataType] = {}
    for wanted in (one for source in sources for one in rules_of(read).wanted(source)):
        old = types.get(wanted.name, wanted.type)
        change = change_of(old, wanted.type, read.mapping)
        if change.verdict is Verdict.REFUSE:
            raise SchemaConflict(
                f"column {wanted.name!r} has types without a common one: {type_json(old)} and {type_json(wanted.type)}",
                table=read.title,
                hint="choose one table of the messages by the option table, or set the columns by .schema(...)",
            )
        types[wanted.name] = change.type
    return types


def _uncaptured(read: CdcRead) -> str:
    left_out = read.connector.left_out(read.config, read.request)
    reason = left_out.get(read.table) if read.table else None
    return f"{reason}: set keyless=append" if reason else "check its name, and that the user may read it"


def _sampled(read: CdcRead) -> list[SourceSchema]:
    """Return the schemas that the first messages of the source have."""
    found, bad = dict[SourceSchema, None](), list[BadRecord]()
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        # The source keeps its own files in a temporary folder: what is sampled must not count as read.
        request = replace(read.request, state=StateFolder(folder))
        source = read.connector.open(read.config, request)
        try:
            for range_ in _first_ranges(read, request, source):
                for chunk in source.chunks(range_, DecodeOptions(zone=request.zone)):
                    bad += chunk.decoded.bad
                    found |= dict.fromkeys(batch.schema for batch in chunk.decoded.batches)
        finally:
            source.close()
    sources = [one for one in found if read.table in {None, (one.database, one.table)}]
    if not sources:
        raise _nothing_sampled(read, sorted({f"{one.database}.{one.table}" for one in found}), bad)
    return sources


def _nothing_sampled(read: CdcRead, others: list[str], bad: list[BadRecord]) -> SourceError:
    otherwise = "set the columns by .schema(...), or load again when there are messages"
    return SourceError(
        "no message shows the columns of the table",
        table=read.title,
        tables_of_messages=", ".join(others[:10]) or None,
        bad_records=len(bad) or None,
        first_reason=bad[0].message if bad else None,
        hint=did_you_mean(read.title, others, otherwise),
    )


def _first_ranges(read: CdcRead, request: SourceRequest, source: ChangeSource) -> list[Range]:
    sampler = read.connector.sampler(read.config, request)
    if sampler is not None:
        return sampler.ranges(read.sampled)
    start = source.initial_offsets()
    end = source.latest_offsets(start, Limit(rows=read.sampled))
    return source.plan(start, end, 1) if end != start else []


def _table(columns: Sequence[Field]) -> TableSchema:
    """Return the columns as a table without a key. Not checked as one, because it is never stored."""
    # Nullable, because a delete may have the key alone.
    fields = (replace(one, type=with_nullability(one.type, nullable=True)) for one in columns)
    return TableSchema(0, *number_columns(tuple(fields), -1))
