"""Paimon's actions on partitions: drop, expire, mark as done."""

from __future__ import annotations

from penstock.errors import counted
from penstock.ingest.sync_actions import pairs
from penstock.pipelines.commands.arguments import Given
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.target import partitions, table_of


def mark_partition_done(given: Given) -> int:
    marked = table_of(given).mark_partitions_done(partitions(given))
    return answer(given, {"partitions": marked}, f"marked {counted(len(marked), 'partition')} as done")


def drop_partition(given: Given) -> int:
    specs = partitions(given)
    snapshots = table_of(given).drop_partitions(specs)
    taken = [snapshot.id for snapshot in snapshots]
    made = f"snapshot {', '.join(map(str, taken))}"
    # A snapshot without changes is committed too, as in Paimon.
    has_dropped = any(snapshot.delta_record_count for snapshot in snapshots)
    text = f"dropped by {made}" if has_dropped else f"these partitions had no rows: {made} is empty"
    return answer(given, {"partitions": specs, "snapshots": taken, "dropped": has_dropped}, text)


def expire_partitions(given: Given) -> int:
    """Drop partitions that are too old; flags override the table's options of the same names."""
    options = pairs(given.get("table-conf", ()))
    options |= {option: given[flag][-1] for flag, option in _EXPIRY.items() if flag in given}
    gone = table_of(given).expire_partitions(options)
    return answer(given, {"partitions": gone}, f"dropped {counted(len(gone), 'partition')}")


_EXPIRY = {
    "expiration-time": "partition.expiration-time",
    "timestamp-formatter": "partition.timestamp-formatter",
    "timestamp-pattern": "partition.timestamp-pattern",
    "expire-strategy": "partition.expiration-strategy",
    "max-expires": "partition.expiration-max-num",
}
