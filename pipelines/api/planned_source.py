"""The source schemas on which a plan is based: a sample of a message source, or the catalog of a server."""

from __future__ import annotations

from penstock.ingest.patience import patience
from penstock.ingest.source import Limit
from penstock.pipelines.api.plan import PlannedTable, planned
from penstock.pipelines.api.sample import sample
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job import build
from penstock.pipelines.job.source_request import connector, request_of
from penstock.pipelines.job.unmet_rules import NoSuchTable, check_rules, unmet_rules
from penstock.pipelines.mapping.target_tables import settings_of


def tables_planned(spec: PipelineSpec, records: int) -> tuple[str, list[PlannedTable]]:
    """Return a description of what was examined, and the planned tables that follow from it."""
    catalog = spec.sink.catalog
    warehouse = settings_of(catalog)
    shape = build.shape(spec, warehouse)
    kind = connector(spec)
    if kind.capabilities.describes_tables:
        found = kind.check(spec.source, request_of(spec))
        looked = f"{spec.source.type}: {len(found.tables)} tables of {found.place}"
        check_rules(spec, shape, found.tables, build.filled_tables(spec, warehouse).sources)
        return looked, planned(shape, [shape.shaped(table) for table in found.tables], now=warehouse.now_millis())
    with patience(0.0):
        seen = sample(spec, Limit(rows=records))
    for error in unmet_rules(spec, shape, seen.given) if seen.given else ():
        if not isinstance(error, NoSuchTable):  # the first messages may not contain other tables
            raise error
    bad = f", {len(seen.bad)} of them cannot be read" if seen.bad else ""
    looked = f"{spec.source.type}: looked at the first {seen.messages:,} messages{bad}"
    return looked, planned(shape, seen.schemas, now=warehouse.now_millis())
