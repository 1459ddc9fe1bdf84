"""One round of a table's maintenance, to be called regularly: by a pipeline, a writer after its commit, or a script.

It includes the expiry of consumers that stopped reading, which would otherwise protect snapshots from expiry for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.errors import PenstockError
from penstock.table.maintenance.automatic_tags import AutomaticTags, create_batch_tag, create_idle_snapshot
from penstock.table.maintenance.done_partitions import mark_due, mark_written, watermark_time
from penstock.table.maintenance.file_deletion import ExpiryResult
from penstock.table.maintenance.partition_expiry import PartitionExpiry, expire_partitions
from penstock.table.maintenance.retention import Retention
from penstock.table.maintenance.snapshot_expiry import expire_when_due
from penstock.table.maintenance.tag_deletion import expire_tags
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.options.commits import CONSUMER_EXPIRATION_TIME
from penstock.table.options.compaction import WRITE_ONLY
from penstock.table.options.partitions import (
    END_INPUT_CHECK_PARTITION_EXPIRE,
    PARTITION_EXPIRATION_CHECK_INTERVAL,
    TAG_TIME_EXPIRE_ENABLED,
)
from penstock.table.schema.table_schema import TableSchema

MOST_TAGS = 50  # expired in one round

log = logging.getLogger(__name__)


def expire_consumers(store: TableStore, older_than: int | None = None) -> list[str]:
    """Delete the consumers that have not moved since `older_than`, or for `consumer.expiration-time`; return their ids.

    Nothing is deleted if neither is set. A consumer without a modification time in the store is kept.
    """
    if older_than is None:
        idle = store.schema().typed[CONSUMER_EXPIRATION_TIME]
        if idle is None:
            return []
        older_than = store.ambient.now_millis() - idle
    files = ConsumerFiles(store.storage, store.paths.root, store.paths.branch)
    over = [consumer.id for consumer in files.all() if 0 < consumer.modified < older_than]
    for consumer_id in over:
        files.delete(consumer_id)
    return over


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The result of a maintenance round. Pass it to the next round, which reads from it when partitions are due."""

    consumers: tuple[str, ...] = ()
    expired: ExpiryResult = field(default_factory=ExpiryResult)
    partitions: tuple[dict[str, object], ...] = ()
    marked_done: tuple[dict[str, object], ...] = ()
    tags: tuple[str, ...] = ()
    tags_over: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    partitions_checked: int | None = None
    done_checked: int | None = None
    done_watermark: int | None = None
    done_snapshot: int | None = None
    oldest: Snapshot | None = None

    @property
    def did_something(self) -> bool:
        """Return whether the round changed the table."""
        swept = self.expired.snapshots or self.expired.changelogs
        return bool(self.consumers or swept or self.partitions or self.marked_done or self.tags or self.tags_over)


def keep_up(
    store: TableStore,
    last: Upkeep | None = None,
    *,
    seconds: float = 60.0,
    committed: Snapshot | None = None,
    write_only: bool | None = None,
    schema_id: int | None = None,
) -> Upkeep:
    """Expire everything the table's options allow to expire, and create the tags that are due.

    In this order: consumers, snapshots and long-lived changelogs, partitions, marks of done partitions, automatic tags,
    expired tags.

    Never raises errors of the table or the store: a step that fails is reported in `failures` and in the log, and the
    other steps still run. Bounded: every step does what its options allow at once (`snapshot.expire.limit`,
    `partition.expiration-max-num`), and no step starts after `seconds`. The clock is the store's (`ambient`). A further
    call continues where this one ended. May run at the same time as writers and other rounds.

    Call it regularly, both after commits and while the table is idle: an idle table also expires, drops partitions and
    gets its tags by the clock (an empty snapshot is committed for such a tag, as in Paimon). `last` is the result of
    the previous round: with it partitions are checked every `partition.expiration-check-interval`, without it at once.
    `committed` is the batch commit that was just made: tags of mode `batch` are created for it. A `write-only` table is
    skipped, as in Paimon, unless `write_only` is False (a compaction job). `schema_id` is that of the
    newest schema if the caller has just read it.
    """
    last, now = last or Upkeep(), store.ambient.now_millis()
    run = _Round(store, store.ambient.elapsed_millis() + int(seconds * 1000))
    try:
        # Read once for all steps: each time costs two requests.
        schema = store.schema() if schema_id is None else store.schemas.get(schema_id)
        skipped = schema.typed[WRITE_ONLY] if write_only is None else write_only
    except (PenstockError, OSError) as error:
        run.fail("options", error)
    else:
        if not skipped:
            _take_steps(run, schema, last, committed, now)
    done = run.done
    # A step that was not due, or failed, keeps its time of the last round.
    if done.partitions_checked is None:
        done = replace(done, partitions_checked=last.partitions_checked)
    if done.done_checked is not None:
        return done
    return replace(
        done,
        done_checked=last.done_checked,
        done_watermark=last.done_watermark,
        done_snapshot=last.done_snapshot,
    )


