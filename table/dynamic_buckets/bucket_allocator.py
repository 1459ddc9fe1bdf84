"""Allocation of buckets for new keys: existing buckets that are not full first, then new buckets up to the limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.table.options.buckets import DYNAMIC_BUCKET_MAX_BUCKETS, DYNAMIC_BUCKET_TARGET_ROW_NUM
from penstock.table.schema.table_schema import TableSchema

MOST_BUCKETS = 32767


@dataclass(frozen=True, slots=True)
class BucketAllocator:
    """The buckets that a writer may fill: up to `target` keys per bucket and `most` buckets per partition.

    Of `writers` parallel writers each opens only buckets whose number modulo `writers` is its own number, so a bucket
    never has two writers. A writer whose number is beyond `most` shares a bucket with another.
    """

    target: int
    most: int
    writer: int = 0
    writers: int = 1

    @classmethod
    def of(cls, schema: TableSchema, writer: int = 0, writers: int = 1) -> BucketAllocator:
        """Return the limits that a table's options set."""
        options = schema.typed
        limit = options[DYNAMIC_BUCKET_MAX_BUCKETS]
        target = options[DYNAMIC_BUCKET_TARGET_ROW_NUM]
        return cls(target, MOST_BUCKETS if limit < 0 else limit, writer, writers)

    def buckets(self, counts: Mapping[int, int], rows: int) -> npt.NDArray[np.int32]:
        """Return a bucket for each of `rows` new keys of a partition whose buckets contain `counts` keys."""
        chosen = np.empty(rows, np.int32)
        done = 0
        for bucket in range(self.writer, self.most, self.writers):
            room = min(rows - done, self.target - counts.get(bucket, 0))
            if room > 0:
                chosen[done : done + room] = bucket
                done += room
            if done == rows:
                return chosen
        own = [bucket for bucket in counts if bucket % self.writers == self.writer] or [self.writer % self.most]
        chosen[done:] = np.asarray(own, np.int32)[np.arange(rows - done) % len(own)]
        return chosen
