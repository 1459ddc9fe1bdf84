"""The buckets of a writer's rows: computed from the rows, or for dynamic buckets chosen by an index of the keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.row_kinds import RowKinds
from penstock.table.buckets.bucket_state import TableState
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.buckets.route import Slice, partitions_of, route, slices
from penstock.table.dynamic_buckets.assigner import Assigner
from penstock.table.dynamic_buckets.cross_partition import KeyPlacer
from penstock.table.meta.entries import Bucket, CommitMessage
from penstock.table.meta.store import TableStore
from penstock.table.values.buffers import rows_at


@dataclass(slots=True)
class BucketRoutes:
    """Divides batches by bucket. The assigner and the placer exist only for the kind of buckets that needs them."""

    layout: Layout
    assigner: Assigner | None = None
    placer: KeyPlacer | None = None

    @classmethod
    def opened(cls, store: TableStore, layout: Layout, known: TableState) -> BucketRoutes:
        """Return the routes of a table whose existing keys are those of `known`."""
        match layout.mode:
            case BucketMode.DYNAMIC:
                return cls(layout, assigner=Assigner(store, layout, known))
            case BucketMode.CROSS_PARTITION:
                return cls(layout, placer=KeyPlacer.opened(store, layout, known))
        return cls(layout)

    def divided(self, batch: pa.RecordBatch, kinds: RowKinds) -> Iterator[tuple[Bucket, pa.RecordBatch, RowKinds]]:
        """Yield the rows of each bucket. Keys that leave a partition come as further rows, which delete them there."""
        if self.placer is not None:
            placed = self.placer.place(batch, kinds)
            batch, kinds = placed.rows, placed.kinds
            parts: Iterable[Slice] = slices(placed.partitions, placed.places, placed.buckets)
        else:
            parts = self._slices(batch)
        for part in parts:
            # A batch whose rows all go to one bucket is not copied.
            whole = len(part.rows) == batch.num_rows
            rows = batch if whole else rows_at(batch, part.rows)
            yield (part.partition, part.bucket), rows, kinds if whole else kinds[part.rows]

    def _slices(self, batch: pa.RecordBatch) -> Iterator[Slice]:
        if self.assigner is None:
            return route(self.layout, batch)
        partitions, places = partitions_of(self.layout, batch)
        return slices(partitions, places, self.assigner.assign(batch, partitions, places))

    def with_index(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """Return the messages with the indexes of the keys that were assigned."""
        return list(messages) if self.assigner is None else self.assigner.with_index(messages)
