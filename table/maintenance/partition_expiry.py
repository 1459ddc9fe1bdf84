"""Partition expiry, by the time in a partition's values or by its last update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.commit.commit_checks import contents
from penstock.table.commit.committer import Committer
from penstock.table.maintenance.partition_times import PartitionTimes
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.partitions import (
    PARTITION_EXPIRATION_BATCH_SIZE,
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from penstock.table.options.table_options import TableOptions

MOST_AT_ONCE = 10_000
_OF_VALUES = (PARTITION_TIMESTAMP_PATTERN, PARTITION_TIMESTAMP_FORMATTER)


@dataclass(frozen=True, slots=True)
class PartitionExpiry:
    """The expiry of a table's partitions.

    `millis` is how long a partition is kept, counted from the time in its values or from its last rows.
    """

    millis: int
    by_values: bool
    times: PartitionTimes
    most: int
    at_once: int | None  # partitions dropped in one commit

    @classmethod
    def of(cls, values: Mapping[str, str]) -> PartitionExpiry | None:
        """Build from the options of a table; None when partitions do not expire."""
        options = TableOptions(values)
        millis = options[PARTITION_EXPIRATION_TIME]
        if millis is None:
            return None
        by_values = options[PARTITION_EXPIRATION_STRATEGY] == "values-time"
        most = options[PARTITION_EXPIRATION_MAX_NUM]
        batch = options[PARTITION_EXPIRATION_BATCH_SIZE]
        return cls(millis, by_values, PartitionTimes.of(values if by_values else {}), most, batch)


def expire_partitions(store: TableStore, options: Mapping[str, str] | None = None) -> list[dict[str, object]]:
    """Drop the partitions older than `partition.expiration-time`; return their values as text.

    The oldest are dropped first, at most `partition.expiration-max-num`, as one OVERWRITE (or several, see
    `partition.expiration-batch-size`). A partition whose values contain no time is kept; if `options` are given and all
    partitions are such, ConfigError. When rows are added to a partition in the meantime, expiry by values still drops
    it; expiry by update time raises CommitConflict.
    """
    layout = Layout.of(store.schema())
    expiry = _checked_expiry(store, layout, options or {})
    base = store.snapshots.latest()
    if base is None:
        return []
    times = _times(store, layout, base, expiry)
    if options and expiry.by_values and times and set(times.values()) == {None}:
        raise expiry.times.unreadable(layout, min(times))
    # Local time, like the times in partition values and the creation times of files.
    limit = store.ambient.local_millis() - expiry.millis
    old = sorted((at, partition) for partition, at in times.items() if at is not None and at < limit)[: expiry.most]
    partitions = [partition for _, partition in old]
    _drop(store, base, expiry, partitions)
    return [dict(PartitionTimes.texts(layout, partition)) for partition in partitions]


def _checked_expiry(store: TableStore, layout: Layout, options: Mapping[str, str]) -> PartitionExpiry:
    """Return the expiry by the table's options and these; ConfigError if they do not fit the table or each other."""
    expiry = PartitionExpiry.of({**store.schema().options, **options})
    if expiry is None:
        raise ConfigError(
            "the time after which partitions expire is not set",
            table=store.name,
            hint="set the option partition.expiration-time, or expiration_time (--expiration-time)",
        )
    if not layout.schema.partition_keys:
        raise ConfigError(
            "the table has no partitions",
            table=store.name,
            hint="delete old rows by a condition with  penstock delete  or  DELETE FROM",
        )
    unused = [] if expiry.by_values else [option.key for option in _OF_VALUES if option.key in options]
    if unused:
        raise ConfigError(
            "partitions expire by the time of their last update here, whatever times their values contain",
            table=store.name,
            unused=", ".join(unused),
            hint="leave these out, or set partition.expiration-strategy = values-time (expire_strategy)",
        )
    if options:  # tables of other engines may have any pattern, and their partitions do not expire
        expiry.times.check(layout.schema.partition_keys)
    return expiry


def _times(store: TableStore, layout: Layout, base: Snapshot, expiry: PartitionExpiry) -> dict[bytes, int | None]:
    """Return the times of all partitions, by their values or by their newest files; None for values without a time."""
    updated: dict[bytes, int] = {}
    for entry in live_entries(store, base):
        updated[entry.partition] = max(updated.get(entry.partition, 0), entry.file.creation_millis or 0)
    return {
        partition: expiry.times.of_partition(layout, partition) if expiry.by_values else at
        for partition, at in updated.items()
    }


def _drop(store: TableStore, base: Snapshot, expiry: PartitionExpiry, partitions: Sequence[bytes]) -> None:
    committer = Committer(store, store.new_commit_user())
    at_once = expiry.at_once or MOST_AT_ONCE
    for start in range(0, len(partitions), at_once):
        doomed = set(partitions[start : start + at_once])
        # A partition that is old by its values stays old when rows are added; one that is old by its last update
        # does not.
        seen = None if expiry.by_values else contents(store, base, doomed.__contains__)
        committer.overwrite((), doomed.__contains__, seen=seen)
