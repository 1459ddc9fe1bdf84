"""The minimum and maximum partition of a manifest's entries, which allow readers to skip whole manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from penstock.table.meta.data_file import EMPTY_STATS, ColumnStats
from penstock.table.values.binary_row import decode_row, encode_row
from penstock.table.values.internal import order_value
from penstock.table.values.types import DataType


def partition_stats(partitions: Iterable[bytes], types: Sequence[DataType]) -> ColumnStats:
    """Return the statistics of the entries' partitions, one per entry.

    The nulls of a partition are counted once per entry that has the partition.
    """
    if not types:
        return EMPTY_STATS
    counted = Counter(partitions)
    rows = [decode_row(partition, types) for partition in counted]
    least: list[object] = []
    greatest: list[object] = []
    nulls = []
    for place, type_ in enumerate(types):
        values = sorted((row[place] for row in rows if row[place] is not None), key=lambda v: order_value(v, type_))
        least.append(values[0] if values else None)
        greatest.append(values[-1] if values else None)
        nulls.append(sum(times for row, times in zip(rows, counted.values(), strict=True) if row[place] is None))
    return ColumnStats(encode_row(least, types), encode_row(greatest, types), tuple(nulls))


def may_hold(stats: ColumnStats, partitions: Iterable[bytes], types: Sequence[DataType]) -> bool:
    """Return whether any of the partitions is within the statistics; True if the statistics are incomplete."""
    if not types or len(stats.null_counts) != len(types):
        return True
    least, greatest = decode_row(stats.min_values, types), decode_row(stats.max_values, types)

    def within(place: int, value: object) -> bool:
        if value is None:
            return stats.null_counts[place] != 0
        if least[place] is None:
            return False
        low, high = order_value(least[place], types[place]), order_value(greatest[place], types[place])
        return low <= order_value(value, types[place]) <= high

    return any(
        all(within(place, value) for place, value in enumerate(decode_row(partition, types)))
        for partition in partitions
    )
