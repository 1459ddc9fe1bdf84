"""Builds a runnable job from the description of a pipeline."""

from __future__ import annotations

import logging
from dataclasses import replace

from penstock.errors import ConfigError
from penstock.ingest.connector_answers import SourceFinding
from penstock.ingest.connector_requests import Preparation
from penstock.ingest.connectors import only_types
from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.freshness_source import FreshnessSource
from penstock.ingest.patience import patience
from penstock.ingest.source import Limit
from penstock.pipelines.config.model import PipelineSpec, SelectionConfig
from penstock.pipelines.driver.first_sample import PAUSES, FirstLook, pauses_of
from penstock.pipelines.job.described_source import prepare_tables
from penstock.pipelines.job.forced_snapshots import refuse_forced
from penstock.pipelines.job.job import BackgroundWork, Delivery, Job, Recovery, RetryPolicy, TablesAtStart, Trigger
from penstock.pipelines.job.new_table_rules import new_tables_of
from penstock.pipelines.job.source_request import connector, open_source, request_of
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.filled_tables import FilledTables
from penstock.pipelines.ledger.holes import READS_ON, check_kind, lacking_messages, warn_of_adoption, where_sources_go
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.pipelines.mapping.table_rules import TableRules
from penstock.pipelines.mapping.target_tables import settings_of
from penstock.pipelines.tasks.bad_records import ErrorPolicy, OnBad
from penstock.pipelines.tasks.dead_letter_table import letters_table
from penstock.schema_evolution.target_names import TargetNames
from penstock.table.catalog.settings import CatalogSettings, forget_tables
from penstock.table.options.checks import report
from penstock.table.options.flink import CDC_LOG_CORRUPT_RECORD, CDC_SKIP_CORRUPT_RECORD
from penstock.table.options.table_options import TableOptions

log = logging.getLogger(__name__)


def job(spec: PipelineSpec) -> Job:
    _check_capabilities(spec)
    pipeline, sink = spec.pipeline, spec.sink
    warehouse = settings_of(sink.catalog)
    mapping = mapping_of(spec, warehouse)
    report(f"pipeline {pipeline.name}", sink.options)
    on_error, compaction, batch = pipeline.on_error, sink.compaction, pipeline.max_batch
    return Job(
        name=pipeline.name,
        source=with_freshness(spec, open_source(spec), warehouse),
        mapping=mapping,
        warehouse=warehouse,
        checkpoint=spec.checkpoint,
        tables=TablesAtStart(known_tables(spec, warehouse)),
        table_options=sink.options,
        trigger=Trigger(pipeline.trigger, Limit(batch.rows, batch.bytes), pipeline.until == "caught-up"),
        delivery=Delivery(pipeline.accept_replay, pipeline.resume_from_tables, sink.eager_init, pipeline.accept_gap),
        errors=_error_policy(spec),
        retry=RetryPolicy(on_error.retries, on_error.backoff, on_error.longest_backoff),
        recovery=Recovery(pipeline.retry_parked, pipeline.resnapshot, pipeline.reset),
        background=BackgroundWork(
            compaction.mode == "background", compaction.max_parallel, compaction.maintenance_interval
        ),
        readers=connector(spec).readers(spec.source),
        first_look=_first_look(spec),
        expects_one_source=_expects_one_source(spec),
        passes_places=connector(spec).capabilities.passes_places,
    )


def _expects_one_source(spec: PipelineSpec) -> bool:
    """Return whether all messages go to one table, and the tables that they name were not chosen."""
    by_messages = not connector(spec).capabilities.describes_tables
    return spec.sink.table is not None and by_messages and spec.selection == SelectionConfig()


def job_warehouse(spec: PipelineSpec) -> CatalogSettings:
    return settings_of(spec.sink.catalog)


def known_tables(spec: PipelineSpec, warehouse: CatalogSettings) -> tuple[str, ...]:
    return tuple(name for database in databases(spec, warehouse) for name in warehouse.tables(database))


def databases(spec: PipelineSpec, warehouse: CatalogSettings) -> list[str]:
    """Return the databases of the warehouse that the pipeline may write to; they need not exist yet."""
    routed = {route.sink_table.partition(".")[0] for route in spec.route}
    # Routes may name databases by parts of the source's names, which only the rows show. Then all databases are
    # searched.
    if spec.sink.database is not None and not any("{" in name or "$" in name for name in routed):
        return sorted({spec.sink.database, *routed})
    return sorted({*warehouse.databases(), *filter(None, [spec.sink.database])})


def _check_capabilities(spec: PipelineSpec) -> None:
    """Raise ConfigError for settings that a description may contain but a job with this source cannot apply."""
    capabilities = connector(spec).capabilities
    if (spec.pipeline.resnapshot or spec.pipeline.reset) and not capabilities.rereads_tables:
        raise ConfigError(
            f"a source of type {spec.source.type} has no tables to read again", hint=only_types("rereads_tables")
        )
    if spec.pipeline.resume_from_tables and not capabilities.resumes_from_tables:
        raise ConfigError(
            f"a source of type {spec.source.type} needs its checkpoint to continue: the tables do not suffice",
            hint="restore the checkpoint;  --accept-replay  reads everything again",
        )


def _error_policy(spec: PipelineSpec) -> ErrorPolicy:
    several = spec.sink.table is None  # with a single table there would be nothing to continue with
    return ErrorPolicy(_on_bad(spec), spec.errors.isolate and several, several, spec.sink.ignore_incompatible)


