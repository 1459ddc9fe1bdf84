"""One snapshot on its way into the table: written, offered, and offered again when another writer was faster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.errors import CommitConflict
from penstock.table.commit.changes import Changes, record_delta
from penstock.table.commit.lists import Lists
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.schema.options import Options

log = logging.getLogger(__name__)

Check = Callable[[Snapshot | None, bool], Changes]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who commits, what number the commit has, and what it says of itself."""

    user: str
    identifier: int
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retries:
    most: int
    first_wait: float
    longest_wait: float
    timeout: float | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Retries:
        read = Options(options)
        timeout = read.duration("commit.timeout", None)
        return cls(
            read.integer("commit.max-retries", 10),
            read.duration("commit.min-retry-wait", 10) / 1000,
            read.duration("commit.max-retry-wait", 10_000) / 1000,
            None if timeout is None else timeout / 1000,
        )

    def wait(self, attempt: int, jitter: float) -> float:
        return min(self.first_wait * float(2**attempt), self.longest_wait) * (0.8 + 0.4 * jitter)


def land(store: TableStore, identity: Identity, retries: Retries, check: Check) -> Snapshot:
    """Make the changes that `check` gives for the newest snapshot the next one.

    `check` is asked before every attempt, with whether this is the first, and raises what cannot be mended by trying
    again. A storage error leaves it open whether the snapshot stands; the next attempt looks before it writes, and
    until then nothing is deleted.
    """
    lists = Lists(store)
    started = store.ambient.now_millis()
    doubt: OSError | None = None
    for attempt in range(retries.most + 1):
        latest = store.snapshots.latest()
        if doubt is not None and (landed := _landed(store, lists, latest)) is not None:
            return landed
        try:
            changes = check(latest, attempt == 0)
            snapshot = _next_snapshot(store, identity, latest, changes, lists)
        except CommitConflict:
            if doubt is None:
                lists.discard_all()
            raise
        try:
            if store.snapshots.create(snapshot):
                return snapshot
        except OSError as reason:
            log.warning("commit uncertain table=%s snapshot=%d reason=%s", store.name, snapshot.id, reason)
            doubt = reason
        else:
            lists.discard_for_retry()
        waited = store.ambient.now_millis() - started
        if retries.timeout is not None and waited > retries.timeout * 1000:
            break
        store.ambient.sleep(retries.wait(attempt, store.ambient.jitter()))
    if doubt is not None:
        if (landed := _landed(store, lists, store.snapshots.latest())) is not None:
            return landed
        raise doubt
    lists.discard_all()
    raise CommitConflict(
        f"other writers were faster {retries.most + 1} times",
        table=store.name,
        hint="raise commit.max-retries, or let fewer jobs commit to this table",
    )


def _landed(store: TableStore, lists: Lists, latest: Snapshot | None) -> Snapshot | None:
    """Our own snapshot, when an attempt that looked failed did land: its delta list bears our name."""
    offered = lists.offered_since
    snapshot = latest
    while snapshot is not None and offered is not None and snapshot.id >= offered:
        if snapshot.delta_manifest_list == lists.delta_name:
            return snapshot
        snapshot = store.snapshots.find(snapshot.id - 1)
    return None


def _next_snapshot(
    store: TableStore, identity: Identity, latest: Snapshot | None, changes: Changes, lists: Lists
) -> Snapshot:
    schema = store.schema()
    written = lists.write(latest, changes, schema)
    delta = record_delta(changes.entries)
    before = latest.total_record_count if latest else 0
    inherited = latest.statistics if latest and latest.schema_id == schema.id else None
    watermarks = [mark for mark in (identity.watermark, latest.watermark if latest else None) if mark is not None]
    return Snapshot(
        id=latest.id + 1 if latest else 1,
        schema_id=schema.id,
        base_manifest_list=written.base.name,
        base_manifest_list_size=written.base.size,
        delta_manifest_list=written.delta.name,
        delta_manifest_list_size=written.delta.size,
        changelog_manifest_list=written.changelog.name if written.changelog else None,
        changelog_manifest_list_size=written.changelog.size if written.changelog else None,
        index_manifest=written.index_manifest,
        commit_user=identity.user,
        commit_identifier=identity.identifier,
        commit_kind=changes.kind,
        time_millis=store.ambient.now_millis(),
        total_record_count=(before if changes.base is None else record_delta(changes.base)) + delta,
        delta_record_count=delta,
        changelog_record_count=record_delta(changes.changelog),
        watermark=max(watermarks) if watermarks else None,
        statistics=changes.statistics or inherited,
        properties=dict(identity.properties),
        next_row_id=latest.next_row_id if latest else 0,
    )
