"""Paimon's actions on partitions: drop, expire, mark as done."""

from __future__ import annotations

from penstock.errors import counted
from penstock.ingest.sync_actions import pairs
from penstock.pipelines.commands.arguments import Flags
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.target import partitions, table_of


def mark_partition_done(flags: Flags) -> int:
    marked = table_of(flags).mark_partitions_done(partitions(flags))
    return answer(flags, {"partitions": marked}, f"marked {counted(len(marked), 'partition')} as done")


def drop_partition(flags: Flags) -> int:
    specs = partitions(flags)
    snapshots = table_of(flags).drop_partitions(specs)
    taken = [snapshot.id for snapshot in snapshots]
    made = f"snapshot {', '.join(map(str, taken))}"
    # A snapshot without changes is committed too, as in Paimon.
    has_dropped = any(snapshot.delta_record_count for snapshot in snapshots)
    text = f"dropped by {made}" if has_dropped else f"these partitions had no rows: {made} is empty"
    return answer(flags, {"partitions": specs, "snapshots": taken, "dropped": has_dropped}, text)


def expire_partitions(flags: Flags) -> int:
    """Drop partitions that are too old; flags override the table's options of the same names."""
    options = pairs(flags.get("table-conf", ()))
    options |= {option: flags[flag][-1] for flag, option in _EXPIRY.items() if flag in flags}
    gone = table_of(flags).expire_partitions(options)
    return answer(flags, {"partitions": gone}, f"dropped {counted(len(gone), 'partition')}")


_EXPIRY = {
    "expiration-time": "partition.expiration-time",
    "timestamp-formatter": "partition.timestamp-formatter",
    "timestamp-pattern": "partition.timestamp-pattern",
    "expire-strategy": "partition.expiration-strategy",
    "max-expires": "partition.expiration-max-num",
}
