"""Checks of the source: it answers, it has the required tables or topics, and its content can be read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from penstock.errors import PenstockError, PositionLost, counted
from penstock.formats.change import SourceSchema
from penstock.ingest.connector_answers import SourceCheck
from penstock.ingest.patience import patience
from penstock.ingest.source import Limit, Offsets
from penstock.pipelines.api.findings import Finding, of_error
from penstock.pipelines.api.plan import PlannedTable, planned
from penstock.pipelines.api.sample import first_messages, not_captured, sample
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job import build
from penstock.pipelines.job.described_source import CaptureFindings, captured_tables, plan_tables
from penstock.pipelines.job.emptied_deletes import emptied_deletes
from penstock.pipelines.job.failing_rules import failing_rules, failure_hint, failure_text, without_failing
from penstock.pipelines.job.source_request import connector, open_source, request_of
from penstock.pipelines.job.unmet_names import unmet_names
from penstock.pipelines.job.unmet_patterns import unmet_patterns
from penstock.pipelines.job.unmet_rules import KnownTables, NoSuchColumn, NoSuchTable, lacking_columns, unmet_rules
from penstock.pipelines.job.unseen_columns import unseen_columns
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.filled_tables import FilledTables, SourceName
from penstock.pipelines.ledger.holes import (
    COPIES,
    READS_ON,
    IncompleteTables,
    lacking_messages,
    refusal,
)
from penstock.pipelines.mapping.described_tables import name_of
from penstock.pipelines.mapping.new_tables import NO_KEY, NO_KEY_HINT
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.table.commit.rows_of_others import HINT, rows_of_others

_LOOK_BYTES = 8 << 20


def check_source(spec: PipelineSpec) -> Iterator[Finding]:
    if connector(spec).capabilities.describes_tables:
        yield from _described_tables(spec)
    else:
        # A check reports a source that does not answer, and does not wait for it.
        with patience(0.0):
            yield from _messages(spec)


def _messages(spec: PipelineSpec) -> Iterator[Finding]:
    checked = connector(spec).check(spec.source, request_of(spec))
    yield Finding("source", "ok", checked.place)
    yield from _of_source(checked)
    yield from _of_source(SourceCheck(checked.place, build.kept_for_freshness(spec)))
    warehouse = build.job_warehouse(spec)
    if not spec.pipeline.accept_gap:
        lacking = lacking_messages(
            build.mapping_of(spec, warehouse),
            build.filled_tables(spec, warehouse),
            retries_parked=spec.pipeline.retry_parked,
        )
        yield from lacking_tables(lacking, READS_ON)
    position = CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options).batches.progress().offsets
    if position is None:
        yield from _readable(spec)
        return
    lost = list(_resume_findings(spec, position))
    yield from lost
    if lost:
        return
    source = open_source(spec)
    try:
        lag = sum(source.lag(position).values())
    finally:
        source.close()
    yield Finding("source", "ok", f"continues at its last position; {lag:,} to read")


def _of_source(checked: SourceCheck) -> Iterator[Finding]:
    for finding in checked.findings:
        yield Finding("source", finding.level, finding.message, finding.fix, finding.code)


def _described_tables(spec: PipelineSpec) -> Iterator[Finding]:
    kind, request, warehouse = connector(spec), request_of(spec), build.job_warehouse(spec)
    mapping, filled = build.mapping_of(spec, warehouse), build.filled_tables(spec, warehouse)
    checked = kind.check(spec.source, request, must=filled.is_new)
    names = [name_of(table) for table in checked.tables]
    if names:
        shown = ", ".join(map(".".join, names[:5]))
        yield Finding("source", "ok", f"{checked.place}: {counted(len(names), 'table')} to capture: {shown}")
    else:
        fix = "check the names in the pipeline, and what its user may read; tables that appear later are captured"
        yield Finding("source", "warning", f"{checked.place}: no table to capture so far", fix)
    yield from _of_source(checked)
    left_out_tables = kind.left_out(spec.source, request)
    for message, hint in unmet_patterns(spec, {*names, *left_out_tables}) if names else ():
        yield Finding("source", "warning", message, hint)
    for name, reason in left_out_tables.items():
        fix = "exclude it by name if that is meant"
        fix = f"{NO_KEY_HINT}; or {fix}" if reason == NO_KEY else fix
        yield Finding("source", "warning", f"{'.'.join(name)} is left out: {reason}", fix)
    for name, lines in checked.selections.items():
        for line in lines:
            yield Finding("source", "ok", f"the snapshot of {'.'.join(name)} {line}")
    for message, hint in emptied_deletes(spec, mapping, checked.tables):
        yield Finding("source", "warning", message, hint)
    captured = captured_tables(spec, mapping, filled, checked.tables)
    refused = False
    for finding in _tables_planned(spec, checked.tables, filled.sources, checked.hiding) if names else ():
        refused = refused or finding.level == "error"
        yield finding
    if not refused and not any(finding.level == "error" for finding in checked.findings):
        yield from _start_refusal(spec, mapping, filled, checked.tables, captured)
    reached = CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options).batches.progress().offsets
    if reached is not None:
        yield from _resume_findings(spec, reached)
    if not spec.pipeline.accept_gap:
        planned = without_failing(checked.tables, failing_rules(spec, mapping, checked.tables, filled.sources))
        left_out = {plan.table for plan in _plans(spec, planned) if plan.action == "leave out"}
        yield from lacking_tables(captured.lacking, COPIES, left_out)


def _start_refusal(
    spec: PipelineSpec,
    mapping: PipelineMapping,
    filled: FilledTables,
    tables: Sequence[SourceSchema],
    captured: CaptureFindings,
) -> Iterator[Finding]:
    """Yield the error with which a start would refuse the pipeline, although each table alone is right."""
    try:
        plan_tables(spec, mapping, build.job_warehouse(spec), filled, tables, captured)
    except PenstockError as error:
        yield of_error("tables", error)


def _tables_planned(
    spec: PipelineSpec,
    schemas: Sequence[SourceSchema],
    before: Collection[SourceName] = (),
    hiding: Collection[SourceName] = (),
    *,
    sampled: bool = False,
) -> Iterator[Finding]:
    """Yield all problems with rules, names, keys and options that `run` would refuse.

    Of a message source only a sample is known: a rule for a table or a column that is not in it is no error, unless
    the tables that `run` creates from this sample need it.
    """
    warehouse = build.job_warehouse(spec)
    mapping = build.mapping_of(spec, warehouse)
    failing = failing_rules(spec, mapping, schemas, before)
    for name, error in failing.items():
        yield Finding("tables", "warning", failure_text(name, error), failure_hint(error))
    for error in unmet_rules(spec, mapping, KnownTables(schemas, before, hiding, sampled, failing)):
        found = of_error("tables", error)
        passes = sampled and isinstance(error, NoSuchTable | NoSuchColumn)
        yield replace(found, level="warning", code=0) if passes else found
    rows = [*map(lacking_columns, schemas)] if sampled else schemas
    for message, hint in (*unmet_names(spec, mapping, schemas, before), *unseen_columns(mapping, rows)):
        yield Finding("tables", "warning", message, hint)
    for table in _plans(spec, without_failing(schemas, failing), sampled=sampled):
        for warning in table.warnings:
            yield Finding("tables", "warning", f"{table.table}: {warning}", "penstock plan FILE  shows the columns")
        if table.action == "leave out":
            yield Finding("tables", "warning", f"{table.table} is excluded", table.problem or "")
        if table.action == "refuse":
            yield Finding("tables", "error", f"{table.table}: {table.problem}", "see  penstock plan FILE", 5)
        exists = table.action in {"keep", "alter"}
        if exists and not before and (said := rows_of_others(warehouse.store(table.table), spec.pipeline.name)):
            yield Finding("tables", "warning", said, HINT)


def _plans(spec: PipelineSpec, schemas: Sequence[SourceSchema], *, sampled: bool = False) -> list[PlannedTable]:
    """Return the planned tables, or an empty list if a rule cannot be applied, which was already reported."""
    warehouse = build.job_warehouse(spec)
    mapping = build.mapping_of(spec, warehouse)
    try:
        # A sample may lack columns for its transforms, but the tables are created from the columns that it has.
        rows = [lacking_columns(schema) if sampled else schema for schema in schemas]
        after = [
            replace(mapping.shaped(schema), is_partial=given.is_partial)
            for schema, given in zip(rows, schemas, strict=True)
        ]
    except PenstockError:
        return []
    return planned(mapping, after, now=warehouse.now_millis())


def _resume_findings(spec: PipelineSpec, reached: Offsets) -> Iterator[Finding]:
    pipeline = spec.pipeline
    if pipeline.accept_gap or pipeline.resnapshot or spec.errors.position_lost == "resnapshot":
        return
    try:
        position = connector(spec).resume_point(spec.source, request_of(spec), reached)
    except PositionLost as error:
        yield of_error("source", error)
        return
    if position is not None:
        yield Finding("source", "ok", f"it still has the position to continue at: {position}")


def lacking_tables(lacking: IncompleteTables, hint: str, left_out: Collection[str] = ()) -> Iterator[Finding]:
    """Yield findings for tables that lack rows which the checkpoint counts as read.

    Tables that cannot be created are skipped, since they were already reported.
    """
    for difference in (difference for difference in lacking.again if difference.table not in left_out):
        fix = "the next run empties the table and copies its source tables again"
        yield Finding("tables", "warning", f"{difference.table}: {difference.reason}", fix)
    for difference in lacking.passed:
        fix = f"copy it with  --reset {difference.table} ; or leave it out with  newly-added-tables: false"
        yield Finding("tables", "warning", f"{difference.table}: {difference.reason}", fix)
    for difference in lacking.refused:
        error = refusal([difference], hint)
        yield Finding("tables", "error", f"{difference.table}: {difference.reason}", error.hint or "", error.exit_code)


def _readable(spec: PipelineSpec) -> Iterator[Finding]:
    """Decode the first messages: a wrong format is reported now, not by the first batch."""
    # As many messages as `run` samples before it refuses what they do not fit.
    rows = spec.sink.schema_sample.records or spec.sink.schema_init_max_read
    seen = sample(spec, Limit(rows=rows, bytes=_LOOK_BYTES))
    if not seen.messages:
        yield Finding(
            "source", "warning", "the source is empty so far", "tables are created when the first record arrives"
        )
        return
    if seen.bad:
        first = seen.bad[0]
        # If no message can be read, the format is wrong. No policy for bad records changes that.
        level = "error" if len(seen.bad) == seen.messages or spec.errors.bad_record == "fail" else "warning"
        yield Finding(
            "source",
            "error" if level == "error" else "warning",
            f"{len(seen.bad)} of the {first_messages(seen.messages)} cannot be read: {first.message}",
            "check value.format; set  errors: {bad-record: dead-letter}  to keep such messages in a table",
            8 if level == "error" else 0,
        )
        return
    yield from _tables_planned(spec, seen.untransformed, sampled=True)
    tables = sorted({f"{schema.database}.{schema.table}" for schema in seen.schemas if schema.table})
    of = f" of {', '.join(tables[:5])}" if tables else ""
    left = not_captured(build.mapping_of(spec, build.job_warehouse(spec)), seen.untransformed)
    if left and len(left) == len(tables):
        yield Finding(
            "source",
            "warning",
            f"no table of the {first_messages(seen.messages)} is captured: {', '.join(left[:5])}",
            "correct the selection: its names are regular expressions that match the whole name. A run reads these"
            " messages and leaves them out",
        )
    yield Finding("source", "ok", f"the {first_messages(seen.messages)} can be read{of}")
