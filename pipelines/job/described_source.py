"""A source that describes its tables, prepared for a run: checked, and with target tables for its tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError, did_you_mean
from penstock.formats.change import SourceSchema
from penstock.ingest.connector_requests import Preparation, TableName
from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.source_waits import writing_tables
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job.emptied_deletes import warn_of_emptied_deletes
from penstock.pipelines.job.failing_rules import failing_rules, failure_hint, failure_text, without_failing
from penstock.pipelines.job.source_request import connector, request_of
from penstock.pipelines.job.unmet_patterns import warn_of_unmet_patterns
from penstock.pipelines.job.unmet_rules import KnownTables, check_rules
from penstock.pipelines.job.unseen_columns import warn_of_unseen_columns
from penstock.pipelines.ledger.batch_identity import shows_replay
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.filled_tables import Difference, FilledTables, source_text
from penstock.pipelines.ledger.holes import (
    COPIES,
    IncompleteTables,
    away,
    lacking_rows,
    warn_of_adoption,
    with_undescribed,
)
from penstock.pipelines.ledger.unfinished_replay import check_replay
from penstock.pipelines.mapping.described_tables import DescribedTables, name_of, plan_described
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.table.catalog.settings import CatalogSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DescribedSource:
    """A source that is ready to be captured.

    `reset` are the target tables that are emptied and copied again; `goes_to` maps each captured source table to its
    target table, or to None if it is no longer captured; `left_out` maps tables that cannot be created to the reason.
    """

    source: ChangeSource
    reset: tuple[str, ...]
    goes_to: Mapping[TableName, str | None]
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CaptureFindings:
    """The names of captured tables, those among them that do not exist any more, and target tables that lack rows."""

    names: list[TableName]
    gone: list[TableName]
    lacking: IncompleteTables


def captured_tables(
    spec: PipelineSpec, mapping: PipelineMapping, filled: FilledTables, schemas: Sequence[SourceSchema]
) -> CaptureFindings:
    """Return the captured tables. The source has described the tables in `schemas`."""
    kind, request = connector(spec), request_of(spec)
    capture = kind.capture(spec.source, request)
    names = with_undescribed(
        [name_of(schema) for schema in schemas], filled, lambda: kind.undescribed(spec.source, request)
    )
    gone = away(names, filled, capture)
    if capture.follows_drop:
        names = [*names, *gone]
    return CaptureFindings(names, gone, lacking_rows(spec, capture, names, mapping, filled))


@dataclass(frozen=True, slots=True)
class TablesPlan:
    """The decisions of a start, made before it changes anything. `copies` are tables that are copied again."""

    tables: DescribedTables
    copies: tuple[Difference, ...]
    reset: tuple[str, ...]
    preparation: Preparation


def plan_tables(
    spec: PipelineSpec,
    mapping: PipelineMapping,
    warehouse: CatalogSettings,
    filled: FilledTables,
    tables: Sequence[SourceSchema],
    captured: CaptureFindings,
) -> TablesPlan:
    """Return the decisions about the described tables; raise the errors of a start, except for lacking rows."""
    kind, request = connector(spec), request_of(spec)
    capture, names = kind.capture(spec.source, request), captured.names
    # Renames still ahead in the log are applied at their position, and a change that fits nowhere stops the job there.
    # Until then target tables may differ from their sources' current columns.
    checks = not capture.renames_columns or filled.is_new
    described = without_failing(tables, failing_rules(spec, mapping, tables, filled.sources))
    planned = plan_described(described, spec.sink, mapping, warehouse, checks=checks, isolate=spec.errors.isolate)
    left_out = planned.left_out
    copies = captured.lacking.to_copy(left_out)
    # The tables that the user names, and the tables that lack rows, each once.
    reset = tuple(dict.fromkeys([*spec.pipeline.reset, *(copy.table for copy in copies)]))
    reread = _sources_of(reset, names, mapping)
    # Rows are copied while the log is read, so that a change may be applied twice. If a table shows that, its rows
    # have to be read as of a position.
    exact = any(map(shows_replay, planned.tables))
    shared = {mapping.target(*name) for name in names}
    outdated = frozenset(name for name in captured.gone if mapping.target(*name) not in shared)
    preparation = Preparation(filled.is_new, left_out, reread, exact, planned.before_images, outdated)
    kind.check_preparation(spec.source, request, preparation)
    return TablesPlan(planned, copies, reset, preparation)


def prepare_tables(
    spec: PipelineSpec, mapping: PipelineMapping, warehouse: CatalogSettings, filled: FilledTables
) -> DescribedSource:
    """Return the source, after checking it and creating target tables for its tables."""
    kind, request = connector(spec), request_of(spec)
    described = kind.tables(spec.source, request, must=filled.is_new)
    if described:
        failing = failing_rules(spec, mapping, described, filled.sources)
        check_rules(spec, mapping, KnownTables(described, filled.sources, failing=failing))
        for name, error in failing.items():
            log.warning("event=rule_fails reason=%s hint=%s", failure_text(name, error), failure_hint(error))
        warn_of_unseen_columns(mapping, described)
        warn_of_emptied_deletes(spec, mapping, described)
    if described and filled.is_new:
        warn_of_unmet_patterns(spec, {*map(name_of, described)}, lambda: kind.left_out(spec.source, request))
    capture = kind.capture(spec.source, request)
    captured = captured_tables(spec, mapping, filled, described)
    plan = plan_tables(spec, mapping, warehouse, filled, described, captured)
    captured.lacking.check(filled, COPIES, accept=spec.pipeline.accept_gap)
    for copy in plan.copies:
        sources = ",".join(map(source_text, copy.sources))
        log.warning("event=table_copied_again table=%s sources=%s reason=%s", copy.table, sources, copy.reason)
    warn_of_adoption(filled)
    if plan.reset or spec.pipeline.resnapshot:
        check_replay(CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options))
    with writing_tables():  # a part of the start, which a stop may end
        plan.tables.create(spec.sink, warehouse)
    left_out, preparation = plan.tables.left_out, plan.preparation
    source = kind.prepare(spec.source, request, preparation)
    goes_to: dict[TableName, str | None] = {name: mapping.target(*name) for name in captured.names}
    # Sources of earlier runs that are not captured any more, and sources that no table can store: their rows are
    # skipped from now on, which has to be recorded.
    goes_to |= {name: None for name in (*filled.sources, *left_out) if not capture.includes(name, left_out)}
    reasons = _not_captured(kind.left_out(spec.source, request), mapping, goes_to)
    return DescribedSource(source, plan.reset, goes_to, {**reasons, **plan.tables.reasons})


def _not_captured(
    left_out: Mapping[TableName, str], mapping: PipelineMapping, goes_to: Mapping[TableName, str | None]
) -> dict[str, str]:
    """Return why target tables have no rows, except for tables that other source tables fill."""
    targets = {mapping.target(*name): f"{reason} (source {'.'.join(name)})" for name, reason in left_out.items()}
    return {table: reason for table, reason in targets.items() if table and table not in goes_to.values()}


def _sources_of(wanted: Sequence[str], names: Sequence[TableName], mapping: PipelineMapping) -> tuple[TableName, ...]:
    """Return all source tables of these target tables.

    A target table with several sources is emptied and read again as a whole.
    """
    targets = {name: mapping.target(*name) for name in names}
    for table in wanted:
        if table not in targets.values():
            raise ConfigError(
                f"no table of the source goes to {table}",
                hint=did_you_mean(
                    table, filter(None, targets.values()), "write target tables, such as  reset: ods.orders"
                ),
            )
    return tuple(name for name, target in targets.items() if target in wanted)
