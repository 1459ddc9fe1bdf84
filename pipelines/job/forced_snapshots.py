"""Existing tables with a freshness whose options ask for a snapshot with every batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.errors import ConfigError
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.table_freshness import FORCED
from penstock.pipelines.ledger.filled_tables import SourceName
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing
from penstock.table.options.commits import COMMIT_FORCE_CREATE_SNAPSHOT
from penstock.table.schema.validation import UnusableName


def refuse_forced(spec: PipelineSpec, goes_to: Mapping[SourceName, str | None], warehouse: CatalogSettings) -> None:
    """Raise ConfigError if a deferred table asks for a snapshot with every batch, which would lack its rows.

    The check of the pipeline's own options refuses the same for tables that are yet to be created. `goes_to` are the
    target tables of the source tables that were read so far.
    """
    forced = sorted({table for table in _deferred(spec, goes_to) if _is_forced(table, warehouse)})
    if forced:
        raise ConfigError(
            f"{FORCED} makes a snapshot of a table with every batch, also of one with a freshness",
            tables=", ".join(forced),
            hint=f"penstock sql \"ALTER TABLE {forced[0]} RESET ('{FORCED}')\", or remove its freshness",
        )


def _deferred(spec: PipelineSpec, goes_to: Mapping[SourceName, str | None]) -> Iterator[str]:
    rules = spec.freshness
    yield from (route.sink_table for route in spec.route if route.freshness)
    for (database, table), target in goes_to.items():
        if target is not None and rules.interval(database or None, table or None):
            yield target


def _is_forced(table: str, warehouse: CatalogSettings) -> bool:
    try:
        return bool(warehouse.store(table).schema().typed[COMMIT_FORCE_CREATE_SNAPSHOT])
    except (TableMissing, UnusableName):  # it is yet to be created, or named by a placeholder
        return False
