"""A round of maintenance for one table of a pipeline. Independent of Spark."""

from __future__ import annotations

import logging

from penstock.table.catalog.settings import CatalogSettings
from penstock.table.maintenance.upkeep import Upkeep, keep_up

log = logging.getLogger(__name__)


def maintained(warehouse: CatalogSettings, table: str, last: Upkeep | None) -> Upkeep:
    """Maintain the table and log the results. `last` is the result of the previous round."""
    done = keep_up(warehouse.store(table), last)
    if done.did_something:
        log.info("event=maintained table=%s snapshots=%d", table, done.expired.snapshots)
    return done
