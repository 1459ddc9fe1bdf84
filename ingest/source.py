"""Offsets and ranges: the definition of a source's batch, such that reading it again yields the same rows.

Offsets are a JSON object that only their source interprets; Spark stores them in its checkpoint, and Paimon snapshots
contain them in their properties. A range is one part of the data between two offsets, read by one task. A source may
also yield changes of whole tables, which are barriers between batches. To compare its tables with their targets, it
may read them as of a position.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from penstock.errors import SourceError

if TYPE_CHECKING:
    from penstock.formats.change import ChangeBatch, SourceSchema

Offsets: TypeAlias = dict[str, Any]

# In records. Below that, the fixed cost of a task outweighs the gain of a second core.
SMALLEST_PIECE = 20_000
# Up to this size a batch is read and written by one task: a shuffle costs more time than other tasks would save.
SMALL_RECORDS = 10_000
SMALL_BYTES = 2 << 20
# How many times as large a batch may be that the driver reads and writes itself instead of starting Spark: one process
# needs about ten seconds for it, no longer than Spark on two cores with its start, and less than half of the CPU.
TIMES_SMALL = 100


@dataclass(frozen=True, slots=True)
class Limit:
    """The maximum size of one batch; None is unlimited."""

    rows: int | None = None
    bytes: int | None = None


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True)
class Range:
    """One slice of a source: reading it twice yields the same rows in the same order.

    `number` orders the ranges of one batch; rows of the same key are ordered by (number, position, sub). `place` is for
    people: topic/partition, file, table. `start` and `end` are JSON values of the source, `end` exclusive; `weight` is
    the amount of work, in a unit of the source. `mark` tells a reader what the place was when the range was planned.
    """

    number: int
    place: str
    start: Any
    end: Any
    weight: int = 1
    mark: str = field(default="", compare=False)

    def to_json(self) -> str:
        marks = [self.mark] if self.mark else []
        return json.dumps([self.number, self.place, self.start, self.end, self.weight, *marks], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Range:
        return cls(*json.loads(text))


class Source(Protocol):
    """A source of changes. Contains only settings, so it pickles; connects at the first call.

    `plan` between the same offsets always covers the same changes, though it may cut them differently. If the server no
    longer has a position, the first call that needs it raises PositionLost.
    """

    def initial_offsets(self) -> Offsets:
        """Return the start of a pipeline without a checkpoint.

        Called again after a crash in the first batch, so constant.
        """
        ...

    def available(self) -> Offsets:
        """Return the current end, which is the target of a bounded run."""
        ...

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the end of a batch that begins at `start`, not beyond `until`.

        Returns `start` itself if there is nothing to read.
        """
        ...

    def plan(self, start: Offsets, end: Offsets, tasks: int) -> list[Range]:
        """Return the ranges between two offsets in order, cut so that about `tasks` tasks share them evenly."""
        ...

    def lag(self, offsets: Offsets) -> dict[str, int]:
        """Return, by place, how many records (or bytes, depending on the source) follow `offsets` now."""
        ...

    def mirror(self, offsets: Offsets) -> None:
        """Publish the progress of the tables, if the source can store it. Best effort: never raises."""
        ...

    def close(self) -> None: ...