def _on_bad(spec: PipelineSpec) -> OnBad:
    errors, options = spec.errors, TableOptions(spec.sink.options)
    logs = options[CDC_LOG_CORRUPT_RECORD]
    action = errors.bad_record
    if action == "fail" and options[CDC_SKIP_CORRUPT_RECORD]:
        # An option of Paimon's CDC sinks. The pipeline's own setting comes first.
        action = "skip"
    if action != "dead-letter":
        return OnBad(action, spec.pipeline.name, None, errors.skip.max_per_batch, errors.skip.max_share, logs)
    letters = errors.dead_letter
    table = letters_table(letters.table, spec.sink.database)
    return OnBad(action, spec.pipeline.name, table, letters.max_per_batch, letters.max_share, logs)


def _first_look(spec: PipelineSpec) -> FirstLook | None:
    sampler = connector(spec).sampler(spec.source, request_of(spec))
    if sampler is None:
        return None
    sink = spec.sink
    return FirstLook(
        sampler.ranges,
        sink.schema_sample.records or sink.schema_init_max_read,
        sampler.place,
        f"{sink.database}.{sink.table}" if sink.table else None,
        sink.wait_for_data,
        _pauses(spec),
    )


def _pauses(spec: PipelineSpec) -> tuple[float, ...]:
    wait = spec.sink.schema_sample.wait
    if wait is not None:
        return pauses_of(wait)
    # A run that ends when it has caught up does not wait for a first record.
    return () if spec.pipeline.until == "caught-up" else PAUSES


def ready(spec: PipelineSpec) -> Job:
    """Return the job, prepared for its first batch.

    The source was checked, and target tables of the tables that it describes exist.
    """
    # An earlier run of this process may have cached a table that was dropped and created again since.
    forget_tables()
    prepared = job(spec)
    mapping, filled = mapping_of(spec, prepared.warehouse), filled_tables(spec, prepared.warehouse)
    if connector(spec).capabilities.describes_tables:
        described = prepare_tables(spec, mapping, prepared.warehouse, filled)
        recovery = replace(prepared.recovery, reread=described.reset)
        # Listed again, because preparing has created tables.
        tables = TablesAtStart(known_tables(spec, prepared.warehouse), described.left_out, described.goes_to, filled)
        return replace(prepared, source=described.source, recovery=recovery, tables=tables)
    lacking_messages(mapping, filled, retries_parked=spec.pipeline.retry_parked).check(
        filled, READS_ON, accept=spec.pipeline.accept_gap
    )
    warn_of_adoption(filled)
    opened = connector(spec).prepare(spec.source, request_of(spec), Preparation(prepared.is_new))
    tables = replace(prepared.tables, goes_to=where_sources_go(filled, mapping), filled=filled)
    refuse_forced(spec, tables.goes_to, prepared.warehouse)
    for finding in kept_for_freshness(spec):
        log.warning("event=retention_short reason=%s hint=%s", finding.message, finding.fix)
    return replace(prepared, source=with_freshness(spec, opened, prepared.warehouse), tables=tables)


def with_freshness(spec: PipelineSpec, source: ChangeSource, warehouse: CatalogSettings) -> ChangeSource:
    """Return the source with the freshness of its tables, if it can defer records.

    Without a freshness too: an earlier run may have deferred records.
    """
    if not connector(spec).capabilities.defers_ranges:
        return source
    return FreshnessSource(source, spec.freshness, warehouse.now_millis)


def kept_for_freshness(spec: PipelineSpec) -> list[SourceFinding]:
    """Return a warning for each part of the source that may be deleted before all tables have it."""
    if not spec.freshness:
        return []
    with patience(0.0):  # nothing depends on the answer
        return connector(spec).kept_for(spec.source, request_of(spec), spec.freshness.intervals[-1] / 1000)


def filled_tables(spec: PipelineSpec, warehouse: CatalogSettings) -> FilledTables:
    """Return the checkpoint's record of the tables that the pipeline filled.

    CheckpointMismatch if it is the checkpoint of a source of another type.
    """
    filled = FilledTables.of(CheckpointFolder(spec.checkpoint, warehouse.store_options), warehouse, spec.source.type)
    check_kind(filled)
    return filled


def mapping_of(spec: PipelineSpec, warehouse: CatalogSettings) -> PipelineMapping:
    sink, naming, selection = spec.sink, spec.sink.naming, spec.selection
    sensitive = sink.catalog.case_sensitive
    return PipelineMapping(
        warehouse=warehouse,
        database=sink.database,
        table=sink.table,
        naming=TargetNames(
            prefix=naming.table_prefix,
            suffix=naming.table_suffix,
            database_prefix=_lower(naming.table_prefix_db),
            database_suffix=_lower(naming.table_suffix_db),
            mapping=_lower(naming.table_mapping),
            including=selection.including_tables,
            excluding=selection.excluding_tables,
            including_databases=selection.including_dbs,
            excluding_databases=selection.excluding_dbs,
            merge_shards=naming.merge_shards,
            case_sensitive=sensitive,
        ),
        new_tables=new_tables_of(spec),
        zone=spec.pipeline.local_time_zone,
        table_rules=TableRules.of(spec.transform, spec.route, sink.per_table, warehouse, sink.deletes, spec.expect),
    )


def _lower(named: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in named.items()}
