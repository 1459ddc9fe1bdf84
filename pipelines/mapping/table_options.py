"""Sets options that a pipeline wants on a table that exists already."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.table.catalog.settings import CatalogSettings
from penstock.table.schema.changes import SetOption, is_immutable
from penstock.table.schema.table_schema import TableSchema
from penstock.table.usable import check_usable

log = logging.getLogger(__name__)


def set_options(
    warehouse: CatalogSettings, table: str, wanted: Mapping[str, str], kept: frozenset[str] = frozenset()
) -> TableSchema:
    """Set the options that differ, and return the newest schema.

    Options that determine how existing rows are stored or read, and those in `kept`, stay as they are, with a warning.
    """
    store = warehouse.store(table)
    current = store.schema()
    changes = []
    for option, value in wanted.items():
        has = current.options.get(option)
        if has == value:
            continue
        if option == "bucket" or option in kept or is_immutable(option):
            log.warning("event=option_kept table=%s option=%s value=%s wanted=%s", table, option, has, value)
        else:
            changes.append(SetOption(option, value))
    return store.evolve(changes, check_usable) if changes else current
