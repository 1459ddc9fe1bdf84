"""The partitions of a table that have rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.operations.partition_specs import PartitionSpecs
from penstock.table.options.scans import SCAN_FALLBACK_BRANCH
from penstock.table.read.fallback import readable_entries
from penstock.table.values.partition_text import value_text
from penstock.table.values.types import AtomicType, DataType


def live_partitions(table: Table, spec: Mapping[str, object] | None = None) -> list[tuple[object, ...]]:
    """Return the values of the partitions that have rows, of those that `spec` names by some or all columns.

    They include the partitions that are read from a fallback branch.
    """
    layout, chosen = _partitioned(table, [spec or {}])
    found = {entry.partition for entry in readable_entries(table.store, table.latest_snapshot)}
    return [tuple(layout.partition_values(partition)) for partition in found if chosen.covers(partition)]


def check_droppable(table: Table, specs: Sequence[Mapping[str, object]], *, must_exist: bool = False) -> None:
    """Raise ConfigError for a spec of partitions that only a fallback branch has.

    With `must_exist`, also for a spec of partitions that have no rows.
    """
    layout, chosen = _partitioned(table, specs)
    types = {field.name: field.type for field in layout.partition_fields}
    latest = table.latest_snapshot
    own = [] if latest is None else live_entries(table.store, latest)
    read = readable_entries(table.store, latest)
    mine, all_of_them = (
        frozenset[int]().union(*map(chosen.covering, {entry.partition for entry in entries})) for entries in (own, read)
    )
    for number, spec in enumerate(specs):
        listed = ", ".join(f"{key}={_shown(value, types.get(key))}" for key, value in spec.items())
        if number in all_of_them - mine:
            raise _only_in_fallback(table, listed)
        if must_exist and number not in all_of_them:
            hint = "SHOW PARTITIONS t lists them; DROP IF EXISTS PARTITION accepts one that does not exist"
            raise ConfigError(f"the table has no partition {listed}", table=table.name, hint=hint)


def _shown(value: object, type_: DataType | None) -> object:
    """Return a date or time as text if it is given as its internal number, and other values unchanged."""
    match value, type_:
        case int(), AtomicType("DATE" | "TIME" | "TIMESTAMP" | "TIMESTAMP_LTZ"):
            return value_text(value, type_)
    return "NULL" if value is None else value


def _only_in_fallback(table: Table, listed: str) -> ConfigError:
    branch = table.definition.typed[SCAN_FALLBACK_BRANCH]
    return ConfigError(
        f"the partition {listed} is read from the branch {branch}, which {SCAN_FALLBACK_BRANCH.key} names",
        table=table.name,
        hint=f"delete it in the branch: run the statement on `t$branch_{branch}`",
    )


def _partitioned(table: Table, specs: Sequence[Mapping[str, object]]) -> tuple[Layout, PartitionSpecs]:
    if not table.partition_keys:
        raise ConfigError(
            "the table has no partitions",
            table=table.name,
            hint="leave the partition out, or delete rows by a condition: DELETE FROM t WHERE ...",
        )
    layout = Layout.of(table.definition)
    return layout, PartitionSpecs.of(layout, specs)
