"""The columns that a source declares for a read, by describing its table or by its first messages, and metadata."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.errors import ConfigError, SchemaConflict, SourceError, did_you_mean
from penstock.formats.change import BadRecord, DecodeOptions, SourceSchema
from penstock.ingest.connector_requests import SourceRequest
from penstock.ingest.database.findings import NothingCaptured
from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.source import Limit, Range
from penstock.pipelines.spark_cdc.read_options import CdcRead
from penstock.pipelines.spark_source.table_read import spark_schema
from penstock.schema_evolution.drift import ColumnRules
from penstock.schema_evolution.type_verdicts import Verdict, change_of
from penstock.storage.state_folder import StateFolder
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import DataType, type_json

SEQUENCE = pa.struct([("batch", pa.int64()), ("range", pa.int32()), ("position", pa.int64()), ("sub", pa.int32())])
# The metadata columns by name, without its prefix, in their order.
METADATA = {
    "database": pa.string(),
    "table": pa.string(),
    "time": pa.timestamp("ms", "UTC"),
    "place": pa.string(),
    "position": pa.int64(),
    "sequence": SEQUENCE,
}


def rules_of(read: CdcRead) -> ColumnRules:
    return ColumnRules(read.mapping)


def metadata_names(read: CdcRead) -> list[str]:
    return [f"{read.prefix}{name}" for name in METADATA]


def check_names(read: CdcRead, source: SourceSchema) -> None:
    """Raise ConfigError when a column of the source has the name of a column that the read adds."""
    added = {name.lower(): name for name in (read.kinds, *metadata_names(read))}
    for field in source.fields:
        if field.name.lower() in added:
            option = "rowkind-column" if field.name.lower() == read.kinds.lower() else "metadata-prefix"
            raise ConfigError(
                f"the source has a column {field.name!r}, which is also the name of a column of the read",
                table=read.title,
                hint=f'.option("{option}", ...) chooses another name',
            )


def declared_schema(read: CdcRead) -> StructType:
    """Return the columns that the source declares now, with those that the read adds."""
    sources = _captured(read) if read.connector.capabilities.describes_tables else _sampled(read)
    for source in sources:
        check_names(read, source)
    columns = spark_schema(pa.schema([(name, to_arrow(type_)) for name, type_ in _joined(sources, read).items()]))
    added = spark_schema(pa.schema([(name, METADATA[name.removeprefix(read.prefix)]) for name in metadata_names(read)]))
    return StructType([*spark_schema(pa.schema([(read.kinds, pa.string())])), *columns, *added])


def _captured(read: CdcRead) -> list[SourceSchema]:
    """Return the table as its server describes it; SourceError if it is not there, or cannot be captured."""
    seen = None
    try:
        for table in read.connector.tables(read.config, replace(read.request, samples=read.sampled)):
            if (table.database, table.table) == read.table:
                return [table]
    except NothingCaptured as error:
        seen = error.facts.get("seen")
    raise SourceError(
        "the source does not capture this table", table=read.title, tables_that_are_seen=seen, hint=_uncaptured(read)
    )


def _joined(sources: Sequence[SourceSchema], read: CdcRead) -> dict[str, DataType]:
    """Return the columns of all these schemas, each with a type that holds the values of all."""
    types: dict[str, DataType] = {}
    for wanted in (column for source in sources for column in rules_of(read).wanted(source)):
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
    schemas, bad = dict[SourceSchema, None](), list[BadRecord]()
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        # The source keeps its own files in a temporary folder, so that sampled messages do not count as read.
        request = replace(read.request, state=StateFolder(folder))
        source = read.connector.open(read.config, request)
        try:
            for range_ in _first_ranges(read, request, source):
                for chunk in source.chunks(range_, DecodeOptions(zone=request.zone)):
                    bad += chunk.decoded.bad
                    schemas |= dict.fromkeys(batch.schema for batch in chunk.decoded.batches)
        finally:
            source.close()
    sources = [schema for schema in schemas if read.table in {None, (schema.database, schema.table)}]
    if not sources:
        raise _nothing_sampled(read, sorted({f"{schema.database}.{schema.table}" for schema in schemas}), bad)
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
