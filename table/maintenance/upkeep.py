"""One round of a table's maintenance, for whoever has a clock: a pipeline, a writer after its commit, a script."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.errors import PenstockError
from penstock.table.maintenance.automatic_tags import AutomaticTags, create_batch_tag, create_idle_snapshot
from penstock.table.maintenance.consumers import expire_consumers
from penstock.table.maintenance.done_partitions import mark_due, mark_written
from penstock.table.maintenance.partition_expiry import PartitionExpiry, expire_partitions
from penstock.table.maintenance.snapshot_expiry import Expired, expire_snapshots
from penstock.table.maintenance.tags import expire_tags
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.schema.options import Options

HOUR = 3_600_000
MOST_TAGS = 50  # that end in one round

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What a round did, and what it could not do. Give it to the next round: it knows when partitions are due."""

    consumers: tuple[str, ...] = ()
    expired: Expired = field(default_factory=Expired)
    partitions: tuple[dict[str, object], ...] = ()
    marked_done: tuple[dict[str, object], ...] = ()
    tags: tuple[str, ...] = ()
    tags_over: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    partitions_checked: int | None = None
    done_checked: int | None = None

    @property
    def did_something(self) -> bool:
        swept = self.expired.snapshots or self.expired.changelogs
        return bool(self.consumers or swept or self.partitions or self.marked_done or self.tags or self.tags_over)


def keep_up(
    store: TableStore,
    last: Upkeep | None = None,
    *,
    seconds: float = 60.0,
    committed: Snapshot | None = None,
    write_only: bool | None = None,
) -> Upkeep:
    """Let expire what its options let expire, and make the tags that are due: consumers, snapshots and long-lived
    changelogs, partitions, marks of partitions that are done, automatic tags, tags whose time is over.

    Never raises what a table or a store can raise: a step that fails is told in `failures` and in the log, and the
    others are taken all the same. Bounded: every step does what its options allow at once (`snapshot.expire.limit`,
    `partition.expiration-max-num`), and none begins when `seconds` are spent. The clock is the store's (`ambient`).
    Called again: goes on where it ended. May run beside writers and beside other rounds.

    Call it on a clock, after commits or while a table rests: a resting table expires, drops partitions and gets its
    tags by the clock too (an empty snapshot is made for such a tag, as Paimon makes one). `last` is what the round
    before gave: with it partitions are looked at every `partition.expiration-check-interval`, without it at once.
    `committed` tells of a batch commit that came just before: tags of mode `batch` are made for it.
    A table of `write-only` is left alone, as Paimon leaves it, unless `write_only` is False (a compaction job).
    """
    values, now = store.schema().options, store.ambient.now_millis()
    last = last or Upkeep()
    only = Options(values).boolean("write-only", default=False) if write_only is None else write_only
    if only:
        return Upkeep(partitions_checked=last.partitions_checked, done_checked=last.done_checked)
    run = _Round(store, now + int(seconds * 1000))
    run.step("consumers", lambda done: replace(done, consumers=tuple(expire_consumers(store))))
    run.step("snapshots", lambda done: replace(done, expired=expire_snapshots(store)))
    if _partitions_are_due(store, last, now, committed):
        run.step("partitions", lambda done: _without_old_partitions(store, done, now))
    run.step("done", lambda done: _with_marks(store, done, last.done_checked, committed))
    run.step("tags", lambda done: replace(done, tags=tuple(_create_tags(store, committed))))
    if Options(values).boolean("tag.time-expire-enabled", default=True):
        run.step("tags over", lambda done: replace(done, tags_over=tuple(expire_tags(store, MOST_TAGS))))
    done = run.done
    if done.partitions_checked is None:
        done = replace(done, partitions_checked=last.partitions_checked)
    return done if done.done_checked is not None else replace(done, done_checked=last.done_checked)


def after_commit(store: TableStore) -> Callable[[Snapshot, bool], None]:
    """What a writer does after each of its commits, as Paimon's does: a round, in which partitions are looked at every
    `partition.expiration-check-interval` from now on.
    """
    last = Upkeep(partitions_checked=store.ambient.now_millis())

    def committed(snapshot: Snapshot, alone: bool) -> None:
        nonlocal last
        last = keep_up(store, last, committed=snapshot if alone else None)

    return committed


@dataclass(slots=True)
class _Round:
    store: TableStore
    deadline: int
    done: Upkeep = field(default_factory=Upkeep)

    def step(self, name: str, take: Callable[[Upkeep], Upkeep]) -> None:
        if self.store.ambient.now_millis() >= self.deadline:
            return
        try:
            self.done = take(self.done)
        except (PenstockError, OSError) as error:
            log.warning("event=maintenance_failed table=%s step=%s reason=%s", self.store.name, name, error)
            self.done = replace(self.done, failures=(*self.done.failures, f"{name}: {error}"))


def _partitions_are_due(store: TableStore, last: Upkeep, now: int, committed: Snapshot | None) -> bool:
    schema = store.schema()
    if not schema.partition_keys or PartitionExpiry.of(schema.options) is None:
        return False
    options = Options(schema.options)
    if committed is not None and options.boolean("end-input.check-partition-expire", default=False):
        return True
    every = options.duration("partition.expiration-check-interval", HOUR)
    return last.partitions_checked is None or now - last.partitions_checked >= every


def _without_old_partitions(store: TableStore, done: Upkeep, now: int) -> Upkeep:
    return replace(done, partitions=tuple(expire_partitions(store)), partitions_checked=now)


def _with_marks(store: TableStore, done: Upkeep, since: int | None, committed: Snapshot | None) -> Upkeep:
    if not store.schema().partition_keys:
        return done
    checked = store.ambient.local_millis()
    marked = [*(mark_written(store, committed) if committed is not None else ()), *mark_due(store, since)]
    return replace(done, marked_done=tuple(marked), done_checked=checked)


def _create_tags(store: TableStore, committed: Snapshot | None) -> list[str]:
    if committed is not None:
        name = create_batch_tag(store)
        if name is not None:
            return [name]
    automatic = AutomaticTags.of(store)
    if automatic is None:
        return []
    if automatic.snapshot_is_wanted():
        create_idle_snapshot(store)
    return automatic.create_due()
