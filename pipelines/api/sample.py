"""Examines a source without leaving a trace.

A sample of messages shows which tables they contain and whether they can be read. A plan is based on such a sample, or
on the catalog of a server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import counted
from penstock.formats.change import BadRecord, DecodeOptions, SourceSchema
from penstock.ingest.patience import patience
from penstock.ingest.source import Limit
from penstock.pipelines.api.plan import PlannedTable, planned, with_selections
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job import build
from penstock.pipelines.job.emptied_deletes import emptied_deletes
from penstock.pipelines.job.failing_rules import failing_rules, failure_text, without_failing
from penstock.pipelines.job.source_request import connector, request_of
from penstock.pipelines.job.unmet_names import unmet_names
from penstock.pipelines.job.unmet_rules import KnownTables, NoSuchColumn, NoSuchTable, check_rules, unmet_rules
from penstock.pipelines.ledger.filled_tables import SourceName
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.pipelines.mapping.target_tables import settings_of
from penstock.storage.state_folder import StateFolder


@dataclass(slots=True)
class Sample:
    """The schemas in order of appearance, without duplicates, with counts and bad records."""

    messages: int = 0
    schemas: list[SourceSchema] = field(default_factory=list)
    untransformed: list[SourceSchema] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)


def sample(spec: PipelineSpec, limit: Limit) -> Sample:
    """Return the first messages that a new pipeline would read, decoded: about `limit.rows` of them."""
    examined = Sample()
    catalog = spec.sink.catalog
    mapping = build.mapping_of(spec, settings_of(catalog))
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        # The source keeps its own files in a temporary folder, so that sampled records do not count as read.
        request = replace(request_of(spec), state=StateFolder(folder))
        source = connector(spec).open(spec.source, request)
        try:
            start = source.initial_offsets()
            end = source.latest_offsets(start, limit)
            if end == start:
                return examined
            for range_ in source.plan(start, end, 1):
                for chunk in source.chunks(range_, DecodeOptions(zone=spec.pipeline.local_time_zone)):
                    examined.messages += chunk.messages
                    examined.bad += chunk.decoded.bad
                    for batch in chunk.decoded.batches:
                        if batch.schema not in examined.untransformed:
                            examined.untransformed.append(batch.schema)
                        # Both schemas are kept: plans need the columns after the transforms, and rules are checked
                        # against those before.
                        change, unread = mapping.transformed(batch, chunk.fetched, 0)
                        examined.bad += unread
                        if change.schema not in examined.schemas:
                            examined.schemas.append(change.schema)
                    if limit.rows is not None and examined.messages >= limit.rows:
                        return examined
        finally:
            source.close()
    return examined


def not_captured(mapping: PipelineMapping, schemas: Sequence[SourceSchema]) -> list[str]:
    """Return the source tables in these schemas that the selection of the pipeline leaves out."""
    named = [(schema.database, schema.table) for schema in schemas if schema.database and schema.table]
    return sorted({f"{database}.{table}" for database, table in named if mapping.target(database, table) is None})


def first_messages(count: int) -> str:
    return "first message" if count == 1 else f"first {counted(count, 'message')}"


def tables_planned(spec: PipelineSpec, records: int) -> tuple[str, list[PlannedTable]]:
    """Return a description of the examined records, and the planned tables that follow from them."""
    catalog = spec.sink.catalog
    warehouse = settings_of(catalog)
    mapping = build.mapping_of(spec, warehouse)
    kind = connector(spec)
    if kind.capabilities.describes_tables:
        answer = kind.check(spec.source, replace(request_of(spec), samples=max(1, records // 2)))
        looked = f"{spec.source.type}: {counted(len(answer.tables), 'table')} of {answer.place}"
        if answer.columns_of:
            looked += (
                f", with the columns of the first {answer.columns_of} and the last {answer.columns_of} rows of each"
            )
        before = build.filled_tables(spec, warehouse).sources
        failing = failing_rules(spec, mapping, answer.tables, before)
        check_rules(spec, mapping, KnownTables(answer.tables, before, failing=failing))
        looked += _names_without_effect(spec, mapping, answer.tables, before)
        looked += "".join(f"\n{failure_text(name, error)}" for name, error in failing.items())
        emptied = emptied_deletes(spec, mapping, answer.tables)
        looked += "".join(f"; warning: {message} ({hint})" for message, hint in emptied)
        after = [mapping.shaped(table) for table in without_failing(answer.tables, failing)]
        tables = planned(mapping, after, now=warehouse.now_millis())
        parts = {".".join(name): lines for name, lines in answer.selections.items()}
        return looked, [with_selections(table, parts) for table in tables]
    with patience(0.0):
        seen = sample(spec, Limit(rows=records))
    known = KnownTables(seen.untransformed, sampled=True)
    for error in unmet_rules(spec, mapping, known) if seen.untransformed else ():
        if not isinstance(error, NoSuchTable | NoSuchColumn):  # other messages may have these tables and columns
            raise error
    bad = f", {len(seen.bad)} of them cannot be read" if seen.bad else ""
    left = not_captured(mapping, seen.untransformed)
    bad += f"; not captured: {', '.join(left)}" if left else ""
    bad += _names_without_effect(spec, mapping, seen.untransformed)
    looked = f"{spec.source.type}: looked at the {first_messages(seen.messages)}{bad}"
    if not seen.messages:
        looked = f"{spec.source.type}: the source is empty so far"
    return looked, planned(mapping, seen.schemas, now=warehouse.now_millis(), rules=spec.freshness)


def _names_without_effect(
    spec: PipelineSpec, mapping: PipelineMapping, schemas: Sequence[SourceSchema], before: Collection[SourceName] = ()
) -> str:
    return "".join(f"; warning: {message} ({hint})" for message, hint in unmet_names(spec, mapping, schemas, before))
