"""The partitions of a table that have rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.handle import Table
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.live import live_entries
from penstock.table.operations.overwrite import PartitionSpec
from penstock.table.options.scans import SCAN_FALLBACK_BRANCH
from penstock.table.read.fallback import readable_entries


def live_partitions(table: Table, spec: Mapping[str, object] | None = None) -> list[tuple[object, ...]]:
    """Return the values of the partitions that have rows, of those that `spec` names by some or all columns.

    They include the partitions that are read from a fallback branch.
    """
    layout, latest = _partitioned(table), table.latest_snapshot
    return _values(readable_entries(table.store, latest), layout, spec)


def check_no_fallback(table: Table, spec: Mapping[str, object]) -> None:
    """Raise ConfigError if no partition of a spec can be dropped, since a fallback branch has them."""
    layout, latest = _partitioned(table), table.latest_snapshot
    own = [] if latest is None else live_entries(table.store, latest)
    if _values(own, layout, spec) or not live_partitions(table, spec):
        return
    branch = table.definition.typed[SCAN_FALLBACK_BRANCH]
    listed = ", ".join(f"{key}={value}" for key, value in spec.items())
    raise ConfigError(
        f"the partition {listed} is read from the branch {branch}, which {SCAN_FALLBACK_BRANCH.key} names",
        table=table.name,
        hint=f"delete it in the branch: run the statement on `t$branch_{branch}`",
    )


def _partitioned(table: Table) -> Layout:
    if not table.partition_keys:
        raise ConfigError("the table has no partitions", table=table.name)
    return Layout.of(table.definition)


def _values(
    entries: Iterable[ManifestEntry], layout: Layout, spec: Mapping[str, object] | None
) -> list[tuple[object, ...]]:
    chosen = PartitionSpec.of(layout, spec or {})
    found = {entry.partition for entry in entries}
    return [tuple(layout.partition_values(one)) for one in found if chosen.covers(one)]
