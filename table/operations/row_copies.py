"""The rows of splits written again, as other rows or into other buckets: units of delete, rescale and clone.

A unit has all splits whose rows can reach its buckets, so each bucket of the target has one writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd

import numpy as np

from penstock.errors import CommitConflict, PenstockError, TableCorrupt
from penstock.row_kinds import INSERT
from penstock.table.buckets.bucket_files import discard
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.commit.seen_files import check_seen
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.executor import Executor
from penstock.table.operations.write import TableWriter
from penstock.table.read.scan import Scan
from penstock.table.read.splits import Split


@dataclass(frozen=True, slots=True)
class SplitsUnit:
    """Splits whose rows are written by one writer."""

    splits: tuple[Split, ...]

    @property
    def size(self) -> int:
        """Return the number of bytes of their files."""
        return sum(split.size for split in self.splits)


@dataclass(frozen=True, slots=True)
class RowCopies:
    """Writes the rows of splits by a writer of its own, as rows of one kind, and prepares their commit."""

    scan: Scan
    open_writer: Callable[[], TableWriter]
    kind: int = INSERT

    def __call__(self, unit: SplitsUnit) -> list[CommitMessage]:
        """Return the commit messages. A process that dies half way leaves orphan files."""
        with self.open_writer() as writer:
            found = False
            for batch in (batch for split in unit.splits for batch in self.scan.read(split)):
                writer.write(batch, np.full(batch.num_rows, self.kind, np.int8))
                found = found or batch.num_rows > 0
            # Without rows there is nothing to commit, even if a full compaction is due.
            messages = writer.prepare() if found else []
            # Whoever commits the messages is responsible for their files.
            writer.forget()
            return messages


def copied(
    copies: RowCopies, units: Sequence[SplitsUnit], executor: Executor, target: TableStore
) -> list[CommitMessage]:
    """Return the messages of all units. When a unit fails, the files of the others are deleted."""
    messages: list[CommitMessage] = []
    try:
        for found in executor.run(copies, units):
            check_seen(target, found)
            messages += found
    except PenstockError:
        discard(target, messages)
        raise
    return messages


@contextmanager
def unless_expired(store: TableStore, base: Snapshot) -> Iterator[None]:
    """Raise CommitConflict in place of the error of a file that is gone because the snapshot `base` has expired."""
    try:
        yield
    except TableCorrupt as reason:
        if store.snapshots.exists(base.id):
            raise
        raise CommitConflict(
            f"snapshot {base.id} expired while its rows were read",
            table=store.name,
            hint="run it again; keep snapshots longer by snapshot.time-retained",
        ) from reason


def units_by_bucket(splits: Iterable[Split]) -> list[SplitsUnit]:
    """Return a unit per bucket."""
    return _grouped(splits, lambda split: split.bucket)


def units_by_residue(store: TableStore, snapshot: Snapshot, splits: Iterable[Split], buckets: int) -> list[SplitsUnit]:
    """Return units for a copy into another number of buckets of the same hash.

    A bucket is a hash modulo the number of buckets. So buckets that are equal modulo the greatest common divisor of
    both numbers exchange rows among themselves only.
    """
    divisors: dict[bytes, int] = {}
    for entry in live_entries(store, snapshot):
        # A partition keeps its number until it is overwritten, whatever the option says by now.
        number = max(entry.total_buckets, 1)
        divisors[entry.partition] = gcd(divisors.get(entry.partition, buckets), number)
    return _grouped(splits, lambda split: split.bucket % divisors.get(split.partition, 1))


def one_unit(splits: Iterable[Split]) -> list[SplitsUnit]:
    """Return all splits as one unit."""
    found = tuple(splits)
    return [SplitsUnit(found)] if found else []


def units_between(
    source: TableStore, target: TableStore, snapshot: Snapshot, splits: Sequence[Split]
) -> list[SplitsUnit]:
    """Return units for a copy of one table into another."""
    before, after = Layout.of(source.schema()), Layout.of(target.schema())
    if after.mode is BucketMode.UNAWARE:
        # Any task may write any partition: its files are independent of each other.
        return [SplitsUnit((split,)) for split in splits]
    same = (before.bucket_keys, before.bucket_function, before.schema.partition_keys) == (
        after.bucket_keys,
        after.bucket_function,
        after.schema.partition_keys,
    )
    if before.mode is after.mode is BucketMode.FIXED and same:
        return units_by_residue(source, snapshot, splits, after.bucket_count)
    return one_unit(splits)


def _grouped(splits: Iterable[Split], of: Callable[[Split], int]) -> list[SplitsUnit]:
    groups: dict[tuple[bytes, int], list[Split]] = {}
    for split in splits:
        groups.setdefault((split.partition, of(split)), []).append(split)
    return [SplitsUnit(tuple(group)) for group in groups.values()]
