"""Buckets for keys that have none: existing ones with room first, then new ones up to the limit (table-format 6.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.table.schema.options import Options
from penstock.table.schema.table_schema import TableSchema

MOST_BUCKETS = 32767


@dataclass(frozen=True, slots=True)
class Room:
    """`target`: keys a bucket should hold; `most`: buckets a partition may have. Of `writers` side by side each opens
    only buckets of its own number modulo `writers`, so that a bucket never has two; one whose number is beyond `most`
    shares a bucket with another.
    """

    target: int
    most: int
    writer: int = 0
    writers: int = 1

    @classmethod
    def of(cls, schema: TableSchema, writer: int = 0, writers: int = 1) -> Room:
        options = Options(schema.options)
        limit = options.integer("dynamic-bucket.max-buckets", -1)
        target = options.integer("dynamic-bucket.target-row-num", 2_000_000)
        return cls(target, MOST_BUCKETS if limit < 0 else limit, writer, writers)

    def buckets(self, counts: Mapping[int, int], rows: int) -> npt.NDArray[np.int32]:
        """For so many new keys of a partition whose buckets hold `counts` keys."""
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
