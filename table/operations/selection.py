"""The selection of partitions and buckets that a job works on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.meta.entries import Bucket, ManifestEntry
from penstock.table.meta.store import TableStore
from penstock.table.operations.partition_specs import PartitionSpecs
from penstock.table.read.filter import RowFilter
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.internal import from_internal


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of partitions and buckets; everything unless narrowed.

    Partitions are selected by the values of some columns, by an SQL condition on them, or because they received no rows
    for `idle_millis`; buckets by `buckets`.
    """

    partitions: Sequence[Mapping[str, object]] | None = None
    where: str | None = None
    idle_millis: int | None = None
    buckets: tuple[range, ...] | None = None

    def buckets_of(self, store: TableStore, entries: Iterable[ManifestEntry]) -> list[Bucket]:
        """Return the selected buckets that occur in the entries, sorted.

        Postponed rows are in no bucket and left out. ConfigError when a bucket is asked for that the table cannot have.
        """
        entries = [entry for entry in entries if entry.bucket >= 0]
        if self.buckets is not None:
            _check_buckets(store, self.buckets, entries)
        chosen = self.partitions_of(store, entries)
        places = {
            (entry.partition, entry.bucket)
            for entry in entries
            if self.buckets is None or any(entry.bucket in part for part in self.buckets)
        }
        return sorted(place for place in places if place[0] in chosen)

    def partitions_of(self, store: TableStore, entries: Iterable[ManifestEntry]) -> set[bytes]:
        """Return the selected partitions that occur in the entries."""
        newest: dict[bytes, int] = {}
        for entry in entries:
            newest[entry.partition] = max(newest.get(entry.partition, 0), entry.file.creation_millis or 0)
        chosen = self._of(Layout.of(store.schema()), list(newest), store.name)
        if self.idle_millis is not None:
            # Local time, like the creation times of files.
            since = store.ambient.local_millis() - self.idle_millis
            chosen = {partition for partition in chosen if newest[partition] <= since}
        return chosen

    def _of(self, layout: Layout, partitions: Sequence[bytes], table: str) -> set[bytes]:
        chosen = set(partitions)
        if self.partitions is not None:
            chosen = set(filter(PartitionSpecs.of(layout, self.partitions).covers, chosen))
        if self.where is not None and chosen:
            chosen &= _holding(layout, partitions, self.where, table)
        return chosen


def _check_buckets(store: TableStore, chosen: tuple[range, ...], entries: Sequence[ManifestEntry]) -> None:
    """Refuse numbers above that of the last bucket. If the table's option sets no number, the last one has files."""
    fixed = max(Layout.of(store.schema()).bucket_count, 0)
    # A partition that has not been rescaled yet keeps its own number of buckets.
    count = max([fixed, *(max(entry.total_buckets, entry.bucket + 1) for entry in entries)])
    unknown = [max(part.start, count) for part in chosen if part.stop > count]
    if unknown and count:
        known = "its only bucket is 0" if count == 1 else f"its buckets are 0 to {count - 1}"
        raise ConfigError(
            f"the table has no bucket {min(unknown)}",
            table=store.name,
            hint=f"{known}; leave the buckets out to compact all",
        )


def _holding(layout: Layout, partitions: Sequence[bytes], where: str, table: str) -> set[bytes]:
    if not layout.schema.partition_keys:
        raise ConfigError(
            "the table has no partitions to select by a condition",
            table=table,
            condition=where,
            hint="leave the condition out",
        )
    # The partitions become rows of their values, on which the condition is evaluated like that of a query.
    values = zip(*(layout.partition_values(partition) for partition in partitions), strict=True)
    fields = layout.partition_fields
    columns = [from_internal(column, field.type) for column, field in zip(values, fields, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(fields))
    try:
        held = RowFilter(where).mask(batch).to_pylist()
    except ConfigError as reason:
        raise ConfigError(
            reason.message,
            table=table,
            condition=where,
            hint=f"the condition may use {', '.join(batch.schema.names)} only; texts are written in single quotes",
        ) from reason
    return {partition for partition, holds in zip(partitions, held, strict=True) if holds}


def parse_buckets(text: str) -> tuple[range, ...]:
    """Return the buckets in a text such as `0-9,20`: numbers and inclusive ranges."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        numbers = range(0) if match is None else range(int(match[1]), int(match[2] or match[1]) + 1)
        if not numbers:
            raise ConfigError(f"{text!r} is not a list of buckets", hint="write them as 0-9,20")
        found.append(numbers)
    return tuple(found)