def after_compaction(store: TableStore, last: Upkeep | None = None, *, seconds: float = 60.0) -> None:
    """Maintain a compacted table, also a `write-only` one, in rounds until no snapshot is due or the time is over.

    Nobody else expires snapshots of a `write-only` table. Between two compactions its writers may commit more often
    than snapshots expire in one round.
    """
    until = store.ambient.elapsed_millis() + int(seconds * 1000)
    done = keep_up(store, last, seconds=seconds, write_only=False)
    while done.expired.is_limited and store.ambient.elapsed_millis() < until:
        done = keep_up(store, done, seconds=seconds, write_only=False)


def after_commit(store: TableStore) -> Callable[[Snapshot, bool], None]:
    """Return the function a writer calls after each of its commits, as in Paimon.

    It runs a maintenance round that checks partitions every `partition.expiration-check-interval`, starting now.
    """
    last = Upkeep(partitions_checked=store.ambient.now_millis())

    def committed(snapshot: Snapshot, alone: bool) -> None:
        nonlocal last
        # The commit has read the newest schema.
        last = keep_up(store, last, committed=snapshot if alone else None, schema_id=snapshot.schema_id)

    return committed


def _take_steps(run: _Round, schema: TableSchema, last: Upkeep, committed: Snapshot | None, now: int) -> None:
    store, options = run.store, schema.typed

    def without_idle_consumers(done: Upkeep) -> Upkeep:
        idle = options[CONSUMER_EXPIRATION_TIME]
        return done if idle is None else replace(done, consumers=tuple(expire_consumers(store, now - idle)))

    def without_old_snapshots(done: Upkeep) -> Upkeep:
        expired, kept = expire_when_due(store, Retention.of(schema.options), now, last.oldest)
        return replace(done, expired=expired, oldest=kept)

    def without_old_partitions(done: Upkeep) -> Upkeep:
        if not _partitions_are_due(schema, last, now, committed):
            return done
        return replace(done, partitions=tuple(expire_partitions(store)), partitions_checked=now)

    def without_old_tags(done: Upkeep) -> Upkeep:
        over = expire_tags(store, MOST_TAGS) if options[TAG_TIME_EXPIRE_ENABLED] else ()
        return replace(done, tags_over=tuple(over))

    # First, so that snapshots which only an idle consumer protected expire in the same round.
    run.step("consumers", without_idle_consumers)
    run.step("snapshots", without_old_snapshots)
    run.step("partitions", without_old_partitions)
    if schema.partition_keys:
        run.step("done", lambda done: _with_marks(store, done, last, committed))
    run.step("tags", lambda done: replace(done, tags=tuple(_create_tags(store, schema, committed))))
    run.step("tags over", without_old_tags)


@dataclass(slots=True)
class _Round:
    """The steps of one maintenance round, and their results so far."""

    store: TableStore
    deadline: int
    done: Upkeep = field(default_factory=Upkeep)

    def step(self, name: str, work: Callable[[Upkeep], Upkeep]) -> None:
        """Run a step unless the time is over. A failure is recorded and does not stop the round."""
        if self.store.ambient.elapsed_millis() >= self.deadline:
            return
        try:
            self.done = work(self.done)
        except (PenstockError, OSError) as error:
            self.fail(name, error)

    def fail(self, name: str, error: Exception) -> None:
        log.warning("event=maintenance_failed table=%s step=%s reason=%s", self.store.name, name, error)
        self.done = replace(self.done, failures=(*self.done.failures, f"{name}: {error}"))


def _partitions_are_due(schema: TableSchema, last: Upkeep, now: int, committed: Snapshot | None) -> bool:
    if not schema.partition_keys or PartitionExpiry.of(schema.options) is None:
        return False
    options = schema.typed
    if committed is not None and options[END_INPUT_CHECK_PARTITION_EXPIRE]:
        return True
    every = options[PARTITION_EXPIRATION_CHECK_INTERVAL]
    return last.partitions_checked is None or now - last.partitions_checked >= every


def _with_marks(store: TableStore, done: Upkeep, last: Upkeep, committed: Snapshot | None) -> Upkeep:
    checked, watermark, newest = store.ambient.local_millis(), watermark_time(store), store.snapshots.latest_id()
    marked = mark_written(store, committed) if committed is not None else []
    marked += mark_due(store, last.done_checked, last.done_watermark, last.done_snapshot)
    return replace(
        done, marked_done=tuple(marked), done_checked=checked, done_watermark=watermark, done_snapshot=newest or 0
    )


def _create_tags(store: TableStore, schema: TableSchema, committed: Snapshot | None) -> list[str]:
    if committed is not None:
        name = create_batch_tag(store)
        if name is not None:
            return [name]
    automatic = AutomaticTags.of(store, schema)
    if automatic is None:
        return []
    newest = automatic.newest()
    if automatic.snapshot_is_wanted(newest):
        create_idle_snapshot(store)
    return automatic.create_due(newest)