def canonical(offsets: Offsets) -> str:
    """Return the canonical text of offsets: equal offsets have equal text."""
    return json.dumps(offsets, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def shares(available: Mapping[str, int], limit: int) -> dict[str, int]:
    """Divide `limit` among places in proportion to their counts; each place with a count above 0 gets at least 1."""
    total = sum(available.values())
    if total <= limit:
        return dict(available)
    granted = {place: min(count, max(1, count * limit // total)) if count else 0 for place, count in available.items()}
    # less than one per place; without it the last batch would consist of these remainders
    rest = limit - sum(granted.values())
    for place in sorted(available, key=lambda place: (-(available[place] * limit % total), place)):
        if rest > 0 and granted[place] < available[place]:
            granted[place] += 1
            rest -= 1
    return granted


def cut(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield [start, end) in even pieces of about `size`, without a small rest at the end."""
    count = max(1, round((end - start) / size))
    yield from itertools.pairwise(start + (end - start) * piece // count for piece in range(count + 1))


def piece_size(lengths: Sequence[int], tasks: int, smallest: int = SMALLEST_PIECE) -> int:
    """Return the length of pieces with which `tasks` tasks share all lengths evenly, but at least `smallest`."""
    return max(smallest, -(-sum(lengths) // max(1, tasks)))


def grouped(ranges: Sequence[Range], tasks: int) -> list[list[Range]]:
    """Group neighbouring ranges into about `tasks` groups of equal weight.

    So many small partitions of a source do not become as many tasks.
    """
    share = sum(range_.weight for range_ in ranges) / max(1, tasks)
    groups: list[list[Range]] = []
    room = 0.0
    for range_ in ranges:
        # A range joins the group if at least half of it fits, so that groups are too large as often as too small.
        if not groups or range_.weight / 2 > room:
            groups.append([])
            room = share
        groups[-1].append(range_)
        room -= range_.weight
    return groups


BarrierKind = Literal["truncate", "drop", "read-again", "rename-columns", "added-columns", "changed-values"]

# The kinds that only ask for a table to be read again.
SILENT_VALUES: frozenset[BarrierKind] = frozenset({"added-columns", "changed-values"})


@dataclass(frozen=True, slots=True)
class Barrier:
    """A change of a whole source table, which cannot be expressed as rows.

    A batch ends before such a change, and the change has a separate batch. `read-again` is no change of the source: the
    target is emptied, because all of its source tables are read again. `columns` are pairs of old and new names,
    all renamed at once. `added-columns` may come with other changes: the table has new columns with values in older
    rows, which no change contains, and is to be read again. Both names of its pairs are the same.
    """

    kind: BarrierKind
    database: str
    table: str
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ComparisonPoint:
    """A position of the source, whose rows can be read as they were there. `text` is its form in messages."""

    offsets: Offsets
    text: str


@runtime_checkable
class SmallBatchSource(Protocol):
    """A source that knows which of its batches are small. Batches of other sources count as large."""

    def small_weight(self) -> int:
        """Return the largest sum of weights of the ranges of a small batch."""
        ...


@runtime_checkable
class ConfirmingSource(Protocol):
    """A source whose places may get other data after a plan, which a read of the planned ranges does not notice."""

    def confirm(self, ranges: Sequence[Range], end: Offsets) -> None:
        """Raise a SourceError unless these ranges have been read from the places that were planned.

        Called after they were read and before their rows are committed. `end` is the end of their batch.
        """
        ...


@runtime_checkable
class RereadableSource(Protocol):
    """A source that keeps the rows of its tables, and can read a table again while changes continue."""

    def filled_columns(self, table: tuple[str, str], columns: Collection[str]) -> list[str]:
        """Return the columns, among these new ones, that have values in rows that are older than the column.

        These are columns with a default, generated ones, and those that cannot be null. The source's log does not
        show their values. Empty if the pipeline does not read the rows that tables had. Columns for which the source
        makes a barrier itself are left out.
        """
        ...

    def read_again(self, table: tuple[str, str]) -> None:
        """Read the table again with the next batches. A request that is repeated reads it once more."""
        ...


class PastUnknown(SourceError):
    """The log does not contain the rows of a table as of a position."""


@runtime_checkable
class ReleasableSource(Protocol):
    """A `ComparableSource` whose server keeps something for it while tables are compared."""

    def release(self) -> None:
        """Let the server drop the data that it keeps."""
        ...


class ComparableSource(Protocol):
    """A source that keeps the rows of its tables, and can read them as of a position that a pipeline has reached."""

    def tables(self) -> list[SourceSchema]:
        """Return the captured tables."""
        ...

    def newest(self, reached: Sequence[Offsets]) -> ComparisonPoint | None:
        """Return the newest of these positions, None if nothing was read yet.

        A retryable SourceError if the tables are still being read: they represent no single position then.
        """
        ...

    def rows_at(self, table: SourceSchema, point: ComparisonPoint) -> Iterator[tuple[ChangeBatch, Mapping[str, int]]]:
        """Yield the rows of a table as of the position, and the counts of values that were set to null by rules."""
        ...
