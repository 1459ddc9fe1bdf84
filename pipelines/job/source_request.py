"""The source of a pipeline, and the request that follows from the pipeline's description.

Imports little, because a bounded run asks its source for new data before it starts Spark.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.formats.demand import DemandPolicy
from penstock.ingest.connector import Connector
from penstock.ingest.connector_requests import SourceRequest, TableSelection
from penstock.ingest.connectors import connector_of
from penstock.ingest.decoded_source import ChangeSource
from penstock.ingest.fetched_messages import Extra
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.schema_evolution.filter_language import FilterLanguage
from penstock.schema_evolution.types.mapping import TypeMapping


def connector(spec: PipelineSpec) -> Connector[Any]:
    """Return the connector of the pipeline's source."""
    return connector_of(spec.source)


def open_source(spec: PipelineSpec) -> ChangeSource:
    """Return the source as described, without connecting to its server."""
    return connector(spec).open(spec.source, request_of(spec))


def source_for_a_question(spec: PipelineSpec, aside: str) -> ChangeSource:
    """Return the source for a question that must leave no trace in the checkpoint: it keeps its files in `aside`."""
    request = request_of(spec)
    return connector(spec).open(spec.source, replace(request, state=request.state.unchanged(aside)))


def request_of(spec: PipelineSpec) -> SourceRequest:
    """Return the pipeline's request to its source, for any kind of source."""
    pipeline, selection, sink = spec.pipeline, spec.selection, spec.sink
    mapping, catalog = TypeMapping.of(sink.type_mapping), sink.catalog
    checkpoint = CheckpointFolder(spec.checkpoint, catalog.store_options)
    return SourceRequest(
        state=checkpoint.source_state(spec.source.type),
        snapshot_requests=checkpoint.snapshot_requests,
        zone=pipeline.local_time_zone,
        selection=TableSelection(
            including_tables=selection.including_tables,
            excluding_tables=selection.excluding_tables,
            including_databases=selection.including_dbs,
            excluding_databases=selection.excluding_dbs,
        ),
        extras=_extras(spec),
        keyless=spec.keyless,
        accept_gap=pipeline.accept_gap,
        rereads=pipeline.resnapshot or bool(pipeline.reset),
        rereads_when_lost=spec.errors.position_lost == "resnapshot",
        single_table=sink.table is not None,
        merges_shards=sink.naming.merge_shards,
        defines_key=bool(sink.primary_keys) or not sink.sync_primary_keys_from_source_schema,
        all_as_text=mapping.to_string,
        times_as_text=mapping.time_to_string,
        zero_dates_fail=mapping.zero_date_error,
        demand=_demand(spec, mapping) if spec.transform else None,
        language=FilterLanguage(mapping, pipeline.local_time_zone),
        sink_warehouse=catalog.warehouse,
        sink_options=tuple(sorted(catalog.all_options.items())),
    )


def _extras(spec: PipelineSpec) -> frozenset[Extra]:
    """Return the parts of a record that dead letters or metadata columns need."""
    wanted: set[Extra] = set()
    if spec.errors.bad_record == "dead-letter":
        wanted |= {"key", "timestamp", "headers"}
    columns = set(spec.sink.metadata_columns)
    if columns & {"timestamp", "timestamp_type"}:
        wanted.add("timestamp")
    if "headers" in columns:
        wanted.add("headers")
    if "key" in columns:
        wanted.add("key")
    return frozenset(wanted)


def _demand(spec: PipelineSpec, mapping: TypeMapping) -> DemandPolicy:
    # Transforms may look rows up in tables, whose modules take long to import.
    from penstock.pipelines.mapping.table_rules import PipelineDemand, TableRules
    from penstock.pipelines.mapping.target_tables import settings_of

    return PipelineDemand(TableRules.of(spec.transform, (), {}, settings_of(spec.sink.catalog)), mapping)
