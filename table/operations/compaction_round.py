"""One round of compaction over several tables: all units run together, and each table has its own commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from penstock.errors import CommitConflict, PenstockError, TableCorrupt
from penstock.table.buckets.bucket_files import discard
from penstock.table.commit.committer import Committer
from penstock.table.commit.seen_files import check_seen
from penstock.table.meta.entries import CommitMessage
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.bucket_compaction import BucketCompaction, BucketUnit
from penstock.table.operations.compact import assign_rows
from penstock.table.operations.executor import Executor
from penstock.table.operations.selection import Selection

Failure = PenstockError | OSError


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """The outcome of a round for a table: its snapshots, or the error of the table, which is then unchanged.

    CommitConflict means that another job was faster: the next round plans again.
    """

    snapshots: tuple[Snapshot, ...] = ()
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class TableUnit:
    """A bucket of one of the tables."""

    table: str
    compaction: BucketCompaction
    bucket: BucketUnit

    @property
    def size(self) -> int:
        """Return the number of bytes of its files."""
        return self.bucket.size


@dataclass(slots=True)
class _TablePart:
    committer: Committer
    base: Snapshot
    assigned: list[Snapshot]
    units: list[TableUnit]
    messages: list[CommitMessage] = field(default_factory=list)
    error: Failure | None = None


def compact_round(
    stores: Mapping[str, TableStore],
    executor: Executor,
    *,
    full: bool = False,
    only: Selection | None = None,
    options: Mapping[str, str] | None = None,
) -> dict[str, TableOutcome]:
    """Compact the due buckets of each table, or with `full` all buckets, and return the outcome by table.

    An error of one table does not keep the others from being compacted. An error of the executor is raised, and nothing
    is committed.
    """
    outcomes: dict[str, TableOutcome] = {}
    parts: dict[str, _TablePart] = {}
    for name, store in stores.items():
        try:
            part = _part(name, store, only or Selection(), options, full=full)
        except (PenstockError, OSError) as error:
            outcomes[name] = TableOutcome(error=error)
        else:
            if part is not None:
                parts[name] = part
    try:
        for name, found in executor.run(_attempted, [unit for part in parts.values() for unit in part.units]):
            if isinstance(found, PenstockError | OSError):
                parts[name].error = parts[name].error or found
            elif found is not None:
                check_seen(parts[name].committer.store, [found])
                parts[name].messages.append(found)
    except BaseException:
        for part in parts.values():
            discard(part.committer.store, part.messages)
        raise
    return outcomes | {name: _outcome(part) for name, part in parts.items()}


def _part(
    name: str, store: TableStore, only: Selection, options: Mapping[str, str] | None, *, full: bool
) -> _TablePart | None:
    planned = partial(BucketCompaction.of, store, options, full=full)
    committer = Committer(store, store.new_commit_user())
    assigned = assign_rows(committer, planned, only)
    base = store.snapshots.latest()
    if base is None:
        return None
    compaction = planned()
    units = [TableUnit(name, compaction, unit) for unit in compaction.units(base, only)]
    return _TablePart(committer, base, assigned, units)


def _attempted(unit: TableUnit) -> tuple[str, CommitMessage | Failure | None]:
    """Compact a bucket. An error is a result, because it concerns one table of several."""
    try:
        return unit.table, unit.compaction(unit.bucket)
    except (PenstockError, OSError) as error:
        return unit.table, error


def _outcome(part: _TablePart) -> TableOutcome:
    store, error = part.committer.store, part.error
    try:
        if error is None and part.messages:
            done = part.committer.commit(part.messages, BATCH_IDENTIFIER)
            if done.lost_compaction is None:
                return TableOutcome((*part.assigned, *done.snapshots))
            error = done.lost_compaction
        discard(store, part.messages)
        if isinstance(error, TableCorrupt) and not store.snapshots.exists(part.base.id):
            error = CommitConflict(
                "the snapshot expired while its files were compacted",
                table=store.name,
                hint="run it again, and keep snapshots longer than a compaction lasts (snapshot.time-retained)",
            )
    except (PenstockError, OSError) as reason:
        # Whether the commit took effect may be unknown, so no file is deleted.
        error = reason
    return TableOutcome(tuple(part.assigned), error)
