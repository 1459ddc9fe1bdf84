"""Adding one snapshot to a table: write its manifest lists, commit it, retry when another writer was faster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.errors import CommitConflict, PenstockError, StoreError
from penstock.storage.base import store_error
from penstock.table.commit.changes import CommitChanges, record_delta, with_row_ids
from penstock.table.commit.identity import Identity, OnlyOnce
from penstock.table.commit.manifest_lists import ManifestListWriter
from penstock.table.errors import ManifestMissing
from penstock.table.iceberg.publication import publish_if_enabled
from penstock.table.iceberg.types import is_enabled
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_times import next_time
from penstock.table.meta.store import TableStore
from penstock.table.options.commits import (
    COMMIT_MAX_RETRIES,
    COMMIT_MAX_RETRY_WAIT,
    COMMIT_MIN_RETRY_WAIT,
    COMMIT_TIMEOUT,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)

Check = Callable[[Snapshot | None, bool], CommitChanges]


@dataclass(frozen=True, slots=True)
class Retries:
    """The limits of the commit retries, times in seconds."""

    most: int
    first_wait: float
    longest_wait: float
    timeout: float | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Retries:
        """Build from the options of the table."""
        read = TableOptions(options)
        timeout = read[COMMIT_TIMEOUT]
        return cls(
            read[COMMIT_MAX_RETRIES],
            read[COMMIT_MIN_RETRY_WAIT] / 1000,
            read[COMMIT_MAX_RETRY_WAIT] / 1000,
            None if timeout is None else timeout / 1000,
        )

    def wait(self, attempt: int, jitter: float) -> float:
        """Return the seconds to wait after an attempt.

        The wait grows exponentially, with up to 20 percent of jitter either way.
        """
        # Jitter, because writers that lost the same race would meet again. The exponent is bounded, or the float
        # would overflow.
        return min(self.first_wait * 2.0 ** min(attempt, 60), self.longest_wait) * (0.8 + 0.4 * jitter)


def commit_snapshot(
    store: TableStore,
    identity: Identity,
    retries: Retries,
    check: Check,
    only_once: OnlyOnce | None = None,
    newest: Snapshot | None = None,
) -> Snapshot:
    """Commit the changes that `check` returns for the newest snapshot as the next snapshot, and return it.

    `check` is called before every attempt, with the newest snapshot and whether the attempt is the first; it raises
    when a further attempt cannot succeed. `only_once` is also checked before every attempt: if two processes commit the
    same identifier at the same time, one of them gets AlreadyCommitted. `newest` is the newest snapshot if the caller
    has just read it: the first attempt does not read it again.

    CommitConflict, AlreadyCommitted and errors of `check` mean that no attempt took effect and none will: the caller
    may delete the files it wrote. After an OSError, including StoreError, the snapshot may exist or appear later, so
    nothing is deleted. Call it again with the same identifier to find out.

    Then the snapshot is published as Iceberg metadata, if the table has it.
    """
    try:
        snapshot = _Commit(store, identity, retries, check, only_once, newest).run()
    except OSError as failure:
        raise store_error(failure, "the store failed during a commit", table=store.name) from failure
    # The version that the attempt has just read: a table without Iceberg metadata costs no further requests.
    if is_enabled(store.schemas.get(snapshot.schema_id)):
        publish_if_enabled(store)
    return snapshot


@dataclass(slots=True)
class _Commit:
    """The attempts of one commit.

    `uncertain` are the snapshots whose put got no clear reply, and `failure` the last error of the store: each of them
    may be in the table, or may still appear as long as its id is free.
    """

    store: TableStore
    identity: Identity
    retries: Retries
    check: Check
    only_once: OnlyOnce | None
    newest: Snapshot | None = None
    lists: ManifestListWriter = field(init=False)
    uncertain: list[Snapshot] = field(default_factory=list)
    failure: OSError | None = None

    def __post_init__(self) -> None:
        self.lists = ManifestListWriter(self.store)

    def run(self) -> Snapshot:
        """Make attempts until one takes effect; CommitConflict when all of them were too late."""
        ambient = self.store.ambient
        started = ambient.elapsed_millis()
        for attempt in range(self.retries.most + 1):
            confirmed = self._attempt(first=attempt == 0)
            if confirmed is not None:
                return confirmed
            waited = ambient.elapsed_millis() - started
            if self.retries.timeout is not None and waited > self.retries.timeout * 1000:
                break
            ambient.sleep(self.retries.wait(attempt, ambient.jitter()))
        # A put that failed in the last attempt may have taken effect since.
        confirmed = self._confirmed(self.store.snapshots.latest())
        if confirmed is not None:
            return confirmed
        self._refuse_uncertain()
        self.lists.discard_all()
        raise CommitConflict(
            f"other writers committed first {self.retries.most + 1} times",
            table=self.store.name,
            hint="raise commit.max-retries, or commit to this table from fewer jobs",
        )

    def _attempt(self, *, first: bool) -> Snapshot | None:
        """Make one attempt; return the committed snapshot, or None to try again."""
        latest = self.newest if first and self.newest is not None else self.store.snapshots.latest()
        # An earlier attempt may have taken effect although its reply was lost: it must not be committed twice.
        confirmed = self._confirmed(latest)
        if confirmed is not None:
            return confirmed
        try:
            if self.only_once is not None:
                self.only_once.check(self.store, self.identity.user, latest)
            schema = self._schema(first=first)
            changes = self.check(latest, first)
            snapshot = _next_snapshot(self.store, schema, self.identity, latest, changes, self.lists)
        except PenstockError as error:
            # The snapshot was the newest when the attempt began, and has expired while its manifests were read.
            if isinstance(error, ManifestMissing) and self._is_outdated(latest):
                self.lists.discard_attempt()
                return None
            self._refuse_uncertain()
            self.lists.discard_all()
            raise
        return self._put(snapshot, changes)

    def _schema(self, *, first: bool) -> TableSchema:
        """Return the newest schema version."""
        # The first half, just before this one, has listed the versions.
        known = self.store.schemas.last_read() if first and self.store.snapshots.is_second_half else None
        return known if known is not None and self.store.schemas.is_newest(known) else self.store.schema()

    def _is_outdated(self, latest: Snapshot | None) -> bool:
        """Return whether there are newer snapshots by now: this one may have expired while its manifests were read."""
        newest = self.store.snapshots.latest()
        return latest is not None and newest is not None and newest.id > latest.id

    def _put(self, snapshot: Snapshot, changes: CommitChanges) -> Snapshot | None:
        try:
            if self.store.commits.commit_snapshot(self.store, snapshot, changes.entries):
                return snapshot
        except CommitConflict:  # for example, no lock was obtained: this snapshot will never be in the table
            self._refuse_uncertain()
            self.lists.discard_all()
            raise
        except OSError as reason:
            log.warning("event=commit_uncertain table=%s snapshot=%d reason=%s", self.store.name, snapshot.id, reason)
            # The file may exist, and refers to the manifests of this attempt: they are kept.
            self.uncertain.append(snapshot)
            self.failure = reason
            self.lists.keep_attempt()
        else:
            self.lists.discard_attempt()
        return None

    def _confirmed(self, latest: Snapshot | None) -> Snapshot | None:
        """Return the uncertain snapshot that is in the table.

        An uncertain snapshot is settled once another one has its id.
        """
        for number in sorted({snapshot.id for snapshot in self.uncertain}):
            found = self.store.snapshots.find(number)
            if found is None:
                if latest is not None and latest.id >= number:
                    self._refuse_uncertain()  # it existed and has expired, so its author cannot be determined
                continue
            for snapshot in self.uncertain:
                # Base manifest list names are unique per attempt.
                if snapshot.id == number and snapshot.base_manifest_list == found.base_manifest_list:
                    return found
            self.uncertain = [snapshot for snapshot in self.uncertain if snapshot.id != number]
        return None

    def _refuse_uncertain(self) -> None:
        """Raise StoreError while it is uncertain whether a snapshot of this commit is, or will be, in the table."""
        if not self.uncertain:
            return
        raise StoreError(
            "the store failed during a commit, and it is not known whether the commit took effect",
            table=self.store.name,
            snapshot=self.uncertain[-1].id,
            reason=str(self.failure),
            hint="run it again when the store is available; a commit with an identifier is not repeated, but one"
            " without"
            " is: check that snapshot first",
        ) from self.failure


def _next_snapshot(
    store: TableStore,
    schema: TableSchema,
    identity: Identity,
    latest: Snapshot | None,
    changes: CommitChanges,
    lists: ManifestListWriter,
) -> Snapshot:
    changes, next_row_id = with_row_ids(changes, latest, schema.options)
    written = lists.write(latest, changes, schema)
    delta = record_delta(changes.entries)
    before = latest.total_record_count if latest else 0
    # As in Java, statistics of an older schema version are not inherited.
    inherited = latest.statistics if latest and latest.schema_id == schema.id else None
    # The watermark of a table never goes back, also when different jobs commit.
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
        time_millis=next_time(store.ambient.now_millis(), latest, store.name),
        total_record_count=(before if changes.base is None else record_delta(changes.base)) + delta,
        delta_record_count=delta,
        changelog_record_count=record_delta(changes.changelog),
        watermark=max(watermarks) if watermarks else None,
        statistics=changes.statistics or inherited,
        properties=dict(identity.properties),
        next_row_id=next_row_id,
    )
