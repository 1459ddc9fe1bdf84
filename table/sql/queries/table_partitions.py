"""The partitions of a table that have rows."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.operations.overwrite import PartitionSpec


def live_partitions(table: Table, spec: Mapping[str, str] | None = None) -> list[tuple[object, ...]]:
    """Return the values of the partitions that have rows, of those that `spec` names by some or all columns."""
    if not table.partition_keys:
        raise ConfigError("the table has no partitions", table=table.name)
    layout, latest = Layout.of(table.definition), table.latest_snapshot
    chosen = PartitionSpec.of(layout, spec or {})
    entries = live_entries(table.store, latest) if latest is not None else []
    found = {entry.partition for entry in entries}
    return [tuple(layout.partition_values(one)) for one in found if chosen.covers(one)]
